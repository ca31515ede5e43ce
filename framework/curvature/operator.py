"""The Hessian or Gauss-Newton matrix of a mean loss, as an operator on flat parameter vectors."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from raycipe.framework.contracts import Batch, Loss

LossOf = Callable[[nn.Module, Batch], "Loss | Tensor"]
KEPT_BYTES = 1_000_000_000  # of graphs that are built once and kept for all products
BLOCK_BYTES = {"cpu": 16_000_000, "cuda": 1_000_000_000}  # of the vectors that are multiplied at once: caches, memory


class Curvature:
    """The matrix of second derivatives of L(w) = sum_b weight_b loss_b(w) / sum_b weight_b at the model's weights.

    hessian: d²L/dw². ggn: the mean of J' H_f J, with J the derivative of the outputs f and H_f the loss's Hessian in
    them; symmetric positive semidefinite for a convex loss.

    Everything is computed on a copy of the model in eval mode (no dropout, running statistics), so the given model and
    the random generators stay as they are, and every product is of the same, fixed matrix. Vectors are flat: the
    selected entries of the selected parameters, in the order of `model.named_parameters()`; tied parameters count once.

    Args:
        model: on the device where everything is computed
        loss: (model, batch) -> `Loss` or a scalar, a mean over the batch; `task.loss` is one. For ggn it has to call
            the model once, and to use nothing of it but its outputs, one tensor
        batches: dicts of tensors; moved to the model's device and, where they are floating, cast to `dtype`
        kind: which matrix
        masks: parameter name -> boolean tensor of its shape, which entries count; parameters not named don't count.
            None: all entries of all parameters with `requires_grad`
        dtype: None keeps the model's; float64 tells the sign of small eigenvalues, float32 is about twice as fast
        kept_bytes: graphs up to this size are built once and kept; beyond it each product builds them anew
    """

    def __init__(
        self,
        model: nn.Module,
        loss: LossOf,
        batches: Iterable[Batch],
        *,
        kind: Literal["hessian", "ggn"] = "hessian",
        masks: Mapping[str, Tensor] | None = None,
        dtype: torch.dtype | None = torch.float64,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        if kind not in ("hessian", "ggn"):
            raise ValueError(f"kind: must be hessian or ggn, not {kind!r}")
        self.kind = kind
        self.loss_of = loss
        self.kept_bytes = kept_bytes
        self.model = copy.deepcopy(model).eval()
        self._select(masks)
        self.dtype = dtype or self.parameters[0].dtype
        self.model.to(self.dtype)
        self.device = self.parameters[0].device
        self.batches = [self._cast(batch) for batch in batches]
        if not self.batches:
            raise ValueError("batches: there are none")
        self._graphs: list[_Graph] | None = None
        self._is_kept: bool | None = None

    def _select(self, masks: Mapping[str, Tensor] | None) -> None:
        named = dict(self.model.named_parameters())
        unknown = sorted(set(masks or {}) - set(named))
        if unknown:
            raise ValueError(f"masks: the model has no parameter {unknown[0]!r}; it has {', '.join(named)}")
        self.names = [name for name, p in named.items() if (name in masks if masks is not None else p.requires_grad)]
        if not self.names:
            raise ValueError("masks: no parameter is left" if masks is not None else "model: no parameter is trained")
        for name, parameter in named.items():
            parameter.requires_grad_(name in self.names)
            parameter.grad = None
        self.parameters = [named[name] for name in self.names]
        self.shapes = [parameter.shape for parameter in self.parameters]
        self.index: Tensor | None = None
        total = sum(parameter.numel() for parameter in self.parameters)
        if masks is not None:
            for name in self.names:
                if masks[name].shape != named[name].shape:
                    found, wanted = tuple(masks[name].shape), tuple(named[name].shape)
                    raise ValueError(f"masks: {name!r} has shape {found}, the parameter {wanted}")
            flat = torch.cat([masks[name].reshape(-1).bool() for name in self.names]).to(self.parameters[0].device)
            if not bool(flat.all()):
                self.index = flat.nonzero().reshape(-1)
        self.size = total if self.index is None else len(self.index)
        self._total = total

    def _cast(self, batch: Batch) -> Batch:
        moved = {name: tensor.to(self.device) for name, tensor in batch.items()}
        return {name: t.to(self.dtype) if t.is_floating_point() else t for name, t in moved.items()}

    # ------------------------------------------------------------------------------------------ vectors

    @property
    def point(self) -> Tensor:
        """The weights, (size,)."""
        return self._pick(torch.cat([p.detach().reshape(-1) for p in self.parameters]))

    @torch.no_grad()
    def move_to(self, point: Tensor) -> None:
        """Put the operator at other weights, (size,): later products are of the matrix there."""
        whole = torch.cat([p.detach().reshape(-1) for p in self.parameters])
        if self.index is None:
            whole = point.to(whole)
        else:
            whole[self.index] = point.to(whole)
        for parameter, part in zip(self.parameters, self._parts(whole), strict=True):
            parameter.copy_(part)
        self._graphs = None

    def over(self, batches: Iterable[Batch]) -> Curvature:
        """The same operator over other examples, sharing the copy of the model; graphs are its own."""
        found = copy.copy(self)
        found.batches = [self._cast(batch) for batch in batches]
        found._graphs, found._is_kept = None, None
        return found

    def named(self, vector: Tensor) -> dict[str, Tensor]:
        """A flat vector as parameter name -> tensor in the parameter's shape; zero where nothing was selected."""
        return dict(zip(self.names, self._parts(self._spread(vector)), strict=True))

    def _pick(self, whole: Tensor) -> Tensor:  # (..., total) -> (..., size)
        return whole if self.index is None else whole[..., self.index]

    def _spread(self, vector: Tensor) -> Tensor:  # (..., size) -> (..., total)
        if self.index is None:
            return vector
        whole = vector.new_zeros(*vector.shape[:-1], self._total)
        whole[..., self.index] = vector
        return whole

    def _parts(self, whole: Tensor) -> list[Tensor]:  # (..., total) -> (..., *shape) each
        pieces = torch.split(whole, [shape.numel() for shape in self.shapes], dim=-1)
        return [piece.reshape(*whole.shape[:-1], *shape) for piece, shape in zip(pieces, self.shapes, strict=True)]

    def _flat(self, parts: Sequence[Tensor], leading: tuple[int, ...] = ()) -> Tensor:
        return self._pick(torch.cat([part.reshape(*leading, -1) for part in parts], dim=-1))

    # ------------------------------------------------------------------------------------------ loss, gradient, product

    def loss(self) -> float:
        """L at the weights."""
        with torch.no_grad():
            found = [self._loss(self.model, batch) for batch in self.batches]
        return float(sum(value * weight for value, weight in found) / sum(weight for _, weight in found))

    def gradient(self) -> Tensor:
        """dL/dw, (size,)."""
        total, weights = torch.zeros(self._total, dtype=self.dtype, device=self.device), 0.0
        for batch in self.batches:
            value, weight = self._loss(self.model, batch)
            parts = torch.autograd.grad(value, self.parameters, allow_unused=True, materialize_grads=True)
            total += weight * torch.cat([part.reshape(-1) for part in parts])
            weights += weight
        return self._pick(total / weights)

    def product(self, vectors: Tensor) -> Tensor:
        """H v for v of shape (size,), or each row of (k, size) at once."""
        if vectors.shape[-1:] != (self.size,) or vectors.dim() > 2:
            raise ValueError(f"vectors: must have shape ({self.size},) or (k, {self.size}), not {tuple(vectors.shape)}")
        given = vectors.to(device=self.device, dtype=self.dtype)
        parts = self._parts(self._spread(given))
        total, weights = torch.zeros_like(given), 0.0
        for graph in self._walk():
            total = total + graph.weight * self._flat(graph.product(parts, vectors.dim() == 2), given.shape[:-1])
            weights += graph.weight
        return total / weights

    def matrix(self, rows: int | None = None) -> Tensor:
        """The whole matrix, (size, size), made symmetric; `rows` at a time (default: as memory allows)."""
        widest = max(self._total, max(batch_size(batch) for batch in self.batches) * 64)
        block = rows or max(1, min(512, BLOCK_BYTES.get(self.device.type, 16_000_000) // (8 * widest)))
        identity = torch.eye(self.size, dtype=self.dtype, device=self.device)
        whole = torch.cat([self.product(part) for part in torch.split(identity, block)])
        return (whole + whole.T) / 2

    def _loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, float]:
        with _twice_differentiable(self.device):
            found = self.loss_of(model, batch)
        if isinstance(found, Tensor):
            return found, float(batch_size(batch))
        weight = batch_size(batch) if found.weight is None else float(found.weight)
        return found.value, float(weight)

    def _walk(self) -> Iterator[_Graph]:
        """The batches' graphs: built once and kept, or one after the other where they are too large together."""
        if self._graphs is None and self._is_kept is None:
            self._is_kept = self._bytes() <= self.kept_bytes
        if self._is_kept and self._graphs is None:
            self._graphs = [self._graph(batch) for batch in self.batches]
        yield from self._graphs or (self._graph(batch) for batch in self.batches)

    def _bytes(self) -> float:
        """What the graphs of all batches take, judged by the first one."""
        counted: dict[int, int] = {}

        def pack(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            counted[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            graph = self._graph(self.batches[0])  # must live until all is counted: freed memory has its address again
        examples = sum(batch_size(batch) for batch in self.batches)
        del graph
        return sum(counted.values()) / batch_size(self.batches[0]) * examples

    def _graph(self, batch: Batch) -> _Graph:
        if self.kind == "hessian":
            value, weight = self._loss(self.model, batch)
            return _Hessian(value, weight, self.parameters)
        with _twice_differentiable(self.device):
            taken = _Taken(self.model)
            self.loss_of(taken, batch)
            outputs = taken.outputs
        if outputs is None:
            raise TypeError("loss: for ggn it must call the model, once, and the model must give one tensor")
        given = outputs.detach().requires_grad_()
        value, weight = self._loss(_Given(given), batch)
        return _GaussNewton(outputs, given, value, weight, self.parameters)


def batch_size(batch: Batch) -> int:
    return len(next(iter(batch.values())))


class _Graph(ABC):
    weight: float

    @abstractmethod
    def product(self, parts: Sequence[Tensor], batched: bool) -> list[Tensor]:
        """The matrix of this batch times a vector (or, `batched`, several), in the parameters' shapes."""


class _Hessian(_Graph):
    """H v = d(g'v)/dw, through the kept graph of the gradient g."""

    def __init__(self, value: Tensor, weight: float, parameters: Sequence[Tensor]) -> None:
        self.weight, self.parameters = weight, parameters
        self.gradient = _derivative(value, parameters, create_graph=True)

    def product(self, parts: Sequence[Tensor], batched: bool) -> list[Tensor]:
        pairs = [(g, v) for g, v in zip(self.gradient, parts, strict=True) if g.requires_grad]
        if not pairs:  # a loss that is linear in the weights
            return [torch.zeros_like(part) for part in parts]
        gradients, vectors = zip(*pairs, strict=True)
        return _derivative(gradients, self.parameters, vectors, batched=batched)


class _GaussNewton(_Graph):
    """J' H_f J v. The product J v comes from J'u, which is linear in u: its derivative in u along v."""

    def __init__(
        self, outputs: Tensor, given: Tensor, value: Tensor, weight: float, parameters: Sequence[Tensor]
    ) -> None:
        self.weight, self.parameters, self.outputs, self.given = weight, parameters, outputs, given
        (self.slope,) = _derivative(value, [given], create_graph=True)
        self.dummy = torch.zeros_like(outputs, requires_grad=True)
        self.transposed = _derivative(outputs, parameters, self.dummy, create_graph=True)

    def product(self, parts: Sequence[Tensor], batched: bool) -> list[Tensor]:
        (moved,) = _derivative(self.transposed, [self.dummy], parts, batched=batched)
        if not self.slope.requires_grad:
            return [torch.zeros_like(part) for part in parts]
        (curved,) = _derivative(self.slope, [self.given], moved, batched=batched)
        return _derivative(self.outputs, self.parameters, curved, batched=batched)


def _derivative(
    values: Any, inputs: Sequence[Tensor], weights: Any = None, *, create_graph: bool = False, batched: bool = False
) -> list[Tensor]:
    """sum weights · d values / d inputs; the graph stays. `batched`: a leading dimension of `weights` is kept."""
    return list(
        torch.autograd.grad(
            values,
            inputs,
            weights,
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
            materialize_grads=True,
            is_grads_batched=batched,
        )
    )


def _twice_differentiable(device: torch.device) -> Any:
    """Fused attention has no second derivative; the plain one has."""
    return sdpa_kernel(SDPBackend.MATH) if device.type in ("cpu", "cuda") else nullcontext()


class _Taken(nn.Module):
    """Remembers the outputs of the one call that a loss makes."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.outputs: Tensor | None = None
        self.calls = 0

    def forward(self, *inputs: Any) -> Any:
        found = self.model(*inputs)
        self.calls += 1
        self.outputs = found if isinstance(found, Tensor) and self.calls == 1 else None
        return found


class _Given(nn.Module):
    """Stands for the model when its outputs are known."""

    def __init__(self, outputs: Tensor) -> None:
        super().__init__()
        self.outputs = outputs

    def forward(self, *inputs: Any) -> Tensor:
        return self.outputs
