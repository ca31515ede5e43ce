"""Examples named one by one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from raycipe.components.forget._examples import FORGET, chosen
from raycipe.framework.arguments import InputFile, Length, Range
from raycipe.framework.contracts import Forget, Split
from raycipe.framework.errors import RunError, shown
from raycipe.framework.registry import register


@register
class Indices(Forget):
    """Training examples named by their ids: their position in the training split, from 0.

    F = the ids of the list, or of a text file with one id a line.

    Args:
        ids: the examples
        path: a file with one id a line, instead of `ids`; empty lines and what follows # are left out

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: fine_tune, steps: 20, forget: {type: indices, ids: [3, 14, 159]}}
    """

    at_most_one: ClassVar[tuple[tuple[str, ...], ...]] = (("ids", "path"),)

    def __init__(
        self,
        ids: Annotated[list[Annotated[int, Range(ge=0, le=2**53)]], Length(1, 10**6)] | None = None,
        path: Annotated[str, InputFile((".txt", ".csv"))] | None = None,
    ) -> None:
        if ids is None and path is None:
            raise ValueError("ids: say which examples, in `ids` or in a file named by `path`")
        self.ids = ids
        self.path = path

    def select(self, splits: Mapping[str, Split], seed: int) -> Tensor:
        ids = list(self.ids) if self.ids is not None else read(Path(str(self.path)))
        there = len(splits["train"])
        beyond = next((number for number in ids if not 0 <= number < there), None)
        if beyond is not None:
            message = f"there is no training example {beyond}: the ids are 0 to {there - 1}"
            raise RunError("data", message, where=FORGET)
        if len(set(ids)) < len(ids):
            double = next(number for place, number in enumerate(ids) if number in ids[:place])
            raise RunError("data", f"example {double} is named twice", where=FORGET)
        return chosen(splits, torch.tensor(sorted(ids), dtype=torch.int64), "named")


def read(file: Path) -> list[int]:
    """Whole numbers, one a line. Raises RunError naming the line that holds none."""
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        text = line.partition("#")[0].strip()
        if text and not text.isdecimal():
            raise RunError("data", f"{file}:{number}: `{shown(text)}` is no id", "one whole number a line", FORGET)
        if text:
            found.append(int(text))
    return found
