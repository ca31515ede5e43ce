"""How sharply the loss curves at the weights."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from torch import Tensor

from raycipe.components.measures._curvature import Precision, curvature, optimizer_of, rate, start_of
from raycipe.framework.arguments import Count, Positive, Seed
from raycipe.framework.contracts import Measure, Measured, Skipped, Trained
from raycipe.framework.curvature import Curvature, Krylov, extremes
from raycipe.framework.registry import register


@register
class Sharpness(Measure):
    """Sharpness of the loss at the weights, and how far the learning rate is from the edge of stability.

    lambda_max: the largest eigenvalue of the Hessian H, by Lanczos until |H v - λ v| <= tolerance · |λ|.
    adaptive: that of D H D with D = diag(|w|), which rescaling the weights of ReLU layers does not change.
    sam: max L(w + e) - L(w) over |e| <= rho, to first order at e = rho g / |g|.

    Gradient descent of rate η on a quadratic diverges where λ > 2 / η; with heavy-ball momentum β where
    λ > 2 (1 + β) / η, with Nesterov's where λ > 2 (1 + β) / ((1 + 2 β) η). `edge` is λ (plus the coupled weight decay)
    divided by that `threshold`: 1 is the edge. Both are left out for optimizers with other rules.

    Args:
        kind: which sharpness
        rho: radius of `sam`
        split: whose loss
        examples: at most so many examples, drawn from the run's seed (null: all)
        tolerance: of the eigenvalue, relative
        max_steps: Lanczos steps after which an eigenvalue that is not found makes the measure skipped
        precision: number format of all derivatives
        seed: draws the start of Lanczos

    Reference:
        J. Cohen, S. Kaur, Y. Li, J. Z. Kolter, A. Talwalkar, Gradient Descent on Neural Networks Typically Occurs at
        the Edge of Stability, ICLR 2021; J. Kwon, J. Kim, H. Park, I. K. Choi, ASAM, ICML 2021; P. Foret, A. Kleiner,
        H. Mobahi, B. Neyshabur, Sharpness-Aware Minimization, ICLR 2021.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [8]}
        task: classification
        optimizer: {type: sgd, lr: 0.1}
        measures: [{type: sharpness, examples: 200}]
    """

    needs: ClassVar[tuple[str, ...]] = ("model", "task")
    reports: ClassVar[tuple[str, ...]] = ("sharpness", "residual", "lr", "threshold", "edge")

    def __init__(
        self,
        kind: Literal["lambda_max", "adaptive", "sam"] = "lambda_max",
        rho: Positive = 0.05,
        split: Literal["train", "val", "test"] = "train",
        examples: Count | None = None,
        tolerance: Positive = 1e-4,
        max_steps: Count = 300,
        precision: Precision = "float64",
        seed: Seed = 0,
    ) -> None:
        self.kind = kind
        self.rho = rho
        self.split = split
        self.examples = examples
        self.tolerance = tolerance
        self.max_steps = max_steps
        self.precision: Precision = precision
        self.seed = seed

    def measure(self, trained: Trained) -> Measured:
        loss = curvature(trained, self.split, self.examples, precision=self.precision)
        if self.kind == "sam":
            return Measured(values={"sharpness": sam_sharpness(loss, self.rho)})
        scale = loss.point.abs() if self.kind == "adaptive" else None
        found = largest(loss, scale, start_of(loss, self.seed, "sharpness"), self.max_steps, self.tolerance)
        if not bool(found.converged(self.tolerance)[-1]):
            raise Skipped(f"the largest eigenvalue was not found in {self.max_steps} steps: raise max_steps")
        values = {"sharpness": float(found.values[-1]), "residual": float(found.residuals[-1])}
        if self.kind == "lambda_max":
            values.update(edge_of_stability(values["sharpness"], optimizer_of(trained), rate(trained)))
        return Measured(values=values)


def largest(loss: Curvature, scale: Tensor | None, start: Tensor, steps: int, tolerance: float) -> Krylov:
    """Lanczos on H, or on diag(scale) H diag(scale), until its largest eigenvalue is found."""

    def product(v: Tensor) -> Tensor:
        return loss.product(v) if scale is None else scale * loss.product(scale * v)

    return extremes(product, start, 1, 0, steps, tolerance)


def sam_sharpness(loss: Curvature, rho: float) -> float:
    """L(w + rho g / |g|) - L(w); 0 where the gradient is."""
    point, gradient, here = loss.point, loss.gradient(), loss.loss()
    norm = float(gradient.norm())
    if norm == 0:
        return 0.0
    try:
        loss.move_to(point + rho / norm * gradient)
        return loss.loss() - here
    finally:
        loss.move_to(point)


def edge_of_stability(sharpness: float, optimizer: Any, lr: float | None) -> dict[str, float]:
    """The rate, the largest stable curvature and how near it is, where the optimizer's rule has one."""
    if lr is None:
        return {}
    if lr <= 0 or optimizer.get("type") != "sgd":
        return {"lr": lr}
    momentum = float(optimizer.get("momentum") or 0)
    threshold = 2 * (1 + momentum) / lr
    if optimizer.get("nesterov"):
        threshold /= 1 + 2 * momentum
    decay = float(optimizer.get("weight_decay") or 0)
    return {"lr": lr, "threshold": threshold, "edge": (sharpness + decay) / threshold}
