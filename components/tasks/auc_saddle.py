"""The area under the ROC curve, as a saddle problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from raycipe.components.tasks._checks import fits
from raycipe.components.tasks._saddle import (
    Format,
    check_two_classes,
    dtype_of,
    has_bias,
    is_positive,
    linear_weight,
    onto_ball,
    scores_of,
    train_tensor,
)
from raycipe.framework.arguments import Positive, Range
from raycipe.framework.contracts import Batch, Point, Saddle, SaddleTask, Split
from raycipe.framework.registry import register


def auc_values(s: Tensor, positive: Tensor, a: Tensor, b: Tensor, c: Tensor, p: Tensor | float) -> Tensor:
    """f of each example for scores s (batch,), whether it is positive (batch,) in {0, 1}, and scalars a, b, c, p.

    min over a, b, max over c of its mean is p (1-p) (mean over pairs of (1 - (s+ - s-))² - 1), with a = mean of s+,
    b = mean of s- and c = b - a (Ying, Wen, Lyu 2016, theorem 1).
    """
    negative = 1 - positive
    spread = (1 - p) * (s - a).square() * positive + p * (s - b).square() * negative
    margin = 2 * (1 + c) * (p * s * negative - (1 - p) * s * positive)
    return spread + margin - p * (1 - p) * c.square()


@register
class AucSaddle(SaddleTask):
    """Ranks positive examples above negative ones: the square loss of all pairs, one example at a time.

    min over (w, a, b), max over c of the mean of, with s = f(x) and p the share of positives,
    (1-p)(s-a)²[+] + p(s-b)²[-] + 2(1+c)(p s[-] - (1-p) s[+]) - p(1-p)c². At the best a, b, c this is
    p(1-p)(mean over pairs of (1 - (s+ - s-))² - 1). The model gives one score an
    example. Reports loss (f) and auc.

    Args:
        p: share of positive examples; auto takes that of the training split (never of a batch: that would be biased)
        positive: the labels that count as positive; null takes label 1 of two
        radius_w: w, a and b together stay in a ball of this radius
        radius_v: c stays within plus or minus this
        dtype: number format of both players

    Reference:
        Y. Ying, L. Wen, S. Lyu, Stochastic Online AUC Maximization, NeurIPS 2016.

    Recipe:
        data: breast_cancer
        model: {type: linear, num_outputs: 1, bias: false, zero_init: true}
        task: auc_saddle
        optimizer: {type: sgda, lr: 0.02}
    """

    reports: ClassVar[tuple[str, ...]] = ("loss", "auc")

    def __init__(
        self,
        p: Annotated[float, Range(gt=0, lt=1)] | Literal["auto"] = "auto",
        positive: list[int] | None = None,
        radius_w: Positive = 10.0,
        radius_v: Positive = 10.0,
        dtype: Format = "float64",
    ) -> None:
        self.p = p
        self.positive = positive
        self.radius_w = radius_w
        self.radius_v = radius_v
        self.dtype = dtype

    def variables(self, model: nn.Module, splits: Mapping[str, Split]) -> Saddle:
        p = self.p
        if p == "auto":
            y = train_tensor(splits, "y", "give task.p, the share of positive examples")
            p = float(is_positive(y, self.positive).double().mean())
        zero = torch.zeros(())
        constants = {"p": torch.tensor(p, dtype=torch.float64)}
        return Saddle(model, {"a": zero, "b": zero.clone()}, {"c": zero.clone()}, constants, dtype_of(self.dtype))

    def evaluate(self, saddle: Saddle, batch: Batch) -> tuple[Tensor, Any]:
        s = scores_of(saddle(batch["x"]))
        positive = is_positive(batch["y"], self.positive).to(s.dtype)
        p: Any = saddle.p
        return auc_values(s, positive, saddle.min["a"], saddle.min["b"], saddle.max["c"], p), s

    def project(self, saddle: Saddle, w: Tensor, v: Tensor) -> Point:
        return onto_ball(w, self.radius_w), v.clamp(-self.radius_v, self.radius_v)

    def best_response(self, saddle: Saddle, batch: Batch) -> Tensor | None:
        """c = mean of (p s[-] - (1-p) s[+]) / (p (1-p)), within its bounds."""
        s = scores_of(saddle(batch["x"])).detach()
        positive = is_positive(batch["y"], self.positive).to(s.dtype)
        p: Any = saddle.p
        slope = (p * s * (1 - positive) - (1 - p) * s * positive).mean()
        return (slope / (p * (1 - p))).clamp(-self.radius_v, self.radius_v).reshape(1)

    def unit(self, saddle: Saddle) -> float:
        """p (1 - p): the value is then the mean over pairs of (1 - (s+ - s-))², less 1."""
        p = float(saddle.get_buffer("p"))
        return p * (1 - p)

    def population(self, saddle: Saddle, facts: Mapping[str, Any]) -> tuple[float, float] | None:
        """For a linear model on classes of known moments (`population`): max over c of E f, in units of p(1-p).

        Var s = w'Sigma w in both classes and E s = +-w'm: J = 2 w'Sigma w + 4 (w'm)² - 4 w'm at the best a, b and c,
        plus what a and b that are not the classes' means cost: (a - w'm)² + (b + w'm)².
        """
        law, w = facts.get("population"), linear_weight(saddle)
        if law is None or w is None or has_bias(saddle):
            return None
        w = w.detach().double().cpu()
        mean, variances = (torch.tensor(law[name], dtype=torch.float64) for name in ("mean", "variances"))
        risk = ranking_risk(w, mean, variances)
        best = torch.linalg.solve(4 * torch.diag(variances) + 8 * torch.outer(mean, mean), 4 * mean)
        a, b, score = (float(part.detach()) for part in (saddle.min["a"], saddle.min["b"], w @ mean))
        return risk + (a - score) ** 2 + (b + score) ** 2, ranking_risk(best, mean, variances)

    def check_outputs(self, outputs: Any, batch: Batch) -> str | None:
        fit = fits(outputs, (len(batch["y"]), 1)) or fits(outputs, (len(batch["y"]),))
        return None if fit else f"{(len(batch['y']), 1)} floating: one score an example (set model.num_outputs: 1)"

    def metrics(self) -> dict[str, Any]:
        from torchmetrics.classification import BinaryAUROC

        return {"auc": BinaryAUROC(sync_on_compute=False)}

    def update(self, metrics: Mapping[str, Any], outputs: Any, batch: Batch) -> None:
        s = outputs.detach().double()
        ranks = (
            1 + s / (1 + s.abs())
        ) / 2  # torchmetrics takes numbers in 0..1; a sigmoid would make large scores equal
        metrics["auc"].update(ranks, is_positive(batch["y"], self.positive).long())

    def check(self, facts: Mapping[str, Any], splits: Mapping[str, Split]) -> None:
        check_two_classes(facts, splits, self.positive, "AUC")


def ranking_risk(w: Tensor, mean: Tensor, variances: Tensor) -> float:
    """J(w) = 2 w'Sigma w - 4 w'm + 4 (w'm)² for scores x'w of classes with means +-m."""
    margin = w @ mean
    return float(2 * (variances * w.square()).sum() - 4 * margin + 4 * margin.square())
