"""Which training examples a network can only get right by having seen them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from raycipe.components.measures._activations import flipped_auc
from raycipe.components.measures._subsets import Retraining
from raycipe.framework.arguments import Count, Range, Seed
from raycipe.framework.contracts import Measure, Measured, Skipped, Trained
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator

LEAST = 5  # models with, and without, an example that tell its score


class Scores(NamedTuple):
    """For n examples: memorization, its standard error (both NaN where unknown), and the scores of the two halves."""

    memorization: np.ndarray
    error: np.ndarray
    halves: tuple[np.ndarray, np.ndarray]

    @property
    def reliability(self) -> float:
        """Rank correlation of the halves of the models; NaN where it can't be told."""
        from scipy import stats

        both = np.isfinite(self.halves[0]) & np.isfinite(self.halves[1])
        first, second = self.halves[0][both], self.halves[1][both]
        if both.sum() < 3 or np.ptp(first) == 0 or np.ptp(second) == 0:
            return float("nan")
        return float(stats.spearmanr(first, second).statistic)


@register
class FeldmanMemorization(Measure):
    """Feldman's memorization score of each training example, from many models trained on random subsets S.

    mem(i) = P[h(x_i) = y_i | i in S] - P[h(x_i) = y_i | i not in S], with |S| = fraction · n. Near 0: the example is
    got right anyway. Near 1: only where it was seen (wrong labels, rare examples). The models are the recipe's, trained
    side by side as batched computations; `standard_error` is the mean over examples, `reliability` the rank correlation
    of the scores of two halves of the models: below 0.6 take more. `flipped_auc` tells how well the score finds
    exchanged labels, where the data know them. Subset k depends on (seed, k) alone.

    Args:
        models: how many are trained
        fraction: share of the examples that each sees
        steps: optimizer steps of each (null: as the recipe's epochs or steps)
        batch_size: examples of a step (null: the recipe's)
        target: count right answers, or add up the label's probability
        models_at_once: models in one batched computation; the blocks are independent parts
        seed: draws subsets, weights and orders

    Reference:
        V. Feldman, C. Zhang, What Neural Networks Memorize and Why, NeurIPS 2020.

    Recipe:
        data: {type: digits, test: 0.9, val: 0}
        model: {type: mlp, hidden: [8]}
        task: classification
        optimizer: {type: adam, lr: 1e-2}
        measures: [{type: feldman_memorization, models: 20, steps: 5}]
    """

    needs: ClassVar[tuple[str, ...]] = ("task", "splits")
    in_training: ClassVar[bool] = False
    reports: ClassVar[tuple[str, ...]] = (
        "mean",
        "above_half",
        "standard_error",
        "reliability",
        "undefined",
        "flipped_auc",
    )

    def __init__(
        self,
        models: Annotated[int, Range(ge=10, le=10**6)] = 200,
        fraction: Annotated[float, Range(gt=0, lt=1)] = 0.7,
        steps: Count | None = None,
        batch_size: Count | None = None,
        target: Literal["correct", "confidence"] = "correct",
        models_at_once: Count = 25,
        seed: Seed = 0,
    ) -> None:
        self.models = models
        self.fraction = fraction
        self.steps = steps
        self.batch_size = batch_size
        self.target = target
        self.models_at_once = models_at_once
        self.seed = seed

    def measure(self, trained: Trained) -> Measured:
        scores = self.scores(trained)
        known = np.isfinite(scores.memorization)
        if not known.any():
            raise Skipped(f"no example has {LEAST} models with it and {LEAST} without: raise models")
        mem = scores.memorization[known]
        values = {
            "mean": float(mem.mean()),
            "above_half": float((mem > 0.5).mean()),
            "standard_error": float(scores.error[known].mean()),
            "undefined": float((~known).sum()),
        }
        if np.isfinite(scores.reliability):
            values["reliability"] = scores.reliability
        told = flipped_auc(trained, torch.arange(len(known)), torch.from_numpy(scores.memorization))
        if told is not None:
            values["flipped_auc"] = told
        rows: list[dict[str, Any]] = [
            {"id": i, "memorization": float(m), "standard_error": float(e)}
            for i, (m, e) in enumerate(zip(scores.memorization, scores.error, strict=True))
        ]
        return Measured(values=values, tables={"examples": rows}, figures={"scores": lambda: _draw(mem)})

    def scores(self, trained: Trained) -> Scores:
        """The examples' scores, computed once a run for equal arguments."""
        wanted = ("feldman", *vars(self).values())
        if wanted not in trained.cache:
            if "num_classes" not in trained.facts:
                raise Skipped("the data has no classes")
            n = len(trained.splits["train"])
            size = min(n - 1, max(1, round(self.fraction * n)))
            training = Retraining.of(trained, size, self.steps, self.batch_size, self.seed)
            blocks = [
                list(range(start, min(start + self.models_at_once, self.models)))
                for start in range(0, self.models, self.models_at_once)
            ]
            work = partial(hits_of_block, training, size, self.target == "confidence")
            trained.cache[wanted] = estimate(subsets_and_hits(trained.fan_out, work, blocks), n)
        found: Scores = trained.cache[wanted]
        return found


def subset(seed: int, number: int, n: int, size: int) -> np.ndarray:
    """The examples of model `number`, ascending."""
    return np.sort(numpy_generator(seed, "feldman_memorization", number).permutation(n)[:size])


def hits_of_block(
    training: Retraining, size: int, confidence: bool, numbers: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """(which examples each model saw, what it says of each): (models, n) bool and float."""
    labels = training.examples["y"]
    n = len(labels)
    chosen = np.stack([subset(training.seed, number, n, size) for number in numbers])
    outputs = training.outputs(numbers, torch.from_numpy(chosen), training.examples["x"])  # (models, n, K)
    seen = np.zeros((len(numbers), n), dtype=bool)
    np.put_along_axis(seen, chosen, True, axis=1)
    return seen, target_of(outputs, labels, confidence)


def target_of(outputs: Tensor, labels: Tensor, confidence: bool) -> np.ndarray:
    if confidence:
        places = labels.expand(len(outputs), -1)[..., None]
        return outputs.softmax(dim=2).gather(2, places)[..., 0].cpu().double().numpy()
    return (outputs.argmax(dim=2) == labels).cpu().double().numpy()


def subsets_and_hits(
    fan_out: Callable[..., Iterable[Any]], work: Callable[[list[int]], Any], blocks: list[list[int]]
) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    yield from fan_out(work, blocks)


def estimate(blocks: Iterable[tuple[np.ndarray, np.ndarray]], n: int) -> Scores:
    """Scores from blocks of (seen, hit), each (models, n); sums alone are kept. The halves are models of even and odd
    number."""
    sums = np.zeros((2, 2, 3, n))  # half, with or without the example, (count, hits, hits²)
    number = 0
    for seen, hit in blocks:
        for mask, values in zip(seen, hit, strict=True):
            for place, there in enumerate((mask, ~mask)):
                sums[number % 2, place] += np.stack([there, there * values, there * values**2])
            number += 1
    memorization, error = _difference(sums.sum(axis=0))
    return Scores(memorization, error, (_difference(sums[0])[0], _difference(sums[1])[0]))


def _difference(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    count, hits, squares = sums[:, 0], sums[:, 1], sums[:, 2]  # (2, n) each: with, without
    mean = hits / np.maximum(count, 1)
    variance = np.maximum(squares / np.maximum(count, 1) - mean**2, 0) / np.maximum(count, 1)
    unknown = (count < LEAST).any(axis=0)
    value, error = mean[0] - mean[1], np.sqrt(variance.sum(axis=0))
    value[unknown] = error[unknown] = np.nan
    return value, error


def _draw(scores: np.ndarray) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.hist(scores, bins=np.linspace(-0.2, 1.0, 49).tolist())
    axes.set(xlabel="memorization", ylabel="examples", yscale="log")
    return figure
