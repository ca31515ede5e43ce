"""The trace of the loss's second derivatives."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from raycipe.components.measures._curvature import Matrix, Precision, curvature
from raycipe.framework.arguments import Count, NonNegative, Seed
from raycipe.framework.contracts import Measure, Measured, Trained
from raycipe.framework.curvature import Curvature, hutchinson, hutchpp, probe
from raycipe.framework.registry import register
from raycipe.framework.streams import torch_generator

BLOCK = 8  # probes that are multiplied at once, and the least that tell a standard error


@register
class HessianTrace(Measure):
    """Trace of the Hessian (or Gauss-Newton matrix) of the loss, with the standard error of its estimate.

    hutchinson: the mean of z' H z over random signs z, until its standard error is at most tolerance · |trace|.
    hutch++: the exact trace on a random subspace of a third of the probes, and Hutchinson's estimate of the rest; its
    error falls like 1 / probes where H has few large eigenvalues, not like 1 / sqrt(probes).
    exact: z runs through all coordinates.

    Args:
        method: how the trace is found
        probes: at most so many products
        tolerance: relative standard error at which `hutchinson` ends early (0: never)
        split: whose loss
        examples: at most so many examples, drawn from the run's seed (null: all)
        matrix: the Hessian, or the Gauss-Newton matrix, which has no negative eigenvalues
        parameters: names of the parameters that count, as a file pattern: `layers.1.*`
        precision: number format of all derivatives
        seed: draws the probes

    Reference:
        M. F. Hutchinson, A Stochastic Estimator of the Trace of the Influence Matrix, 1990; R. A. Meyer, C. Musco,
        C. Musco, D. Woodruff, Hutch++, SOSA 2021.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [8]}
        task: classification
        optimizer: {type: sgd, lr: 0.1}
        measures: [{type: hessian_trace, probes: 24, examples: 200}]
    """

    needs: ClassVar[tuple[str, ...]] = ("model", "task")
    reports: ClassVar[tuple[str, ...]] = ("trace", "standard_error", "per_parameter", "probes")

    def __init__(
        self,
        method: Literal["hutchinson", "hutch++", "exact"] = "hutchinson",
        probes: Count = 200,
        tolerance: NonNegative = 0.01,
        split: Literal["train", "val", "test"] = "train",
        examples: Count | None = None,
        matrix: Matrix = "hessian",
        parameters: str = "*",
        precision: Precision = "float64",
        seed: Seed = 0,
    ) -> None:
        least = {"hutchinson": 2, "hutch++": 6, "exact": 1}[method]
        if probes < least:
            raise ValueError(f"probes: {method} needs at least {least}, not {probes}")
        self.method = method
        self.probes = probes
        self.tolerance = tolerance
        self.split = split
        self.examples = examples
        self.matrix: Matrix = matrix
        self.parameters = parameters
        self.precision: Precision = precision
        self.seed = seed

    def measure(self, trained: Trained) -> Measured:
        loss = curvature(trained, self.split, self.examples, self.matrix, self.parameters, self.precision)
        trace, error, used = self._trace(loss)
        per = trace / loss.size
        return Measured(values={"trace": trace, "standard_error": error, "per_parameter": per, "probes": float(used)})

    def _trace(self, loss: Curvature) -> tuple[float, float, int]:
        if self.method == "exact":
            return exact_trace(loss), 0.0, loss.size
        stream = torch_generator(self.seed, "hessian_trace")

        def draw(count: int) -> Tensor:
            return torch.stack([probe(loss.size, stream, "rademacher", loss.dtype, loss.device) for _ in range(count)])

        if self.method == "hutch++":
            known, rest = hutchpp(loss.product, draw(self.probes))
            return known + float(rest.mean()), _error(rest), 3 * (self.probes // 3)
        found = torch.zeros(0, dtype=torch.float64)
        while len(found) < self.probes:
            block = min(BLOCK, self.probes - len(found))
            found = torch.cat([found, hutchinson(loss.product, draw(block)).double().cpu()])
            if len(found) >= BLOCK and _error(found) <= self.tolerance * abs(float(found.mean())):
                break
        return float(found.mean()), _error(found), len(found)


def exact_trace(loss: Curvature) -> float:
    rows = torch.arange(loss.size, device=loss.device)
    total = 0.0
    for part in torch.split(rows, 64):
        units = torch.zeros(len(part), loss.size, dtype=loss.dtype, device=loss.device)
        units[torch.arange(len(part)), part] = 1.0
        total += float(hutchinson(loss.product, units).sum())
    return total


def _error(values: Tensor) -> float:
    return float(values.std() / len(values) ** 0.5) if len(values) > 1 else 0.0
