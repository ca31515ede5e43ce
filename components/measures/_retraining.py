"""Shared by the measures of influence: how losses really change when examples are left out, by training again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from raycipe.framework.contracts import Split, Task, Trained
from raycipe.framework.splits import subset
from raycipe.framework.streams import torch_generator
from raycipe.framework.training.again import train_again
from raycipe.framework.training.feed import in_order


@dataclass
class Ground:
    """What a retraining needs, as plain data and tensors: it may happen in another process."""

    recipe: Mapping[str, Any]
    splits: Mapping[str, Split]
    facts: Mapping[str, Any]
    task: Task
    queries: Sequence[Split]
    device: torch.device
    seeds: Sequence[int]


def losses_without(ground: Ground, stays: Tensor) -> list[float]:
    """The queries' losses, each the mean over its examples and over seeds, of models trained on `stays` alone."""
    found = []
    for seed in ground.seeds:
        splits = {**ground.splits, "train": subset(ground.splits["train"], stays)}
        model = train_again(ground.recipe, splits, ground.facts, seed, ground.device)
        found.append([mean_loss(ground.task, model, split, ground.device) for split in ground.queries])
    return [float(value) for value in np.mean(found, axis=0)]


def mean_loss(task: Task, model: Any, split: Split, device: torch.device) -> float:
    total, count = 0.0, 0
    with torch.inference_mode():
        for batch in in_order(split, 1024, device):
            total += float(task.loss(model, batch).value) * len(batch["id"])
            count += len(batch["id"])
    return total / count


def all_losses(trained: Trained, ground: Ground, stays: Sequence[Tensor]) -> np.ndarray:
    """(len(stays), queries); the trainings run at the same time where the run has places for them."""
    return np.array(list(trained.fan_out(partial(losses_without, ground), list(stays))))


def without_one(count: int, examples: Sequence[int]) -> list[Tensor]:
    everything = torch.arange(count)
    return [everything[everything != example] for example in examples]


def halves(count: int, fraction: float, trials: int, seed: int) -> list[Tensor]:
    """`trials` random subsets of the ids, each a share `fraction` of them, ascending."""
    generator = torch_generator(seed, "subsets")
    size = max(1, round(fraction * count))
    return [torch.randperm(count, generator=generator)[:size].sort().values for _ in range(trials)]


def correlation(predicted: np.ndarray, actual: np.ndarray, by_rank: bool) -> float:
    """Pearson's, or Spearman's by ranks; 0 where one of them does not vary."""
    from scipy import stats

    first, second = (stats.rankdata(each) if by_rank else np.asarray(each, float) for each in (predicted, actual))
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])
