"""Modules without weights: built only to see whether they can be, and how large they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


@contextmanager
def weightless() -> Iterator[None]:
    """Modules that are built inside lie on the meta device: shapes and checks as always, but no memory.

    A random fill of such a tensor does nothing. Torch would send it through Python references that import its compiler
    (more than a second) before they do nothing, too.
    """
    with _NoDraws(), torch.device("meta"):  # type: ignore[no-untyped-call]
        yield


class _NoDraws(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Leaves random numbers out where there is no memory to hold them."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the default imports the compiler to keep it away from this class

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        words = dict(kwargs or {})
        if torch.Tag.nondeterministic_seeded in func.tags:
            if func._schema.is_mutable and args and isinstance(args[0], Tensor) and args[0].is_meta:
                return args[0]
            if func in (torch.ops.aten.randn.default, torch.ops.aten.rand.default) and _is_meta(words.get("device")):
                return torch.empty(*args, **words)
        return func(*args, **words)


def _is_meta(device: Any) -> bool:
    return device is not None and torch.device(device).type == "meta"
