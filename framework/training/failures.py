"""Errors of the loop, in words that a user can act on. The functions that look at all ranks are collective."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from raycipe.framework.errors import RunError

if TYPE_CHECKING:
    from raycipe.framework.training.session import Session

SHOWN_IDS = 8
ADVICE = "try a smaller optimizer.lr or train.clip_norm; `train.on_nonfinite: skip` leaves out single bad batches"


def nonfinite_loss(session: Session) -> RunError:
    """The error for a NaN or infinite loss: which step, worker and examples."""
    interval, mine = session.interval, None
    index = interval.first_nonfinite()
    if index is not None:
        step, ids = interval.steps[index]
        mine = (step, session.comm.rank, ids.tolist(), float(interval.losses[index]))
    found = [entry for entry in session.comm.gather_objects(mine) if entry is not None]
    if not found:
        return RunError("nonfinite", f"the loss is not finite at step {session.step + 1}", ADVICE, "optimizer")
    step, rank, examples, loss = min(found)
    shown = ", ".join(map(str, examples[:SHOWN_IDS])) + (", ..." if len(examples) > SHOWN_IDS else "")
    rate = session.optimizer.param_groups[0]["lr"]
    message = f"the loss became {loss} at step {step} on worker {rank} (examples {shown}; lr {rate:.3g})"
    return RunError("nonfinite", message, f"{_last_good(session)}\n{ADVICE}", "optimizer", step)


def nonfinite_weights(session: Session) -> RunError:
    message = f"the weights became NaN or infinite by step {session.step}, although the loss was still finite"
    return RunError("nonfinite", message, f"{_last_good(session)}\n{ADVICE}", "optimizer", session.step)


def _last_good(session: Session) -> str:
    steps = session.store.steps()
    return f"the last good checkpoint is of step {steps[-1]}" if steps else "there is no checkpoint yet"


def out_of_memory(error: BaseException) -> bool:
    text = str(error)
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in text
    )


def memory_error(error: BaseException, session: Session) -> RunError:
    """A shortage of memory with the sizes that matter."""
    settings = session.settings
    micro = -(-settings.batch_size // (settings.accumulate * session.comm.world_size))
    size = sum(parameter.numel() * parameter.element_size() for parameter in session.model.parameters())
    message = (
        f"out of memory at step {session.step + 1}: batches of {micro} examples per worker "
        f"(batch_size {settings.batch_size}, accumulate {settings.accumulate}, {session.comm.world_size} workers), "
        f"parameters of {size / 1e6:.1f} MB: {str(error).splitlines()[0]}"
    )
    hint = f"set train.accumulate={settings.accumulate * 2}: the result stays the same, a batch takes half the memory"
    return RunError("memory", message, hint, "train.batch_size", session.step + 1)
