"""What is due between steps, always in this order: log, evaluate, best and early stop, measures, checkpoint.

This is the only code but the exchange of gradients where ranks wait for each other.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from raycipe.framework.training import checkpointing
from raycipe.framework.training.after import measure_between
from raycipe.framework.training.evaluate import agreed_buffers, evaluate
from raycipe.framework.training.failures import nonfinite_loss, nonfinite_weights
from raycipe.framework.training.rows import Interval, means

if TYPE_CHECKING:
    from raycipe.framework.training.session import Session

TIMED_CHECKPOINT_S = 300.0


class Due:
    """Cadences by name: `log` every 50 steps is due after steps 50, 100, ...; everything is due at `end`. The loop
    compares its step with `next`, one number."""

    def __init__(self, cadences: Mapping[str, int], step: int, end: int) -> None:
        self.cadences, self.end = dict(cadences), end
        self.next = self._after(step)

    def _after(self, step: int) -> int:
        return min(self.end, *((step // every + 1) * every for every in self.cadences.values()))

    def at(self, step: int) -> set[str]:
        """The names that are due after `step` finished steps; moves `next` on."""
        self.next = self._after(step)
        if step >= self.end:
            return set(self.cadences)
        return {name for name, every in self.cadences.items() if step % every == 0}


def run_due(session: Session) -> None:
    """Everything that is due at the session's step; `stopped` makes a checkpoint due."""
    due = session.due.at(session.step)
    if session.step >= session.length.total_steps:
        session.close_optimizer()
    if "evaluate" in due and session.judge.needs_log:
        due.add("log")
    wants_checkpoint = log(session) if "log" in due else False
    if "evaluate" in due:
        wants_checkpoint |= assess(session)
    if "measure" in due and session.step < session.length.total_steps and session.stopped is None:
        measure_between(session)
    if "checkpoint" in due and _is_too_soon(session):
        due.remove("checkpoint")
    if "checkpoint" in due or wants_checkpoint or session.stopped is not None:
        checkpoint(session)
    else:
        session.store.poll(wait=False)


def _is_too_soon(session: Session) -> bool:
    """Whether the last checkpoint is younger than the plan's spacing; that of the last step is always written."""
    is_last = session.step >= session.length.total_steps
    return not is_last and time.monotonic() - session.saved_at < session.plan.spacing_s


def check_finite(session: Session) -> None:
    """Raise on all ranks if any rank's losses since the last check are not finite."""
    if session.gradients.checks_loss:
        return
    bad = torch.tensor(float(session.interval.first_nonfinite() is not None), device=session.device)
    if session.comm.all_reduce(bad, "max") > 0:
        raise nonfinite_loss(session)


def log(session: Session) -> bool:
    """Write a row of training metrics; True if it is time for a checkpoint. One all-reduce carries the flags, too."""
    check_finite(session)
    session.exchange.check()
    names, sums = session.interval.sums()
    timed, over = _clock(session) if session.comm.rank == 0 else (False, False)
    sent = session.optimizer_comm.bytes_sent
    flags = [float(session.watch.requested), float(timed), float(over), float(sent)]
    both = torch.tensor([*flags, *sums], dtype=torch.float64, device=session.device)
    stop, timed_now, over_now, all_sent, *sums = session.comm.all_reduce(both).tolist()
    session.interval = Interval()
    metrics = means(names, sums, session.task.finish)
    metrics["train/lr"] = float(session.optimizer.param_groups[0]["lr"])
    if session.gradient_norm is not None:
        metrics["train/grad_norm"] = float(session.gradient_norm)
    if session.optimizer.exchanges:
        metrics["comm/bytes"] = all_sent
    metrics.update({name: float(value) for name, value in session.optimizer.stats().items()})
    session.row(metrics)
    session.hook("log")
    session.stopped = session.stopped or ("user" if stop else "minutes" if over_now else None)
    return bool(timed_now)


def _clock(session: Session) -> tuple[bool, bool]:
    """(a checkpoint is overdue, the run's minutes are over): rank 0's clock decides."""
    return time.monotonic() - session.saved_at >= TIMED_CHECKPOINT_S, is_time_over(session)


def is_time_over(session: Session) -> bool:
    """Whether the run has trained as long as `train.minutes` allows, by this rank's clock."""
    minutes = session.settings.minutes
    return minutes is not None and session.seconds() >= 60 * minutes


def assess(session: Session) -> bool:
    """Evaluate the common weights on `val` and judge them; True if they are among the best so far."""
    if "val" in session.splits:
        metrics = score(session, "val")
        if session.optimizer.synced_at is not None:
            metrics["comm/synced_at"] = float(session.optimizer.synced_at)
        session.row(metrics)
        session.hook("evaluate")
    is_best, should_stop = session.judge.look(session.latest, session.step)
    if should_stop:
        session.stopped = session.stopped or "early_stop"
    return is_best


def score(session: Session, split: str) -> dict[str, float]:
    """The metrics of a split, under its name, equal on all ranks."""
    settings, average = session.settings, session.average
    chosen = average.model if average is not None and settings.evaluate_weights == "ema" else session.model
    with session.optimizer.consensus(), agreed_buffers(chosen, session.comm):
        values = evaluate(
            chosen,
            session.splits[split],
            session.task,
            session.comm,
            settings.eval_batch_size or -(-settings.batch_size // settings.accumulate),
            session.device,
            session.precision.autocast(),
            session.sharded,
        )
    values = session.comm.broadcast_object(values)
    return {f"{split}/{name}": value for name, value in values.items()}


def checkpoint(session: Session, final: bool = False) -> None:
    """Save, unless the losses or the weights are not finite: that raises."""
    check_finite(session)
    if not checkpointing.weights_finite(session):
        raise nonfinite_weights(session)
    session.saved_at = time.monotonic()
    last = final or session.step >= session.length.total_steps or session.stopped is not None
    checkpointing.save(session, last)
    session.hook("checkpoint")
