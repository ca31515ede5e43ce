"""How two recipes differ by meaning: resolved values, not text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

ABSENT = object()


class Difference(NamedTuple):
    """One dotted path whose value differs; `ABSENT` where a side lacks it."""

    path: str
    left: Any
    right: Any


def differences(left: Any, right: Any, path: str = "") -> Iterator[Difference]:
    """Every differing path, depth first. A changed component `type` is one difference, its arguments are not listed:
    the arguments of two types do not correspond."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        if left.get("type") != right.get("type"):
            yield Difference(path, dict(left), dict(right))
            return
        for key in dict.fromkeys([*left, *right]):
            yield from differences(left.get(key, ABSENT), right.get(key, ABSENT), f"{path}.{key}" if path else key)
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, pair in enumerate(zip(left, right, strict=True)):
            yield from differences(*pair, f"{path}.{index}")
    elif (type(left) is not type(right) and not (_is_number(left) and _is_number(right))) or left != right:
        yield Difference(path, left, right)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def shown(value: Any) -> str:
    """A value as in a recipe, in one line."""
    import json

    return "(not set)" if value is ABSENT else json.dumps(value, ensure_ascii=False, default=str)
