"""Writes plain data as YAML that the reader reads back as the same data, and other YAML readers too."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from raycipe.framework.scalars import is_text
from raycipe.framework.syntax import REFUSED

_WIDTH = 100
_KEY_LIMIT = 1000  # YAML reads a longer key only in its explicit form, `? key`
_BARE = re.compile(r"[A-Za-z_](?:[A-Za-z0-9_./@+-]| (?=[A-Za-z0-9_./@+-]))*\Z")
_WORDS_ELSEWHERE = frozenset(["y", "n", "yes", "no", "on", "off"])  # booleans to readers of YAML 1.1


def dump(data: dict[str, Any]) -> str:
    """The text of a recipe's plain data: dicts with text keys, lists, text, finite numbers, booleans and None.

    Raises ValueError for a number that is not finite or beyond 64 bits, TypeError for anything else.
    """
    return "\n".join(_map(data)) + "\n" if data else "{}\n"


def _map(data: dict[str, Any]) -> list[str]:
    lines = []
    for key, value in data.items():
        name = _text(key)
        if len(name) > _KEY_LIMIT:
            lines.append(f"? {name}")
            name = ""
        if isinstance(value, dict) and value:
            lines += [f"{name}:", *_indented(_map(value))]
        elif isinstance(value, list) and _inline(value) is None:
            lines += [f"{name}:", *_indented(_list(value))]
        else:
            lines.append(f"{name}: {_short(value)}")
    return lines


def _list(data: list[Any]) -> list[str]:
    lines = []
    for value in data:
        if isinstance(value, dict) and value:
            inner = _map(value)
        elif isinstance(value, list) and _inline(value) is None:
            inner = _list(value)
        else:
            inner = [_short(value)]
        lines += [f"- {inner[0]}", *_indented(inner[1:])]
    return lines


def _indented(lines: list[str]) -> list[str]:
    return ["  " + line for line in lines]


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "{}"
    return _inline(value) or "[]" if isinstance(value, list) else _scalar(value)


def _inline(data: list[Any]) -> str | None:
    """A list of scalars on one line; None if it holds more or would be too long."""
    if any(isinstance(value, (dict, list)) for value in data):
        return None
    line = "[" + ", ".join(_scalar(value) for value in data) + "]"
    return line if len(line) <= _WIDTH or not data else None


def _scalar(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"an integer beyond 64 bits: {value}")
        return str(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, str):
        return _text(value)
    raise TypeError(f"a recipe can't hold {type(value).__name__}: {value!r}")


def _float(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(f"not a finite number: {value}")
    digits, mark, exponent = repr(value).partition("e")
    return f"{digits}{'' if '.' in digits or not mark else '.0'}{mark}{exponent}"  # 1e-05 is a text to YAML 1.1


def _text(text: str) -> str:
    if _BARE.match(text) and is_text(text) and text.lower() not in _WORDS_ELSEWHERE and len(text) <= _WIDTH:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return REFUSED.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)
