"""The training of a recipe once more, in this process, on other examples: a retrained model to compare with."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from raycipe.framework.contracts import Data, Split
from raycipe.framework.errors import RunError
from raycipe.framework.training.after import final_model
from raycipe.framework.training.loading import seed_of
from raycipe.framework.training.plan import TrainPlan
from raycipe.framework.training.session import Session, train
from raycipe.framework.training.state import capture_rng, restore_rng

NEEDED = ("model", "task", "optimizer")
NEVER = 10**9


class Given(Data):
    """Splits that are there already."""

    type_name = "given"

    def __init__(self, splits: Mapping[str, Split], facts: Mapping[str, Any]) -> None:
        self.splits = dict(splits)
        self.facts = dict(facts)

    def load(self, seed: int) -> dict[str, Split]:
        return dict(self.splits)


def train_again(
    recipe: Mapping[str, Any],
    splits: Mapping[str, Split],
    facts: Mapping[str, Any],
    seed: int | None = None,
    device: torch.device | str = "cpu",
) -> nn.Module:
    """The final model, in eval mode, of the recipe's training on `splits`; with the recipe's own seed unless one is
    given. `test` is not looked at. Random generators stay as they were.

    Raises RunError (`recipe`) if the recipe does not say how its model was trained.
    """
    missing = [section for section in NEEDED if section not in recipe]
    if missing:
        message = f"the model can't be trained again: the recipe has no {' and no '.join(f'`{m}`' for m in missing)}"
        raise RunError("recipe", message, "start from a run that trained its model", "editor")
    settings = {**(recipe.get("train") or {}), "checkpoint_every": NEVER, "keep_best": None, "batch_size": 64}
    settings["batch_size"] = min(int((recipe.get("train") or {}).get("batch_size", 64)), len(splits["train"]))
    plain = {name: recipe[name] for name in NEEDED}
    plain |= {"seed": seed_of(recipe, "model") if seed is None else seed, "train": settings}
    plain["data"] = Given({name: split for name, split in splits.items() if name != "test"}, facts)
    found: list[nn.Module] = []

    def keep(session: Session) -> None:
        found.append(final_model(session))

    rng = capture_rng()
    try:
        with tempfile.TemporaryDirectory() as folder:
            train(TrainPlan(plain, folder), device=device, after=keep)
    finally:
        restore_rng(rng)
    if not found:
        raise KeyboardInterrupt
    return found[0]
