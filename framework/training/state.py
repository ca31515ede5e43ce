"""Random generator states, weights and weights' averages as plain tensors and numbers, loadable without pickle."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from raycipe.framework.errors import RunError
from raycipe.framework.streams import key

State = dict[str, Any]


def seed_all(seed: int, *parts: int) -> None:
    """Seed the global generators of Python, numpy and torch for the uses (seed, "torch", *parts)."""
    number = key(seed, "torch", *parts)
    random.seed(number)
    np.random.seed(number % 2**32)
    torch.manual_seed(number)


def capture_rng() -> State:
    """The global generators' states, as values that `torch.load(weights_only=True)` accepts."""
    version, numbers, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    state: State = {
        "python": [version, list(numbers), gauss],
        "numpy": [str(name), torch.from_numpy(np.asarray(keys).astype(np.int64)), position, has_gauss, cached],
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def restore_rng(state: State) -> None:
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])


def weights(model: nn.Module) -> tuple[dict[str, Tensor], dict[str, str]]:
    """(tensors by name, contiguous and each with its own memory; name -> the name that it is tied to)."""
    tensors: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    names: dict[int, str] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) in names:
            tied[name] = names[id(tensor)]
            continue
        names[id(tensor)] = name
        plain = tensor.detach()
        alone = plain.is_contiguous() and plain.untyped_storage().nbytes() == plain.nbytes
        tensors[name] = plain if alone else plain.contiguous().clone()
    return tensors, tied


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], tied: Mapping[str, str], source: str) -> None:
    """Fill `model`. Raises RunError naming the entries that don't fit."""
    given = {**tensors, **{name: tensors[first] for name, first in tied.items()}}
    wanted = model.state_dict()
    wrong = [f"{name}: missing" for name in wanted if name not in given]
    wrong += [f"{name}: not in the model" for name in given if name not in wanted]
    wrong += [
        f"{name}: shape {list(given[name].shape)}, the model has {list(tensor.shape)}"
        for name, tensor in wanted.items()
        if name in given and given[name].shape != tensor.shape
    ]
    if wrong:
        raise RunError("storage", f"{source} does not fit the model", "\n".join(wrong[:8]), where="model")
    model.load_state_dict(given)


def unsaved_buffers(model: nn.Module) -> dict[str, Tensor]:
    """Buffers that a model leaves out of its state_dict (`persistent=False`), by name."""
    saved = model.state_dict().keys()
    return {name: buffer for name, buffer in model.named_buffers(remove_duplicate=False) if name not in saved}


@torch.no_grad()
def fill_buffers(model: nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Give buffers their values back; one that forward sets anew may be missing yet, or have another shape."""
    for name, tensor in saved.items():
        path, _, last = name.rpartition(".")
        owner = model.get_submodule(path)
        old = getattr(owner, last, None)
        if isinstance(old, Tensor) and old.shape == tensor.shape:
            old.copy_(tensor)
        else:
            device = next((parameter.device for parameter in model.parameters()), tensor.device)
            setattr(owner, last, tensor.to(device, copy=True))


def digest(tensors: Sequence[Tensor]) -> str:
    """A fingerprint of exact bits."""
    whole = hashlib.sha256()
    for tensor in tensors:
        whole.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()


class Average:
    """An exponential moving average of a model; integers are copied.

    average += (1 - d_t) (weights - average), with d_t = min(decay, (1 + t) / (10 + t)) after t updates: otherwise the
    random initial weights would weigh in for the first 1 / (1 - decay) updates.
    """

    def __init__(self, model: nn.Module, copy: nn.Module, decay: float) -> None:
        """`copy` has the structure and start values of `model` and becomes the average."""
        self.model = copy.requires_grad_(False).eval()
        self.decay = decay
        self.updates = 0
        pairs = list(zip(_tensors(copy), _tensors(model), strict=True))
        self.averaged = [(mine, other) for mine, other in pairs if mine.is_floating_point()]
        self.copied = [(mine, other) for mine, other in pairs if not mine.is_floating_point()]

    @torch.no_grad()
    def update(self) -> None:
        mine, others = [pair[0] for pair in self.averaged], [pair[1] for pair in self.averaged]
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        torch._foreach_lerp_(mine, others, 1.0 - decay)
        self.updates += 1
        for copied, other in self.copied:
            copied.copy_(other)


def _tensors(model: nn.Module) -> list[Tensor]:
    """Parameters and buffers, this rank's part of sharded ones, without gradients."""
    parts: list[Tensor] = []
    for tensor in [*model.parameters(), *model.buffers()]:
        local = getattr(tensor.data, "to_local", None)
        parts.append(tensor.data if local is None else local())
    return parts
