"""What an earlier training left, for measures, editors and predictions: a model with its task and data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from raycipe.framework.contracts import Data, Split, Task, Trained
from raycipe.framework.errors import RunError
from raycipe.framework.files import read_rows
from raycipe.framework.registry import build
from raycipe.framework.runs import Run, find
from raycipe.framework.streams import key
from raycipe.framework.training.saved import Checkpoint, damage, read
from raycipe.framework.training.state import capture_rng, load_weights, restore_rng

OF_THE_START = ("data", "model", "task", "optimizer", "train", "estimator")
TAKEN = "taken_from_start"  # in a complete recipe: {section: the seed of the run that it was taken from}
EDITED = "edited"  # the folder among the checkpoints that holds what an editor made


def with_start(recipe: Mapping[str, Any], start_dir: str | None) -> dict[str, Any]:
    """The resolved recipe, with what it leaves to the run that it starts from; `seed_of` tells a section's seed."""
    if start_dir is None:
        return dict(recipe)
    run = Run(start_dir)
    before = run.resolved()
    if "start" in before and not {"data", "model"} <= before.keys():  # it began with a run itself
        start = before["start"]
        name = start["run"] if isinstance(start, Mapping) else start
        before = with_start(before, str(find(name, (run.parent or run).path.parent.parent).path))
    taken = {name: before[name] for name in OF_THE_START if name in before and name not in recipe}
    return {**taken, **recipe, TAKEN: {name: seed_of(before, name) for name in taken}}


def seed_of(recipe: Mapping[str, Any], section: str) -> int:
    """The seed that a section's component had when it was trained: the splits of the data, the initial weights."""
    return int(recipe.get(TAKEN, {}).get(section, recipe.get("seed") or 0))


def load_data(recipe: Mapping[str, Any]) -> tuple[Data, dict[str, Split]]:
    """Raises RunError for a split without examples."""
    data: Data = build(recipe["data"], "data", "data")
    splits = data.load(seed_of(recipe, "data"))
    for name, split in splits.items():
        if len(split) == 0:
            raise RunError("data", f"the `{name}` split is empty", "check the data's arguments", "data")
    return data, splits


def steps_of(folder: str | Path) -> list[int]:
    """The steps of a run's checkpoints, oldest first."""
    return sorted(int(path.name[5:]) for path in Path(folder, "checkpoints").glob("step-*"))


def pick(folder: str | Path, wanted: str | int) -> Checkpoint:
    """A run's checkpoint: last, best, edited, or that of a step. Raises RunError (`start`) if there is none."""
    home, steps = Path(folder) / "checkpoints", steps_of(folder)
    if wanted == EDITED:
        if not (home / EDITED).is_dir():
            raise RunError("storage", f"{folder} holds no edited model", "use `checkpoint: last`", "start")
        return whole(home / EDITED)
    if not steps:
        raise RunError("storage", f"{folder} has no checkpoint to start from", where="start")
    newest = whole(home / f"step-{steps[-1]:08d}")
    if wanted == "last":
        return newest
    if wanted == "best":
        if not newest.manifest["best"]:
            raise RunError("storage", f"{folder} kept no best checkpoint", "use `checkpoint: last`", "start")
        wanted = newest.manifest["best"][0]["step"]
    if wanted not in steps:
        known = ", ".join(map(str, steps))
        raise RunError("storage", f"{folder} has no checkpoint of step {wanted}", f"it has: {known}", "start")
    return whole(home / f"step-{int(wanted):08d}")


def whole(path: Path) -> Checkpoint:
    """A checkpoint that is not damaged. Raises RunError (`start`) if it is."""
    fault = damage(path)
    if fault:
        raise RunError("storage", f"can't start from {path}: {fault}", where="start")
    return read(path)


def load_trained(
    recipe: Mapping[str, Any], folder: str | None, checkpoint: str | int = "last", device: str = "cpu"
) -> Trained:
    """The model of a run's checkpoint (the untrained one without a run) and everything around it.

    `recipe` is complete, see `with_start`; `folder` the run that trained. The weights are those that were evaluated.
    """
    data, splits = load_data(recipe)
    task: Task | None = build(recipe["task"], "tasks", "task", facts=data.facts) if "task" in recipe else None

    def initial() -> nn.Module:
        rng = capture_rng()
        torch.manual_seed(key(seed_of(recipe, "model"), "init"))
        model: nn.Module = build(recipe["model"], "models", "model", facts=data.facts)
        if task is not None:
            model = task.trained(model, splits)
        restore_rng(rng)
        return model.to(device).eval()

    def loaded(found: Checkpoint) -> nn.Module:
        model = initial()
        averages = (recipe.get("train") or {}).get("evaluate_weights") == "ema"
        load_weights(model, found.model(averages), found.manifest["tied"], str(found.path))
        return model

    def loader(step: int) -> Callable[[], nn.Module]:
        return lambda: loaded(pick(str(folder), step))

    return Trained(
        recipe=recipe,
        splits=splits,
        facts=data.facts,
        model=initial() if folder is None else loaded(pick(folder, checkpoint)),
        initial_model=initial,
        task=task,
        checkpoints=[(step, loader(step)) for step in steps_of(folder)] if folder is not None else [],
        device=torch.device(device),
        seed=int(recipe.get("seed") or 0),
        **_so_far(folder, checkpoint),
    )


def _so_far(folder: str | None, checkpoint: str | int) -> dict[str, Any]:
    """The step of the weights, and the rows that the run wrote up to it."""
    if folder is None:
        return {}
    found = pick(folder, checkpoint)
    step = steps_of(folder)[-1] if found.path.name == EDITED else int(found.path.name[5:])
    rows = [row for row in read_rows(Path(folder) / "metrics.jsonl") if row["step"] <= step]
    return {"step": step, "rows": rows}
