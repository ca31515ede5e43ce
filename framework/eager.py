"""Torch's optimizers as they are without torch.compile.

Torch wraps their methods so that its compiler leaves them out or breaks its graph there. Each wrapper imports the
compiler (more than a second, and SymPy) and costs microseconds per call, although the loop never compiles an optimizer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import unwrap
from typing import Any

import torch

PLAIN_METHODS = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")


def make_eager(cls: type[torch.optim.Optimizer]) -> None:
    """Take the compiler's wrappers off the methods that a class has from torch.optim; its own stay as they are."""
    for name in PLAIN_METHODS:
        if _is_torchs(getattr(cls, name)):
            setattr(cls, name, unwrap(getattr(cls, name)))
    if _is_torchs(cls.step):
        cls.step = _step(unwrap(cls.step))  # type: ignore[method-assign]


def _is_torchs(method: Any) -> bool:
    return method.__module__.startswith("torch.optim.") and hasattr(method, "__wrapped__")


def _step(plain: Callable[..., Any]) -> Any:
    """`plain` without gradients, as torch's wrapper runs it."""

    @wraps(plain)
    def step(self: torch.optim.Optimizer, *args: Any, **words: Any) -> Any:
        with torch.set_grad_enabled(bool(self.defaults["differentiable"])):
            return plain(self, *args, **words)

    return step
