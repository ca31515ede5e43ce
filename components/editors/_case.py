"""Shared by the editors that forget: a request resolved into examples that go and examples that stay."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from raycipe.framework.comm import LocalComm
from raycipe.framework.contracts import Batch, Forget, Split, Task, Trained
from raycipe.framework.errors import RunError
from raycipe.framework.splits import subset
from raycipe.framework.training.evaluate import evaluate
from raycipe.framework.training.feed import in_order, read_ids

BATCH = 1024
DECOUPLED = ("adamw", "lion")  # their weight decay is no term of the loss


@dataclass
class Case:
    """What a request means for one trained model.

    `goes` and `stays` are the examples of the request and all others of the training split, `ids` those of the
    former there. `related` are the examples of the other splits that the request means as well (its class).
    """

    trained: Trained
    request: Forget | None  # None: `goes` are other examples, whose loss is asked for
    model: nn.Module  # as it was given, in eval mode
    task: Task
    ids: Tensor
    goes: Split
    stays: Split
    weight_decay: float
    notes: list[str] = field(default_factory=list)

    @staticmethod
    def of(trained: Trained, request: Forget, weight_decay: float | None = None) -> Case:
        """`weight_decay` None takes that of the training. Raises RunError (`data`) for what can't be requested."""
        assert trained.model is not None and trained.task is not None  # editors need them
        if "train" not in trained.splits:
            raise RunError("data", "the data has no `train` split", where="data")
        train = trained.splits["train"]
        ids = request.select(trained.splits, trained.seed)
        stays = torch.ones(len(train), dtype=torch.bool)
        stays[ids] = False
        notes: list[str] = []
        if weight_decay is None:
            weight_decay = weight_decay_of(trained.recipe, notes)
        model = copy.deepcopy(trained.model).eval()
        goes, rest = subset(train, ids), subset(train, stays.nonzero().flatten())
        return Case(trained, request, model, trained.task, ids, goes, rest, weight_decay, notes)

    @property
    def train(self) -> Split:
        return self.trained.splits["train"]

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def batches(self, split: Split, size: int = BATCH) -> Iterator[Batch]:
        return in_order(split, size, self.device)

    def scores(self, model: nn.Module, split: Split) -> dict[str, float]:
        """The task's figures on a split."""
        return evaluate(model, split, self.task, LocalComm(), BATCH, self.device)

    @cached_property
    def held_out(self) -> dict[str, Split]:
        """val and test, each parted into what the request does not mean and, as `forget_val`, what it does."""
        found: dict[str, Split] = {}
        for name in ("val", "test"):
            if name not in self.trained.splits:
                continue
            split = self.trained.splits[name]
            related = None if self.request is None else self.request.related(split)
            if related is None or len(related) in (0, len(split)):
                found[name] = split
                continue
            other = torch.ones(len(split), dtype=torch.bool)
            other[related] = False
            found[name], found[f"forget_{name}"] = subset(split, other.nonzero().flatten()), subset(split, related)
        return found

    def figures(self, model: nn.Module, when: str) -> dict[str, float]:
        """The task's figures on what goes and what stays: `after/forget/accuracy`, `after/retain/loss`, ... .

        Where the request means examples of the test split as well, also on the others: `after/retain_test/accuracy`.
        """
        parts = {"forget": self.goes, "retain": self.stays}
        if "forget_test" in self.held_out:
            parts |= {"retain_test": self.held_out["test"], "forget_test": self.held_out["forget_test"]}
        return {
            f"{when}/{part}/{name}": value
            for part, split in parts.items()
            for name, value in self.scores(model, split).items()
        }


def weight_decay_of(recipe: Mapping[str, Any], notes: list[str]) -> float:
    """The training's weight decay as a term (wd/2)|w|² of the loss, as far as its optimizer had one."""
    section = recipe.get("optimizer")
    if not isinstance(section, Mapping):
        return 0.0
    decay = float(section.get("weight_decay") or 0.0)
    if decay and section.get("type") in DECOUPLED:
        notes.append(
            f"{section['type']} decays weights beside the loss: its weight_decay {decay:g} is taken as the term "
            "(wd/2)|w|² of the loss, which is close where the gradients' scale is near 1; sgd has exactly that term"
        )
    return decay


class Draws:
    """Batches drawn from a split for ever: shuffled passes, in an order of the seed."""

    def __init__(self, case: Case, split: Split, size: int, name: str) -> None:
        self.split, self.size, self.device = split, min(size, len(split)), case.device
        self.generator = case.trained.generator(name)
        self.rest = torch.zeros(0, dtype=torch.int64)

    def next(self) -> Batch:
        if len(self.rest) < self.size:
            self.rest = torch.randperm(len(self.split), generator=self.generator)
        ids, self.rest = self.rest[: self.size], self.rest[self.size :]
        return read_ids(self.split, ids.sort().values, self.device)
