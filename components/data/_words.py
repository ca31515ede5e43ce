"""Shared by the table components: one spelling for a class or word, whichever file, split or block it stands in."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

WHOLE = re.compile(r"[-+]?\d+")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
MAX_WHOLE = 2**64  # larger numbers are never read as integers, so they are spelled as floats: 1e+20


def spelled(values: np.ndarray) -> np.ndarray:
    """Values (rows,) as comparable text: 1, 1.0 and true are all `1`, -0.0 is `0`, 2.5 is `2.5`, text is itself.

    The spelling of a value depends on nothing but the value. In an array of objects numbers may stand beside text.
    """
    if values.dtype.kind not in "biuf":
        return np.array([_spell(value) for value in values.tolist()], dtype=str)
    distinct, inverse = np.unique(values, return_inverse=True)
    return np.array([_spell(value) for value in distinct], dtype=str)[inverse]


def as_number(word: str) -> str:
    """The spelling of the number that a text is (`7.50` is `7.5`, `007` is `7`), or the text itself.

    For a column that is text in one file and numbers in another, where the same cell was read either way.
    """
    text = word.strip()
    if text.casefold() in ("true", "false"):
        return str(int(text.casefold() == "true"))
    if WHOLE.fullmatch(text) and abs(int(text)) < MAX_WHOLE:
        return str(int(text))
    return _spell(np.float64(text)) if NUMBER.fullmatch(text) else word


def numeric_first(word: str) -> tuple[int, float, str]:
    """Sort key: numbers by value, then text."""
    return (0, float(word), word) if is_number(word) else (1, 0.0, word)


def is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]  # whatever it is
    except (TypeError, ValueError):
        return False
    return True


def _spell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return str(int(value))
    number = value if isinstance(value, np.floating) else np.float64(value)  # a float32 0.1 is `0.1` too
    return str(int(number)) if number.is_integer() and abs(number) < MAX_WHOLE else str(number)
