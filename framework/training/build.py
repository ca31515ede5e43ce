"""From a resolved recipe to data, model, task and optimizer, in the order in which each needs the one before."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from raycipe.framework.comm import Comm
from raycipe.framework.contracts import Data, Optimizer, Saddle, Split, Task
from raycipe.framework.errors import RunError
from raycipe.framework.registry import build
from raycipe.framework.streams import key
from raycipe.framework.training.failures import enough_memory
from raycipe.framework.training.kept import keep, recall
from raycipe.framework.training.loading import pick
from raycipe.framework.training.plan import TrainPlan
from raycipe.framework.training.saved import Checkpoint
from raycipe.framework.training.state import capture_rng, digest, load_weights, restore_rng


@dataclass
class Parts:
    """What is built before anything is distributed."""

    data: Data
    splits: dict[str, Split]
    model: nn.Module
    task: Task
    section: Any  # the recipe's words on the model
    initial_model: Callable[[], nn.Module]  # rebuilds the untrained model


def build_parts(plan: TrainPlan, device: torch.device, seed: int) -> Parts:
    """Raises RunError for data that does not fit, what constructors raise for wrong arguments."""
    recipe = plan.recipe
    data, splits = _load(plan, seed)
    for name, split in splits.items():
        if len(split) == 0:
            raise RunError("data", f"the `{name}` split is empty", "check the data's arguments", "data")
    if "train" not in splits:
        raise RunError("data", "the data has no `train` split", where="data")
    task: Task = build(recipe["task"], "tasks", "task", facts=data.facts)
    task.check(data.facts, splits)
    start = find_start(plan)
    section = recipe.get("model") or _model_of(plan)

    def initial_model() -> nn.Module:
        rng = capture_rng()
        torch.manual_seed(key(seed, "init"))
        model: nn.Module = build(section, "models", "model", facts=data.facts)
        model = task.trained(model, splits).to(device)
        restore_rng(rng)
        if start is not None:
            load_weights(model, start.model(), start.manifest["tied"], str(start.path))
        return model

    with enough_memory(section, data.facts):
        return Parts(data, splits, initial_model(), task, section, initial_model)


def _load(plan: TrainPlan, seed: int) -> tuple[Data, dict[str, Split]]:
    section = plan.recipe["data"]
    found = recall(section, seed) if plan.keeps_data else None
    if found is not None:
        return found
    data: Data = build(section, "data", "data")
    splits = data.load(seed)
    if plan.keeps_data:
        keep(section, seed, data, splits)
    return data, splits


def build_optimizer(recipe: Mapping[str, Any], model: nn.Module, facts: Mapping[str, Any]) -> Optimizer:
    parameters: list[Any] = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if isinstance(model, Saddle):
        parameters = model.groups()
    optimizer: Optimizer = build(recipe["optimizer"], "optimizers", "optimizer", {"params": parameters}, facts)
    check_players(optimizer, isinstance(model, Saddle))
    return optimizer


def check_players(optimizer: Optimizer, saddle: bool) -> None:
    """Raise RunError if a minimax task is given to an optimizer that only descends, or the other way round."""
    name = f"optimizers/{optimizer.type_name}"
    if saddle and not optimizer.saddle:
        message = f"{name} minimizes over all variables, but the task has a player that maximizes"
        raise RunError("recipe", message, "take one for minimax tasks: sgda, extragradient, ...", "optimizer.type")
    if optimizer.saddle and not saddle:
        message = f"{name} is for minimax tasks, and this task has no player that maximizes"
        raise RunError("recipe", message, "take sgd, adam, ..., or a task such as auc_saddle", "optimizer.type")


def copy_for_average(model: nn.Module, decay: float | None) -> nn.Module | None:
    """A copy made before sharding: afterwards a model can't be copied."""
    return None if decay is None else copy.deepcopy(model)


def check_equal(model: nn.Module, comm: Comm) -> None:
    """Every rank draws the same initial weights; raises RunError if they differ."""
    digests = comm.gather_objects(digest([*model.parameters(), *model.buffers()]))
    if len(set(digests)) > 1:
        raise RunError(
            "component",
            "the workers' initial weights differ",
            "a model must draw its weights from torch's global generator, and from nothing else",
            "model",
        )


def find_start(plan: TrainPlan) -> Checkpoint | None:
    """The checkpoint that `start` names, or None."""
    if plan.start_dir is None:
        return None
    start = plan.recipe["start"]
    wanted = start.get("checkpoint", "last") if isinstance(start, Mapping) else "last"
    return pick(plan.start_dir, wanted)


def _model_of(plan: TrainPlan) -> Any:
    """The model section of the run that `start` names."""
    from raycipe.framework.runs import Run

    assert plan.start_dir is not None  # the check asks for a model or a start
    return Run(plan.start_dir).resolved()["model"]
