"""The learning rate whose posterior has the bootstrap's variance."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from raycipe.components.calibrations import _rates as rates
from raycipe.components.posteriors._newton import mode
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import Calibrated, Calibration, Evidence
from raycipe.framework.registry import register


@register
class Bootstrap(Calibration):
    """omega = 1 / (n H Var_b(theta_b)): with a flat prior the posterior's variance is that of the bootstrap.

    The rows are weighted (Dirichlet, mean 1; one weight a cluster), never drawn again: a copy of a row would stand in
    training and held-out folds alike. The folds stay. For a function the mean pointwise variances are matched.

    Args:
        replicates: B; more make the rate less random (its relative error is about 1.4 / sqrt(B))
        refit: fit the nuisances again in each replicate: what repairs losses that are not orthogonal, and makes others
            needlessly wide; auto refits for those alone
        shape: robust also replaces the covariance of a function's coefficients by the robust one

    Reference:
        S. P. Lyddon, C. C. Holmes, S. G. Walker, General Bayesian Updating and the Loss-Likelihood Bootstrap, 2019.

    Recipe:
        data: {type: causal_dgp, examples: 300}
        estimator: {type: gbayes_causal, loss: ra, calibration: {type: bootstrap, replicates: 20}}
    """

    def __init__(
        self,
        replicates: Annotated[int, Range(ge=2, le=10**5)] = 60,
        refit: Literal["auto", "always", "never"] = "auto",
        shape: Literal["plain", "robust"] = "plain",
    ) -> None:
        self.replicates = replicates
        self.refit = refit
        self.shape = shape

    def rate(self, evidence: Evidence) -> Calibrated:
        again = self.refit == "always" or (self.refit == "auto" and not evidence.orthogonal)
        losses = rates.bootstrap_losses(evidence, self.replicates, again)
        how = f"bootstrap of {self.replicates}, nuisances {'fitted again' if again else 'kept'}"
        problem = evidence.problem
        n = len(problem.offset)
        if not evidence.is_function:
            _, H, _ = rates.scalar_parts(problem.loss, evidence.groups, n)
            variance = float(np.var([rates.constant_effect(loss, n) for loss in losses], ddof=1))
            variance = max(variance, rates.FLOOR * evidence.variance / n)
            return Calibrated(1.0 / (n * H * variance), how)
        start = rates.residual_rate(evidence).omega
        fits = [problem.basis @ mode(rates.with_loss(problem.at(start), loss))[0] for loss in losses]
        target = float(np.var(fits, axis=0, ddof=1).mean())
        return Calibrated(rates.match_variance(problem, target, start), how)
