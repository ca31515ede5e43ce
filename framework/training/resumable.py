"""Whether an interrupted run may go on: with this recipe, this data, these checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from raycipe.framework.errors import RunError, counted
from raycipe.framework.training.saved import Checkpoint
from raycipe.framework.training.store import nothing_left

if TYPE_CHECKING:
    from raycipe.framework.training.session import Session

# What may differ when a run is resumed; entries of `train` first.
MAY_CHANGE_IN_TRAIN = (
    "epochs steps minutes batch_size accumulate threads log_every eval_every eval_batch_size checkpoint_every "
    "measure_every keep keep_best early_stop train_metrics evaluate_weights async_checkpoint dataloader_workers"
)
MAY_CHANGE = (
    *["about", "paper", "name", "track", "expect", "sweep", "profiles", "resources", "measures", "extends"],
    *(f"train.{name}" for name in MAY_CHANGE_IN_TRAIN.split()),
)


def start_over(session: Session) -> None:
    """A run without any checkpoint begins at step 0: right after a kill before the first one, else a loss to refuse."""
    from raycipe.framework.training.checkpointing import is_beside

    last = session.comm.broadcast_object(session.rows.last_step())
    every = [session.length.checkpoint_every, session.length.total_steps]
    if session.settings.keep_best:
        every.append(session.length.eval_every)
    # rows of a step come before its checkpoint; one written beside is committed when the next is due, at the latest
    if last > min(every) * (2 if is_beside(session) else 1):
        raise nothing_left(session.run_dir, f"metrics.jsonl tells of {last} steps")
    if last:
        session.warn("the run had no checkpoint yet: it starts again from step 0")


def check_content(checkpoint: Checkpoint, state: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise RunError if the common state lacks an entry."""
    missing = sorted(wanted.keys() - state.keys())
    if missing:
        message = f"{checkpoint.path}: state.pt does not hold {', '.join(missing)}"
        raise RunError("storage", message, "another version of Raycipe wrote it: launch a new run")


def check_data(old: Mapping[str, Mapping[str, str]], new: Mapping[str, Mapping[str, str]]) -> None:
    """Raise RunError naming the splits, and the tensors or files of them, that are not what they were."""
    changed = [
        f"{split}: {', '.join(keys)}"
        for split in sorted({**old, **new})
        if (keys := [key for key in {**old.get(split, {}), **new.get(split, {})} if not _same(old, new, split, key)])
    ]
    if changed:
        raise RunError(
            "data",
            f"can't resume: the data has changed since ({'; '.join(changed)})",
            "bring the old data back, or launch a new run",
            "data",
        )


def _same(old: Mapping[str, Mapping[str, str]], new: Mapping[str, Mapping[str, str]], split: str, key: str) -> bool:
    return old.get(split, {}).get(key) == new.get(split, {}).get(key)


def check_recipe(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise RunError naming what changed, unless the change leaves the run's meaning alone."""
    changed = sorted(_differences(old, new, ""))
    wrong = [path for path in changed if not any(path == may or path.startswith(may + ".") for may in MAY_CHANGE)]
    if wrong:
        raise RunError(
            "recipe",
            f"can't resume with another recipe: {', '.join(wrong)} changed",
            "start a new run, or take the trained model over with `start:`",
            wrong[0],
        )


def _differences(old: Any, new: Any, path: str) -> list[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        paths = []
        for key in {**old, **new}:
            below = f"{path}.{key}" if path else str(key)
            paths += _differences(old.get(key), new.get(key), below)
        return paths
    return [] if old == new and type(old) is type(new) else [path]


def refuse_shorter(session: Session) -> None:
    """Raise RunError for a length that the run has passed already."""
    total = session.length.total_steps
    if session.step > total:
        key = "steps" if session.settings.steps is not None else "epochs"
        message = f"the run is at step {session.step} already, and train.{key} asks for {counted(total, 'step')}"
        raise RunError("recipe", message, "ask for more, or launch it as a new run", f"train.{key}")


def still_stopped(session: Session, stopped: str | None) -> bool:
    """Whether what ended a run before its length still does, with the values that it is resumed with."""
    if stopped is None or session.step >= session.length.total_steps:
        return False
    if stopped == "minutes":
        minutes = session.settings.minutes
        return minutes is not None and session.seconds_before >= 60 * minutes
    return session.judge.is_patience_over if stopped == "early_stop" else True


def warn_of_changes(session: Session, state: Mapping[str, Any]) -> None:
    """A run that goes on under other conditions does not repeat the bits of an unbroken one."""
    changes = []
    if state["world_size"] != session.comm.world_size:
        changes.append(f"{counted(session.comm.world_size, 'worker')} instead of {state['world_size']}")
    if state["threads"] != torch.get_num_threads():
        changes.append(f"{counted(torch.get_num_threads(), 'thread')} instead of {state['threads']}")
    if state["order"]["batch_size"] != session.order.batch_size:
        changes.append(f"batch_size {session.order.batch_size} instead of {state['order']['batch_size']}")
    if changes:
        session.warn(f"resumed with {', '.join(changes)}: the result is not bit for bit that of an unbroken run")
