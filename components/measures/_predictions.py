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
    if key not in trained.cache:
        assert trained.model is not None  # the measure needs it
        probabilities, labels = [], []
        with torch.inference_mode():
            for batch in trained.batches(split):
                probabilities.append(trained.model(batch["x"]).double().softmax(dim=1).cpu())
                labels.append(batch["y"].cpu())
        trained.cache[key] = torch.cat(probabilities), torch.cat(labels)
    return trained.cache[key]
