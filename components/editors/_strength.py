"""How far an edit goes along its direction: as far as the examples that go have to be forgotten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypedDict

from torch import nn

from raycipe.components.editors._case import Case
from raycipe.framework.arguments import Default, Fraction, Length, Positive, Range
from raycipe.framework.contracts import Split, Trained
from raycipe.framework.errors import RunError
from raycipe.framework.training.again import train_again

GRID = [0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]


class Search(TypedDict, total=False):
    """The smallest strength at which the examples that go are predicted no better than the target.

    Args:
        target: accuracy on the training examples that go: a number, the original model's on the validation split, or
            that of a model that is trained without them (which an honest comparison does not know)
        tolerance: how far above the target still counts as reached
        grid: strengths that are tried, ascending; 1 is the step that the curvature proposes
        refine: halvings of the interval in which the target is reached
    """

    target: Annotated[Fraction | Literal["validation", "retrain"], Default(0.0)]
    tolerance: Annotated[Fraction, Default(0.01)]
    grid: Annotated[list[Positive], Length(1, 200), Default(GRID)]
    refine: Annotated[int, Range(ge=0, le=30), Default(3)]


@dataclass
class Chosen:
    """The strength, the accuracy it was chosen by, and everything that was tried."""

    strength: float
    is_reached: bool
    target: float
    rows: list[dict[str, Any]] = field(default_factory=list)


def accuracy(case: Case, model: nn.Module, split: Split) -> float:
    """Raises RunError where the task has none."""
    found = case.scores(model, split)
    if "accuracy" not in found:
        message = f"the task reports no accuracy ({', '.join(found)}), so no strength can be searched by it"
        raise RunError("recipe", message, "give a number: `strength: 1.0`", "editor.strength")
    return found["accuracy"]


def target_of(case: Case, search: Search, goal: Split) -> float:
    """The accuracy to come down to; `goal` is what a retrained model is trained on."""
    target = search.get("target", 0.0)
    if target == "validation":
        split = "forget_val" if "forget_val" in case.held_out else "val"
        if split not in case.held_out:
            message = "target: validation needs a `val` split, and the data has none"
            raise RunError("data", message, "give `data.val` a share, or the target as a number", "editor.strength")
        return accuracy(case, case.model, case.held_out[split])
    if target == "retrain":
        return accuracy(case, retrained(case.trained, goal), case.goes)
    return float(target)


def retrained(trained: Trained, goal: Split) -> nn.Module:
    """The recipe's model trained on `goal` alone, once for each run and split."""
    key = ("retrained", len(goal), id(goal))
    if key not in trained.cache:
        splits = {**trained.splits, "train": goal}
        model = train_again(trained.recipe, splits, trained.facts, trained.seed, trained.device)
        trained.cache[key] = (model, goal)  # the split stays alive, so that its id is its own
    model, _ = trained.cache[key]
    return model


def search_strength(case: Case, edited: Callable[[float], nn.Module], search: Search, target: float) -> Chosen:
    """The smallest strength of the grid that reaches the target, refined by bisection; the one that comes closest if
    none does. Training examples and the original's validation figures decide, never the test split."""
    wanted = target + search.get("tolerance", 0.01)
    tried: dict[float, float] = {}
    rows: list[dict[str, Any]] = []

    def forgets(strength: float) -> bool:
        model = edited(strength)
        tried[strength] = accuracy(case, model, case.goes)
        kept = accuracy(case, model, case.stays)
        rows.append({"strength": strength, "forget_accuracy": tried[strength], "retain_accuracy": kept})
        return tried[strength] <= wanted

    low, high = 0.0, None
    for strength in sorted(search.get("grid", GRID)):
        if forgets(strength):
            high = strength
            break
        low = strength
    if high is None:
        best = min(tried, key=lambda strength: (tried[strength], strength))
        return Chosen(best, False, target, rows)
    for _ in range(search.get("refine", 3)):
        middle = (low + high) / 2
        low, high = (low, middle) if forgets(middle) else (middle, high)
    return Chosen(high, True, target, sorted(rows, key=lambda row: row["strength"]))
