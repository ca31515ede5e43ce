"""Errors of the loop, in words that a user can act on. The functions that look at all ranks are collective."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from raycipe.framework.errors import RunError, counted
from raycipe.framework.registry import build

if TYPE_CHECKING:
    from raycipe.framework.training.session import Session

SHOWN_IDS = 8
ADVICE = "try a smaller optimizer.lr or train.clip_norm"
SKIPPING = "`train.on_nonfinite: skip` leaves out single bad batches"


def nonfinite_loss(session: Session) -> RunError:
    """The error for a NaN or infinite loss: which step, worker and examples."""
    interval, mine = session.interval, None
    index = interval.first_nonfinite()
    if index is not None:
        step, ids = interval.steps[index]
        mine = (step, session.comm.rank, ids.tolist(), float(interval.losses[index]))
    found = [entry for entry in session.comm.gather_objects(mine) if entry is not None]
    if not found:
        return RunError(
            "nonfinite", f"the loss is not finite at step {session.step + 1}", _advice(session), "optimizer"
        )
    step, rank, examples, loss = min(found)
    shown = ", ".join(map(str, examples[:SHOWN_IDS])) + (", ..." if len(examples) > SHOWN_IDS else "")
    rate = session.optimizer.param_groups[0]["lr"]
    message = f"the loss became {loss} at step {step} on worker {rank} (examples {shown}; lr {rate:.3g})"
    return RunError("nonfinite", message, f"{_last_good(session)}\n{_advice(session)}", "optimizer", step)


def nonfinite_weights(session: Session) -> RunError:
    message = f"the weights became NaN or infinite by step {session.step}, although the loss was still finite"
    return RunError("nonfinite", message, f"{_last_good(session)}\n{_advice(session)}", "optimizer", session.step)


def _advice(session: Session) -> str:
    return ADVICE if session.settings.on_nonfinite == "skip" else f"{ADVICE}; {SKIPPING}"


def _last_good(session: Session) -> str:
    steps = session.store.steps()
    return f"the last good checkpoint is of step {steps[-1]}" if steps else "there is no checkpoint yet"


def out_of_memory(error: BaseException) -> bool:
    text = str(error)
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
        isinstance(error, RuntimeError) and any(words in text for words in ("can't allocate memory", "alloc_cpu"))
    )


@contextmanager
def enough_memory(section: Any, facts: Mapping[str, Any]) -> Iterator[None]:
    """Turns a shortage of memory inside into a RunError that tells the sizes of the recipe's model."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        raise _model_memory_error(error, section, facts) from error


def _model_memory_error(error: BaseException, section: Any, facts: Mapping[str, Any]) -> RunError:
    with torch.device("meta"):  # shapes only
        parameters: list[Any] = list(build(section, "models", "model", facts=facts).parameters())
    size = sum(parameter.numel() * parameter.element_size() for parameter in parameters)
    message = (
        f"out of memory while the model was built: its {sum(p.numel() for p in parameters):,} parameters take "
        f"{_bytes(size)}, with their gradients {_bytes(2 * size)}, with two moments of an optimizer such as adamw "
        f"{_bytes(4 * size)} in each worker: {_reason(error)}"
    )
    return RunError("memory", message, "make the model smaller, or take a machine with more memory", "model")


def _reason(error: BaseException) -> str:
    """What torch could not get, without its own code's places."""
    text = str(error) or type(error).__name__
    found = re.search(r"[Tt]ried to allocate [\d.]+ \w+", text)
    return found[0] if found else text.splitlines()[0]


def _bytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


def memory_error(error: BaseException, session: Session) -> RunError:
    """A shortage of memory with the sizes that matter."""
    settings = session.settings
    micro = -(-settings.batch_size // (settings.accumulate * session.comm.world_size))
    size = sum(parameter.numel() * parameter.element_size() for parameter in session.model.parameters())
    message = (
        f"out of memory at step {session.step + 1}: batches of {counted(micro, 'example')} per worker (batch_size "
        f"{settings.batch_size}, accumulate {settings.accumulate}, {counted(session.comm.world_size, 'worker')}), "
        f"parameters of {_bytes(size)}: {_reason(error)}"
    )
    hint = "make the model smaller"
    if micro > 1:
        more = settings.accumulate * 2
        hint = f"set train.accumulate={more}: the result stays the same, a batch takes half the memory; or {hint}"
    return RunError("memory", message, hint, "train.batch_size", session.step + 1)
