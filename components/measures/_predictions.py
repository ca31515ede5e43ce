"""Shared by the measures of classifiers: class probabilities and labels of one split."""

from __future__ import annotations

import torch
from torch import Tensor

from raycipe.framework.contracts import Skipped, Trained


def predict(trained: Trained, split: str) -> tuple[Tensor, Tensor]:
    """Probabilities (n, K) in float64 and labels (n,) of a split, on the CPU; computed once per run and split.

    Raises Skipped where the data has no classes or no such split.
    """
    if "num_classes" not in trained.facts:
        raise Skipped("the data has no classes")
    key = ("predictions", split)
    if key not in trained.cache and trained.model is None:
        trained.cache[key] = _of_estimator(trained, split)
    if key not in trained.cache:
        assert trained.model is not None  # the other case
        probabilities, labels = [], []
        with torch.inference_mode():
            for batch in trained.batches(split):
                probabilities.append(trained.model(batch["x"]).double().softmax(dim=1).cpu())
                labels.append(batch["y"].cpu())
        trained.cache[key] = torch.cat(probabilities), torch.cat(labels)
    return trained.cache[key]


def _of_estimator(trained: Trained, split: str) -> tuple[Tensor, Tensor]:
    from raycipe.framework.scores import class_probabilities
    from raycipe.framework.tables import table

    if trained.estimator is None:
        raise Skipped("it needs a model or an estimator, and this run has neither")
    if split not in trained.splits:
        raise Skipped(f"the data has no `{split}` split")
    rows = table(trained.splits[split])
    probabilities = class_probabilities(trained.estimator, trained.facts["num_classes"], rows["X"])
    if probabilities is None:
        raise Skipped("the estimator tells no probabilities")
    return torch.from_numpy(probabilities), torch.from_numpy(rows["y"])
