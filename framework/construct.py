"""Builds every component of a checked recipe once, in the driver, before any worker starts.

A constructor's complaint, a missing file or a label out of range is then a located message at once, not a worker's
traceback minutes later. Modules are built on the meta device: nothing is allocated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from raycipe.framework.errors import Problem, RecipeError, RunError
from raycipe.framework.records import SECTION_KINDS
from raycipe.framework.splits import Split, fingerprint
from raycipe.framework.tree import Node, Place

if TYPE_CHECKING:
    from raycipe.framework.contracts import Task


class Constructed(NamedTuple):
    """What the plan can say now: facts of the data, examples per split, the model's number of parameters."""

    facts: Mapping[str, Any]
    examples: Mapping[str, int]
    fingerprint: Mapping[str, Any]
    parameters: int | None


def construct(nodes: Mapping[str, Node], recipe: Mapping[str, Any]) -> Constructed:
    """Build data (and load it) and every other section's component. Raises RecipeError with every problem found.

    `nodes` are the recipe's sections with their places, `recipe` the same as plain data. A RunError of a source that is
    missing or does not fit becomes a problem at its place, too: nothing has started.
    """
    try:
        return _construct(nodes, recipe)
    except RunError as error:
        raise RecipeError([located(error, nodes)]) from error


def located(error: RunError, nodes: Mapping[str, Node]) -> Problem:
    """A RunError as a problem at the place of the recipe path that it names, or of the nearest one that is written."""
    words = (error.where or ("data" if error.kind == "data" else "")).split(".")
    at, children = Place("recipe"), dict(nodes)
    for word in words:
        if word not in children:
            break
        at = children[word].at
        inside = children[word].value
        children = inside if isinstance(inside, dict) else {}
    code = "file" if error.kind == "data" else "out-of-range"
    return Problem(code, at, ".".join(words), error.message, error.hint)


def _construct(nodes: Mapping[str, Node], recipe: Mapping[str, Any]) -> Constructed:
    seed = recipe["seed"]
    problems: list[Problem] = []
    data = _attempt(problems, nodes.get("data"), "data", "data")
    env = _attempt(problems, nodes.get("env"), "envs", "env")
    facts: Mapping[str, Any] = {}
    splits: Mapping[str, Any] = {}
    if data is not None:
        splits = data.load(seed)
        facts = data.facts
    elif env is not None:
        facts = env.facts()
    model = None
    if not problems:
        model = _attempt(problems, nodes.get("model"), "models", "model", facts=facts, meta=True)
        check_model(model, recipe)
    task = _attempt(problems, nodes.get("task"), "tasks", "task", facts=facts)
    optimizer = _attempt(problems, nodes.get("optimizer"), "optimizers", "optimizer", given=_parameters(model))
    sections = {
        section: _attempt(problems, nodes.get(section), SECTION_KINDS[section], section, {"seed": seed}, facts)
        for section in ("agent", "estimator", "editor", "study")
    }
    measures = nodes["measures"].value if "measures" in nodes else None
    for index, node in enumerate(measures or []):
        _attempt(problems, node, "measures", f"measures.{index}", facts=facts)
    if problems:
        raise RecipeError(problems)
    if task is not None and splits:
        from raycipe.framework.training.build import check_players

        check_players(optimizer, task.saddle)
        task.check(facts, splits)
        check_training(recipe, splits, task)
    if sections["estimator"] is not None and splits:
        from raycipe.framework.scores import check_judged
        from raycipe.framework.tables import folds_of, tables

        found = tables(splits)
        sections["estimator"].check(facts, found)
        if sections["estimator"].folds:
            folds_of(found["train"], facts, sections["estimator"].folds, seed)
        check_judged(recipe, facts, splits, sections["estimator"], sections["study"])
    if "predict" in recipe and data is not None:
        from raycipe.framework.predicting import check_input

        check_input(recipe["predict"], data, recipe["data"]["type"])
    if env is not None and sections["agent"] is not None:
        from raycipe.framework.environments import check_agent

        check_agent(env, sections["agent"], recipe)
    count = sum(parameter.numel() for parameter in model.parameters()) if model is not None else None
    examples = {name: len(split) for name, split in splits.items()}
    digest = {"sha256": fingerprint(splits), "examples": examples} if splits else {}
    return Constructed(facts, examples, digest, count)


def check_model(model: Any, recipe: Mapping[str, Any]) -> None:
    """Raise RunError for a model that can't be trained, or whose checkpoints would not hold all of it."""
    from torch import Tensor
    from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

    if model is None:
        return
    name, parameters = f"models/{model.type_name}", list(model.parameters())
    if any(
        isinstance(tensor, (UninitializedParameter, UninitializedBuffer)) for tensor in [*parameters, *model.buffers()]
    ):
        hint = "give lazy layers their sizes: an argument marked FromData takes them from the data"
        raise RunError("component", f"{name} has weights whose shape is open until the first batch", hint, "model")
    if "optimizer" in recipe and not any(parameter.requires_grad for parameter in parameters):
        why = "all its weights are frozen" if parameters else "it has no weights"
        raise RunError("component", f"{name} has nothing to train: {why}", "let some require gradients", "model")
    others = [key for key, value in model.state_dict().items() if not isinstance(value, Tensor)]
    if others:
        hint = "keep it in buffers: a checkpoint holds tensors alone, so that reading one runs no code"
        raise RunError("component", f"{name} has state that is no tensor: {', '.join(others)}", hint, "model")


def check_training(recipe: Mapping[str, Any], splits: Mapping[str, Split], task: Task) -> None:
    """Raise RunError if batches, judged metrics or number formats can't be as the `train` section asks."""
    import torch

    from raycipe.framework.training.feed import check_batch
    from raycipe.framework.training.judge import check_expected, check_targets
    from raycipe.framework.training.plan import Settings
    from raycipe.framework.training.precision import Precision

    section, resources = recipe["train"], recipe.get("resources") or {}
    workers = resources.get("num_workers", 1)
    most = max(1, workers[-1] if isinstance(workers, list) else workers)
    Settings.of(recipe)
    check_batch(splits["train"], section["batch_size"], most, section["accumulate"])
    check_targets(recipe, splits, task)
    check_expected(recipe, splits, task)
    Precision(section["precision"], torch.device("cuda" if resources.get("gpus_per_worker") else "cpu"))


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
    from raycipe.framework.weightless import weightless

    try:
        with weightless() if meta else torch.device("cpu"):
            return build(node, kind, path, given=given, facts=facts)
    except RecipeError as error:
        problems.extend(error.problems)
    except ValueError as error:  # the constructor's word on its arguments, together
        problems.append(Problem("out-of-range", node.at, path, str(error)))
    return None
