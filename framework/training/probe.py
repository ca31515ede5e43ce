"""A first look at the model's outputs, before training: a model that does not fit its task is told as such."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from raycipe.framework.contracts import Batch, Task
from raycipe.framework.errors import RunError
from raycipe.framework.training.evaluate import evaluation_mode
from raycipe.framework.training.state import capture_rng, restore_rng


def probe(model: nn.Module, task: Task, batch: Batch, autocast: Callable[[], AbstractContextManager[Any]]) -> None:
    """Compute the loss of a few examples, without a trace in the model or the random generators.

    Raises RunError if the task says that the model's outputs don't fit it; other errors get a note with the shapes.
    """
    seen: list[Any] = []

    def look(module: nn.Module, inputs: Any, outputs: Any) -> None:
        wanted = task.check_outputs(outputs, batch) if not seen else None
        seen.append(outputs)
        if wanted:
            raise RunError(
                "component",
                f"{_name(model, 'models')} gives {described(outputs)} for x of {described(batch.get('x'))}; "
                f"{_name(task, 'tasks')} needs {wanted}",
                where="model",
            )

    rng = capture_rng()
    handle = model.register_forward_hook(look)
    try:
        with torch.no_grad(), evaluation_mode(model), autocast():
            task.loss(model, batch)
    except (TypeError, ValueError, IndexError, RuntimeError, AttributeError) as error:
        given = ", ".join(f"{key} of {described(value)}" for key, value in batch.items() if key != "id")
        gave = f" and gave {described(seen[0])}" if seen else ""
        error.add_note(f"{_name(model, 'models')} was given {given}{gave}, for {_name(task, 'tasks')}")
        raise
    finally:
        handle.remove()
        restore_rng(rng)


def described(value: Any) -> str:
    """`(8, 10) float32` for a tensor, the type's name for other things."""
    if isinstance(value, Tensor):
        return f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    return "None" if value is None else f"a {type(value).__name__}"


def _name(component: Any, kind: str) -> str:
    return f"{kind}/{getattr(component, 'type_name', '') or type(component).__name__}"
