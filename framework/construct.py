"""Builds every component of a checked recipe once, in the driver, before any worker starts.

A constructor's complaint, a missing file or a label out of range is then a located message at once, not a worker's
traceback minutes later. Modules are built on the meta device: nothing is allocated.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from raycipe.framework.errors import Problem, RecipeError
from raycipe.framework.splits import Split, TensorSplit
from raycipe.framework.tree import Node


class Constructed(NamedTuple):
    """What the plan can say now: facts of the data, examples per split, the model's number of parameters."""

    facts: Mapping[str, Any]
    examples: Mapping[str, int]
    fingerprint: Mapping[str, Any]
    parameters: int | None


def construct(nodes: Mapping[str, Node], seed: int) -> Constructed:
    """Build data (and load it), model, task, optimizer and measures. Raises RecipeError with every problem found.

    `RunError("data", ...)` of a source that is missing or does not fit the task passes through.
    """
    problems: list[Problem] = []
    data = _attempt(problems, nodes.get("data"), "data", "data")
    facts: Mapping[str, Any] = {}
    splits: Mapping[str, Any] = {}
    if data is not None:
        splits = data.load(seed)
        facts = data.facts
    model = None
    if not problems:
        model = _attempt(problems, nodes.get("model"), "models", "model", facts=facts, meta=True)
    task = _attempt(problems, nodes.get("task"), "tasks", "task", facts=facts)
    _attempt(problems, nodes.get("optimizer"), "optimizers", "optimizer", given=_parameters(model))
    measures = nodes["measures"].value if "measures" in nodes else None
    for index, node in enumerate(measures or []):
        _attempt(problems, node, "measures", f"measures.{index}", facts=facts)
    if problems:
        raise RecipeError(problems)
    if task is not None and splits:
        task.check(facts, splits)
    count = sum(parameter.numel() for parameter in model.parameters()) if model is not None else None
    examples = {name: len(split) for name, split in splits.items()}
    return Constructed(facts, examples, {"sha256": fingerprint(splits), "examples": examples}, count)


def fingerprint(splits: Mapping[str, Split]) -> str | None:
    """sha256 of all tensors by split and name; None where data is read example by example or streamed."""
    digest = sha256()
    for name, split in sorted(splits.items()):
        if not isinstance(split, TensorSplit):
            return None
        for key, tensor in sorted(split.tensors.items()):
            digest.update(f"{name} {key} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.contiguous().cpu().view(-1).numpy().tobytes())
    return digest.hexdigest()


def _parameters(model: Any) -> dict[str, Any]:
    """Stand-ins for the parameters: optimizers look at shapes, and some refuse the meta device."""
    import torch

    shapes = [parameter.shape for parameter in model.parameters()] if model is not None else [torch.Size([1])]
    return {"params": [torch.nn.Parameter(torch.zeros(()).expand(shape)) for shape in shapes]}


def _attempt(
    problems: list[Problem],
    node: Node | None,
    kind: str,
    path: str,
    given: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
    meta: bool = False,
) -> Any:
    """Build one component; its complaints go to `problems`. None where the recipe has no such section."""
    if node is None:
        return None
    import torch

    from raycipe.framework.registry import build

    try:
        with torch.device("meta" if meta else "cpu"):
            return build(node, kind, path, given=given, facts=facts)
    except RecipeError as error:
        problems.extend(error.problems)
    except ValueError as error:  # the constructor's word on its arguments, together
        problems.append(Problem("out-of-range", node.at, path, str(error)))
    return None
