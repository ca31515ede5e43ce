from __future__ import annotations

import pytest

from raycipe.framework.scalars import is_text, read_scalar

NULLS = ["", "~", "null", "Null", "NULL"]
WORDS = "yes no on off y n Yes ON oFF nULL tRUE NaN inf Infinity e3 12:30:00 1_000 2001-12-14 0b1 3.1.4 + - . .. -."
ALMOST_NUMBERS = "1e 1e+ 0x 0o 0o8 0xg 1.5.2 --1 +-1 .e3 -inf 0X1F +0x1f .iNF +.nan -.NaN ١"
TEXTS = [*WORDS.split(), *ALMOST_NUMBERS.split(), " 1", "1 ", "a 1", "1\n"]
NUMBERS = {
    "0": 0,
    "010": 10,
    "-7": -7,
    "+7": 7,
    "-0": 0,
    "0o17": 15,
    "0x1F": 31,
    "0xff": 255,
    "9223372036854775807": 2**63 - 1,
    "-9223372036854775808": -(2**63),
    "0x7fffffffffffffff": 2**63 - 1,
    "0" * 5000 + "1": 1,
    "1e-3": 1e-3,
    ".5": 0.5,
    "5.": 5.0,
    "1E5": 1e5,
    "-1.5e+3": -1500.0,
    "+.5": 0.5,
    "-.5E1": -5.0,
    "1.7976931348623157e308": 1.7976931348623157e308,
    "5e-324": 5e-324,
    "0e-400": 0.0,
}
REFUSED = {
    "9223372036854775808": "an integer beyond 64 bits",
    "-9223372036854775809": "an integer beyond 64 bits",
    "1" * 5000: "an integer beyond 64 bits",
    "0x8000000000000000": "an integer beyond 64 bits",
    "0o" + "7" * 30: "an integer beyond 64 bits",
    "1e309": "a number too large for a 64-bit float",
    "1e-400": "a number too small for a 64-bit float",
    "-0.01E-399": "a number too small for a 64-bit float",
    "-1e309": "a number too large for a 64-bit float",
    ".inf": "not a finite number",
    "-.Inf": "not a finite number",
    "+.INF": "not a finite number",
    ".nan": "not a finite number",
    ".NaN": "not a finite number",
    ".NAN": "not a finite number",
}


@pytest.mark.parametrize("text", NULLS)
def test_null_has_five_spellings(text: str) -> None:
    assert read_scalar(text) is None
    assert not is_text(text)


@pytest.mark.parametrize(
    ("text", "value"), [(t, t.lower() == "true") for t in ["true", "True", "TRUE", "false", "False", "FALSE"]]
)
def test_booleans_have_three_spellings_each(text: str, value: bool) -> None:
    assert read_scalar(text) is value
    assert not is_text(text)


@pytest.mark.parametrize("text", TEXTS)
def test_everything_else_is_the_text_itself(text: str) -> None:
    assert read_scalar(text) == text
    assert is_text(text)


@pytest.mark.parametrize(("text", "value"), NUMBERS.items(), ids=lambda item: str(item)[:24])
def test_numbers_are_read_as_yaml_1_2_reads_them(text: str, value: float) -> None:
    assert read_scalar(text) == value
    assert type(read_scalar(text)) is type(value)
    assert not is_text(text)


@pytest.mark.parametrize(("text", "message"), REFUSED.items(), ids=lambda item: str(item)[:24])
def test_numbers_that_do_not_fit_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_scalar(text)
    assert not is_text(text)
