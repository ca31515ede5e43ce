"""Parameters in runs that are exchanged as one flat tensor each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from raycipe.framework.errors import RunError

PRECISIONS = {"fp32": torch.float32, "fp64": torch.float64}


class Fragment:
    """Parameters in order, all of one group: flattened and concatenated they are one tensor of `numel` entries."""

    def __init__(self, parameters: Sequence[Tensor], group: dict[str, Any], error_dtype: str = "auto") -> None:
        self.parameters, self.group = list(parameters), group
        self.shapes = [tuple(parameter.shape) for parameter in self.parameters]
        self.sizes = [parameter.numel() for parameter in self.parameters]
        self.numel = sum(self.sizes)
        widest = max((parameter.dtype.itemsize for parameter in self.parameters), default=4)
        self.dtype = PRECISIONS.get(error_dtype, torch.float64 if widest > 4 else torch.float32)

    def zeros(self) -> Tensor:
        """A flat tensor for buffers."""
        return torch.zeros(self.numel, dtype=self.dtype, device=self.parameters[0].device)

    def views(self, flat: Tensor) -> list[Tensor]:
        """The parts of a flat tensor in the parameters' shapes."""
        parts = torch.split(flat, self.sizes)
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def gradient(self) -> Tensor:
        """All gradients, flat; those that are missing count as zero. It may be the gradients' own memory."""
        gradients = [parameter.grad for parameter in self.parameters]
        for gradient in gradients:
            if gradient is not None and gradient.is_sparse:
                raise RunError("recipe", "sparse gradients can't be compressed", "use a dense embedding", "optimizer")
        whole = _in_one_piece(gradients, self.numel)
        if whole is not None and whole.dtype == self.dtype:
            return whole
        flat = self.zeros()
        pairs = zip(self.views(flat), gradients, strict=True)
        there = [(view, gradient) for view, gradient in pairs if gradient is not None]
        if there:
            torch._foreach_copy_([view for view, _ in there], [gradient for _, gradient in there])
        return flat

    def weights(self) -> Tensor:
        """A flat copy of the parameters."""
        flat = self.zeros()
        torch._foreach_copy_(self.views(flat), [parameter.detach() for parameter in self.parameters])
        return flat

    def add_(self, flat: Tensor, factor: float) -> None:
        """parameters += factor · flat."""
        torch._foreach_add_([parameter.data for parameter in self.parameters], self.views(flat), alpha=factor)

    def set_(self, flat: Tensor) -> None:
        """parameters = flat."""
        torch._foreach_copy_([parameter.data for parameter in self.parameters], self.views(flat))


def _in_one_piece(gradients: Sequence[Tensor | None], numel: int) -> Tensor | None:
    """The gradients as one tensor, where they lie one after the other, as the training loop lays them."""
    first = gradients[0]
    if first is None:
        return None
    where, base = first.data_ptr(), first.untyped_storage().data_ptr()
    for gradient in gradients:
        if gradient is None or gradient.data_ptr() != where or not gradient.is_contiguous():
            return None
        if gradient.dtype != first.dtype or gradient.untyped_storage().data_ptr() != base:
            return None
        where += gradient.nbytes
    return first.as_strided((numel,), (1,))


def cut(groups: Sequence[dict[str, Any]], megabytes: float, error_dtype: str) -> list[Fragment]:
    """The groups' parameters in fragments of at most so many megabytes (a larger parameter is one of its own)."""
    fragments = []
    for group in groups:
        run: list[Tensor] = []
        for parameter in group["params"]:
            if run and sum(other.nbytes for other in run) + parameter.nbytes > megabytes * 1e6:
                fragments.append(Fragment(run, group, error_dtype))
                run = []
            run.append(parameter)
        if run:
            fragments.append(Fragment(run, group, error_dtype))
    return fragments


def per_parameter(fragments: Sequence[Fragment], flats: Sequence[Tensor]) -> list[Tensor]:
    """Flat tensors of all fragments as one list of tensors, one a parameter: what a checkpoint holds, so that another
    cut of the parameters can take it up."""
    return [view for fragment, flat in zip(fragments, flats, strict=True) for view in fragment.views(flat)]


def fill(fragments: Sequence[Fragment], flats: Sequence[Tensor], saved: Sequence[Tensor]) -> None:
    """Fill flat tensors from such a list."""
    views = per_parameter(fragments, flats)
    if [tuple(view.shape) for view in views] != [tuple(tensor.shape) for tensor in saved]:
        raise RunError("storage", "the checkpoint's buffers belong to other parameters", where="optimizer")
    for view, tensor in zip(views, saved, strict=True):
        view.copy_(tensor)
