"""What an unquoted text means: the scalars of YAML 1.2, where `1e-3` is a number and `on` is a word."""

from __future__ import annotations

import re

WORDS: dict[str, bool | None] = {
    **dict.fromkeys(["", "~", "null", "Null", "NULL"], None),
    **dict.fromkeys(["true", "True", "TRUE"], True),
    **dict.fromkeys(["false", "False", "FALSE"], False),
}
INTEGER = re.compile(r"[-+]?[0-9]+\Z")
OCTAL_OR_HEX = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")

_NUMBER_STARTS = frozenset("+-.0123456789")
_LEAST, _GREATEST = -(2**63), 2**63 - 1


def read_scalar(text: str) -> str | int | float | bool | None:
    """The value of an unquoted text. Raises ValueError for a number that is not finite or beyond 64 bits."""
    if text in WORDS:
        return WORDS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    if INTEGER.match(text):
        return _integer(text.lstrip("+-").lstrip("0"), 10, -1 if text[0] == "-" else 1)
    if OCTAL_OR_HEX.match(text):
        return _integer(text[2:].lstrip("0"), 8 if text[1] == "o" else 16, 1)
    if FLOAT.match(text):
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise ValueError("a number too large for a 64-bit float")
        if value == 0 and re.match(r"[-+.0]*[1-9]", text):
            raise ValueError("a number too small for a 64-bit float")
        return value
    if NOT_FINITE.match(text):
        raise ValueError("not a finite number")
    return text


def is_text(text: str) -> bool:
    """True if the unquoted text means itself."""
    if text in WORDS:
        return False
    return text[0] not in _NUMBER_STARTS or not any(
        form.match(text) for form in (INTEGER, OCTAL_OR_HEX, FLOAT, NOT_FINITE)
    )


def _integer(digits: str, base: int, sign: int) -> int:
    # The length comes first: Python refuses to read thousands of digits, and 64 bits need at most 22 octal ones.
    value = sign * int(digits or "0", base) if len(digits) <= 22 else None
    if value is None or not _LEAST <= value <= _GREATEST:
        raise ValueError("an integer beyond 64 bits")
    return value
