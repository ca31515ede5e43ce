"""Shared by the measures that look at a layer: its outputs over a split, with labels."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from raycipe.framework.contracts import Skipped, Trained
from raycipe.framework.splits import Batch, TensorSplit


class Layer(NamedTuple):
    """One layer over a split: `values` (n, d) float64 on the run's device; `labels`, `predicted`, `ids` (n,)."""

    values: Tensor
    labels: Tensor
    predicted: Tensor
    ids: Tensor


def layer_of(trained: Trained, split: str, layer: str) -> Layer:
    """The layer over a split, computed once a run. Raises Skipped if the data has no classes, layer or split.

    `layer` is logits, penultimate (what the last linear module is given), input, or a module's dotted path.
    """
    if "num_classes" not in trained.facts:
        raise Skipped("the data has no classes")
    key = ("layer", split, layer)
    if key not in trained.cache:
        assert trained.model is not None  # the measures' `needs` say so
        parts = [_of_batch(trained.model, batch, layer) for batch in trained.batches(split)]
        found = Layer(*(torch.cat(column) for column in zip(*parts, strict=True)))
        bad = int((~torch.isfinite(found.values)).any(dim=1).sum())
        if bad:
            raise Skipped(f"the layer `{layer}` is not finite for {bad} of {len(found.values)} examples of `{split}`")
        trained.cache[key] = found
    kept: Layer = trained.cache[key]
    return kept


def _of_batch(model: nn.Module, batch: Batch, layer: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    with torch.no_grad():
        values, outputs = activations(model, batch["x"], layer)
    return values.flatten(1).double(), batch["y"], outputs.argmax(dim=-1), batch["id"]


def activations(model: nn.Module, x: Tensor, layer: str) -> tuple[Tensor, Tensor]:
    """(the layer's values, the model's outputs) for inputs x. Hooks are gone afterwards, whatever happens."""
    if layer in ("logits", "input"):
        outputs = model(x)
        return (outputs if layer == "logits" else x), outputs
    seen: list[Tensor] = []
    if layer == "penultimate":
        linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
        if not linear:
            raise Skipped("the model has no linear layer: name a module instead of `penultimate`")
        hooks = [module.register_forward_pre_hook(lambda _, given: seen.append(given[0])) for module in linear]
    else:
        hooks = [_module(model, layer).register_forward_hook(lambda _, given, made: seen.append(made))]
    try:
        outputs = model(x)
    finally:
        for hook in hooks:
            hook.remove()
    if not seen or not isinstance(seen[-1], Tensor):
        raise Skipped(f"the layer `{layer}` gave no tensor")
    return seen[-1], outputs


def _module(model: nn.Module, path: str) -> nn.Module:
    known: dict[str, Any] = dict(model.named_modules())
    if path not in known or not path:
        near = get_close_matches(path, known, 3, 0.0)
        raise Skipped(f"the model has no layer `{path}`; near are {', '.join(near)}, beside logits, penultimate, input")
    module: nn.Module = known[path]
    return module


def head_of(model: nn.Module, x: Tensor) -> nn.Linear | None:
    """The linear module that is called last, if its output is the model's: the classifier on the penultimate layer."""
    called: list[tuple[nn.Linear, Tensor]] = []
    hooks = [
        module.register_forward_hook(lambda module, given, made: called.append((module, made)))
        for module in model.modules()
        if isinstance(module, nn.Linear)
    ]
    try:
        outputs = model(x)
    finally:
        for hook in hooks:
            hook.remove()
    return called[-1][0] if called and called[-1][1] is outputs else None


def flipped_auc(trained: Trained, ids: Tensor, scores: Tensor) -> float | None:
    """How well high scores of training examples tell those whose label was exchanged; None if the data does not say.

    The area under the ROC curve; examples without a finite score are left out.
    """
    from sklearn.metrics import roc_auc_score

    split = trained.splits["train"]
    if not isinstance(split, TensorSplit) or "clean_y" not in split.tensors:
        return None
    there = torch.isfinite(scores).cpu()
    places = ids.cpu()[there]
    is_flipped = (split.tensors["y"][places] != split.tensors["clean_y"][places]).numpy()
    if is_flipped.all() or not is_flipped.any():
        return None
    return float(roc_auc_score(is_flipped, scores.cpu()[there].numpy()))


def stratified(labels: Tensor, most: int, generator: torch.Generator) -> Tensor:
    """At most so many places of `labels` (n,), drawn with each class's share kept, ascending."""
    n = len(labels)
    if n <= most:
        return torch.arange(n)
    order = torch.randperm(n, generator=generator)
    shuffled = labels.cpu()[order]
    by_class = order[shuffled.argsort(stable=True)]  # classes one after the other, each in random order
    places = torch.linspace(0, n - 1, most).round().long()  # every class by its share
    return by_class[places].sort().values
