"""How far the features of a classifier have collapsed to their class means."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from raycipe.components.measures._activations import head_of, layer_of
from raycipe.framework.arguments import Positive
from raycipe.framework.contracts import Measure, Measured, Skipped, Trained
from raycipe.framework.registry import register


@register
class NeuralCollapse(Measure):
    """The four signs of neural collapse in a layer's features h; all are 0 for a fully collapsed classifier.

    With class means mu_c, their mean mu_G, the covariance within classes S_W and S_B = 1/K sum (mu_c - mu_G)(...)':

    nc1 = tr(S_W S_B^+) / K. nc2_norm = std_c |mu_c - mu_G| / mean_c |mu_c - mu_G|; nc2_angle = the mean over pairs of
    |cos(mu_c - mu_G, mu_k - mu_G) + 1 / (K - 1)|. nc3 = |W'/|W| - M/|M||, M = [mu_c - mu_G], W the last layer's
    weights. nc4 = the share of examples whose prediction is not the class of the nearest mean. `soft_nc1` is
    tr S_W / tr S_B, which tasks/collapse_control steers. mu_G is the mean of the class means, however many examples
    each class has.

    Args:
        layer: penultimate (what the last linear module is given), logits, input, or a module's dotted path
        split: whose examples
        tolerance: eigenvalues of S_B below this share of the largest count as 0

    Reference:
        V. Papyan, X. Y. Han, D. Donoho, Prevalence of Neural Collapse during the Terminal Phase of Deep Learning
        Training, PNAS, 2020.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16]}
        task: classification
        optimizer: {type: sgd, lr: 0.1}
        measures: [neural_collapse]
    """

    reports: ClassVar[tuple[str, ...]] = ("nc1", "nc2_norm", "nc2_angle", "nc3", "nc4", "soft_nc1", "rank")

    def __init__(
        self,
        layer: str = "penultimate",
        split: Literal["train", "val", "test"] = "train",
        tolerance: Positive = 1e-6,
    ) -> None:
        self.layer = layer
        self.split = split
        self.tolerance = tolerance

    def measure(self, trained: Trained) -> Measured:
        found = layer_of(trained, self.split, self.layer)
        head: Tensor | None = None
        if self.layer == "penultimate":
            assert trained.model is not None  # `needs` says so
            with torch.no_grad():
                last = head_of(trained.model, next(trained.batches(self.split, 8))["x"])
            head = last.weight.detach() if last is not None else None
        return Measured(values=collapse(found.values, found.labels, found.predicted, head, self.tolerance))


def collapse(
    features: Tensor, labels: Tensor, predicted: Tensor, head: Tensor | None, tolerance: float = 1e-6
) -> dict[str, float]:
    """The signs for features (n, d) in double precision, classes and predictions (n,), the head's weights (K, d)."""
    classes = torch.unique(labels)
    k = len(classes)
    if k < 2:
        raise Skipped("it needs examples of at least two classes")
    means = torch.stack([features[labels == label].mean(dim=0) for label in classes])  # (K, d)
    place = torch.searchsorted(classes, labels)
    within = features - means[place]
    between = means - means.mean(dim=0)
    norms = between.norm(dim=1)
    if float(norms.max()) == 0:
        raise Skipped("all class means are one point")
    covariance_w, covariance_b = within.T @ within / len(features), between.T @ between / k
    values, vectors = torch.linalg.eigh(covariance_b)
    kept = values > tolerance * values[-1]
    inverse = vectors[:, kept] / values[kept] @ vectors[:, kept].T
    cosines = between @ between.T / (norms[:, None] * norms).clamp(min=1e-300)
    pairs = ~torch.eye(k, dtype=torch.bool, device=features.device)
    nearest = classes[torch.cdist(features, means).argmin(dim=1)]
    found = {
        "nc1": float(torch.trace(covariance_w @ inverse)) / k,
        "nc2_norm": float(norms.std(correction=0) / norms.mean()),
        "nc2_angle": float((cosines[pairs] + 1 / (k - 1)).abs().mean()),
        "nc4": float((predicted != nearest).double().mean()),
        "soft_nc1": float(torch.trace(covariance_w) / torch.trace(covariance_b)),
        "rank": float(kept.sum()),
    }
    if head is not None and head.shape[1] == features.shape[1] and int(classes[-1]) < len(head):
        weights = head[classes].to(features)
        found["nc3"] = float((weights / weights.norm() - between / between.norm()).norm())
    return found
