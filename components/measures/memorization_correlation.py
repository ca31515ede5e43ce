"""Whether the magnitude ratio of an example tells how much it was memorized."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from raycipe.components.measures._activations import flipped_auc
from raycipe.components.measures._magnitude import Metric, Rule, distances, scale_of
from raycipe.components.measures._subsets import Retraining
from raycipe.components.measures.feldman_memorization import FeldmanMemorization
from raycipe.components.measures.magnitude import check_scale
from raycipe.components.measures.magnitude_potential import Space
from raycipe.framework.arguments import Count, Length, Positive, Range, default
from raycipe.framework.contracts import Measure, Measured, Skipped, Trained
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator

SCORES = ("ratio", "class", "all", "loss", "margin", "el2n")
WORDS = ("spearman", "low", "high", "kendall", "single", "clean", "flipped_auc")


@register
class MemorizationCorrelation(Measure):
    """Rank correlation of magnitude ratios at the logits with Feldman's memorization scores, beside simpler scores.

    `models` networks of the recipe are trained on all examples. Of each example and network: `ratio` of magnitude
    potentials, each example left out (its numerator alone is `class`, its denominator `all`), the loss, the margin of
    the label's logit, and el2n = |softmax - unit vector|. `<score>_spearman` and `_kendall` are of the mean over
    networks with the memorization scores, `_low` and `_high` the 95 % bootstrap interval over examples, `_single` the
    mean of single networks' Spearman correlations, `_clean` that among examples whose label is not known to be
    exchanged, `_flipped_auc` how well the score finds those (the smaller the ratio, class, all and margin, the larger
    loss and el2n). With several factors the first is judged in full, of the others `ratio_<factor>` is the Spearman
    correlation.

    Args:
        memorization: the scores to compare with, a feldman_memorization
        models: networks that are trained
        scale: as in magnitude_potential
        factors: as in magnitude_potential, the first is the one that counts
        metric: distance between logits
        bootstrap: resamples of the interval

    Reference:
        Torkamani, Gouk, Sarkar, Generalization in Neural Networks Through the Lens of Magnitude Potential, 2026;
        M. Paul, S. Ganguli, G. K. Dziugaite, Deep Learning on a Data Diet, NeurIPS 2021 (el2n).

    Recipe:
        data: {type: digits, test: 0.93, val: 0}
        model: {type: mlp, hidden: [8]}
        task: classification
        optimizer: {type: adam, lr: 1e-2}
        measures:
          - type: memorization_correlation
            models: 2
            memorization: {type: feldman_memorization, models: 20, steps: 9}
    """

    needs: ClassVar[tuple[str, ...]] = ("task", "splits")
    in_training: ClassVar[bool] = False

    def __init__(
        self,
        memorization: Measure = default("feldman_memorization"),
        models: Count = 5,
        scale: Rule = "median",
        factors: Annotated[list[Positive], Length(1, 20)] = [10.0, 3.0],  # noqa: B006 (never changed)
        metric: Metric = "euclidean",
        bootstrap: Annotated[int, Range(ge=10, le=10**6)] = 1000,
    ) -> None:
        for factor in factors:
            check_scale(scale, factor)
        self.memorization = memorization
        self.models = models
        self.scale: Rule = scale
        self.factors = factors
        self.metric: Metric = metric
        self.bootstrap = bootstrap

    def measure(self, trained: Trained) -> Measured:
        feldman = self.memorization
        if not isinstance(feldman, FeldmanMemorization):
            raise Skipped(f"memorization must be a feldman_memorization, not {feldman.type_name}")
        memorization = feldman.scores(trained).memorization
        n = len(memorization)
        training = Retraining.of(trained, n, feldman.steps, feldman.batch_size, feldman.seed)
        numbers = [feldman.models + number for number in range(self.models)]  # not the subsets' models
        everything = torch.arange(n).expand(self.models, n)
        outputs = training.outputs(numbers, everything, training.examples["x"]).double()  # (models, n, K)
        labels = training.examples["y"]
        names = [*SCORES, *(f"ratio_{factor:g}" for factor in self.factors[1:])]
        scores: dict[str, list[np.ndarray]] = {name: [] for name in names}
        for logits in outputs:
            for name, value in {**simple_scores(logits, labels), **self._ratios(logits, labels)}.items():
                scores[name].append(value.cpu().numpy())
        return self._judge(trained, memorization, {name: np.stack(found) for name, found in scores.items()})

    def _ratios(self, logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
        between = distances(logits, logits, self.metric)
        found: dict[str, Tensor] = {}
        for number, factor in enumerate(self.factors):
            potentials = Space(between, labels, scale_of(between, self.scale, factor), 2).among()
            if number:
                found[f"ratio_{factor:g}"] = potentials.ratio
            else:
                found.update({"ratio": potentials.ratio, "class": potentials.of_class, "all": potentials.of_all})
        return found

    def _judge(self, trained: Trained, memorization: np.ndarray, scores: dict[str, np.ndarray]) -> Measured:
        from scipy import stats

        known = np.isfinite(memorization) & np.isfinite(np.stack([s.mean(axis=0) for s in scores.values()])).all(axis=0)
        if known.sum() < 10 or np.ptp(memorization[known]) == 0:
            raise Skipped(f"the memorization scores of {int(known.sum())} examples do not differ enough to be compared")
        clean = known & ~exchanged(trained, len(known))
        values: dict[str, float] = {"examples": float(known.sum())}
        for name, each in scores.items():
            mean = each.mean(axis=0)
            spearman = _spearman(mean[known], memorization[known])
            if name not in SCORES:
                values[name] = spearman
                continue
            low, high = self._interval(mean[known], memorization[known])
            found = {
                "spearman": spearman,
                "low": low,
                "high": high,
                "kendall": float(stats.kendalltau(mean[known], memorization[known]).statistic),
                "single": float(np.mean([_spearman(one[known], memorization[known]) for one in each])),
                "clean": _spearman(mean[clean], memorization[clean]),
            }
            sign = 1 if name in ("loss", "el2n") else -1
            told = flipped_auc(trained, torch.arange(len(known)), torch.from_numpy(sign * mean))
            if told is not None:
                found["flipped_auc"] = told
            values.update({f"{name}_{word}": value for word, value in found.items() if np.isfinite(value)})
        means = {name: each.mean(axis=0) for name, each in scores.items()}
        rows: list[dict[str, Any]] = [
            {"id": i, "memorization": float(memorization[i]), **{name: float(mean[i]) for name, mean in means.items()}}
            for i in range(len(known))
        ]
        figure = lambda: _draw(means["ratio"], memorization, ~clean & known, values)  # noqa: E731
        return Measured(values=values, tables={"examples": rows}, figures={"scatter": figure})

    def _interval(self, scores: np.ndarray, memorization: np.ndarray) -> tuple[float, float]:
        stream = numpy_generator(0, "memorization_correlation")
        drawn = stream.integers(0, len(scores), (self.bootstrap, len(scores)))
        found = [_spearman(scores[rows], memorization[rows]) for rows in drawn]
        low, high = np.nanquantile(found, [0.025, 0.975])
        return float(low), float(high)


def simple_scores(logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Loss, margin of the label's logit over the best other one, and el2n, (n,) each, of logits (n, K)."""
    own = F.one_hot(labels, logits.shape[1]).bool()
    margin = logits[own] - logits.masked_fill(own, float("-inf")).max(dim=1).values
    el2n = (logits.softmax(dim=1) - own.double()).norm(dim=1)
    return {"loss": F.cross_entropy(logits, labels, reduction="none"), "margin": margin, "el2n": el2n}


def exchanged(trained: Trained, n: int) -> np.ndarray:
    """Which training examples are known to have another's label, (n,); none where the data do not say."""
    tensors = getattr(trained.splits["train"], "tensors", {})
    if "clean_y" not in tensors:
        return np.zeros(n, dtype=bool)
    found: np.ndarray = (tensors["y"] != tensors["clean_y"]).numpy()
    return found


def _spearman(a: np.ndarray, b: np.ndarray) -> float:
    from scipy import stats

    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(np.corrcoef(stats.rankdata(a), stats.rankdata(b))[0, 1])


def _draw(ratio: np.ndarray, memorization: np.ndarray, is_flipped: np.ndarray, values: dict[str, float]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 4), layout="constrained")
    axes = figure.subplots()
    axes.scatter(ratio[~is_flipped], memorization[~is_flipped], s=10, alpha=0.6, label="label as it was")
    if is_flipped.any():
        axes.scatter(ratio[is_flipped], memorization[is_flipped], s=14, color="#e45756", label="label exchanged")
        axes.legend()
    axes.set(xlabel="ratio of potentials, mean over networks", ylabel="memorization")
    low, high = values["ratio_low"], values["ratio_high"]
    axes.set_title(f"Spearman {values['ratio_spearman']:.2f}, 95 % interval {low:.2f} to {high:.2f}", fontsize=10)
    return figure
