"""Words for annotating a component's constructor: ranges, lengths, facts from the data, files, defaults.

A constructor's annotations are the component's whole declaration. `framework/schema.py` turns them into JSON Schema.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple


class Range(NamedTuple):
    """Bounds of a number: `Annotated[float, Range(gt=0, le=1)]`."""

    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None

    def holds(self, value: float) -> bool:
        """Whether a number lies within the bounds (never true for NaN, unless there are none)."""
        return (
            (self.gt is None or value > self.gt)
            and (self.ge is None or value >= self.ge)
            and (self.lt is None or value < self.lt)
            and (self.le is None or value <= self.le)
        )

    def __str__(self) -> str:
        words = {">": self.gt, ">=": self.ge, "<": self.lt, "<=": self.le}
        return " and ".join(f"{sign} {bound:g}" for sign, bound in words.items() if bound is not None)


class Length(NamedTuple):
    """Bounds of a list's length: `Annotated[list[int], Length(1, 8)]`."""

    min: int = 0
    max: int | None = None


class Pattern(NamedTuple):
    """The form of a text, anchored by `^` and `$`, and in words: `Annotated[str, Pattern("^[a-z]+$", "a word")]`."""

    regex: str
    words: str


class FromData(NamedTuple):
    """Filled from the data's (or env's) facts when the recipe is silent: `Annotated[int, FromData("num_classes")]`."""

    fact: str


class InputFile(NamedTuple):
    """A file to read, relative to the recipe that wrote it: `Annotated[str, InputFile((".csv",))]`.

    With `folder` the text may also name a folder, of which the component reads what has one of the suffixes.
    """

    suffixes: tuple[str, ...] = ()
    folder: bool = False


class Paths(NamedTuple):
    """Marks a map whose keys are dotted paths of the recipe and whose values are tried there; see `Variations`."""

    named: bool = False


class Default(NamedTuple):
    """A default told as in a recipe: a nested component's (use `default(...)`), or a TypedDict key's in `Annotated`."""

    value: Any


def default(value: str | dict[str, Any]) -> Any:
    """The default of a nested component: `prior: Prior = default("gaussian")` or `default({"type": ..., ...})`."""
    return Default(value)


Positive = Annotated[float, Range(gt=0)]
NonNegative = Annotated[float, Range(ge=0)]
Share = Annotated[float, Range(gt=0, le=1)]
Fraction = Annotated[float, Range(ge=0, lt=1)]
Count = Annotated[int, Range(ge=1, le=10**9)]
Width = Annotated[int, Range(ge=1, le=10**6)]
Seed = Annotated[int, Range(ge=0, le=2**32 - 1)]
Variations = Annotated[dict[str, Any], Paths()]  # dotted path -> list of values, each checked as if it stood there
NamedChanges = Annotated[dict[str, Any], Paths(named=True)]  # name -> {dotted path: value}
