"""Shared by the measures of two classes: scores and labels of a split."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from raycipe.components.measures._predictions import predict
from raycipe.framework.contracts import Skipped, Trained


class Scored(NamedTuple):
    """Scores (n,), larger is more positive; labels (n,) bool; (low, high) of the estimator's own vote, or None."""

    scores: np.ndarray
    y: np.ndarray
    thresholds: tuple[float, float] | None


def scored(trained: Trained, split: str) -> Scored:
    """Of an estimator that votes its scores, else the probability of the second class.

    Raises Skipped where the data has no two classes, or a class is missing from the split.
    """
    if trained.facts.get("num_classes") != 2:
        raise Skipped("it takes data of two classes")
    estimator = trained.estimator
    if hasattr(estimator, "vote_scores"):
        X, y = examples_of(trained, split, int(estimator.positive_))
        found = Scored(estimator.vote_scores(X), y, estimator.thresholds_)
    else:
        probabilities, labels = predict(trained, split)
        found = Scored(probabilities[:, 1].numpy(), labels.numpy() == 1, None)
    if found.y.all() or not found.y.any():
        raise Skipped(f"`{split}` has examples of one class alone")
    return found


def examples_of(trained: Trained, split: str, positive: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows X (n, d) and labels (n,) bool of a split of two classes. Raises Skipped where there are none."""
    from raycipe.framework.tables import table

    if trained.facts.get("num_classes") != 2:
        raise Skipped("it takes data of two classes")
    if split not in trained.splits:
        raise Skipped(f"the data has no `{split}` split")
    rows = table(trained.splits[split])
    y = np.asarray(rows["y"] == positive)
    if y.all() or not y.any():
        raise Skipped(f"`{split}` has examples of one class alone")
    return rows["X"], y


def boosted_of(trained: Trained):  # type: ignore[no-untyped-def]  # components/estimators/_boost.Boosted
    """What zboost found. Raises Skipped for another estimator."""
    found = getattr(trained.estimator, "boosted_", None)
    if found is None:
        raise Skipped("it looks at the rounds of estimators/zboost")
    return found
