"""General posterior calibration."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from raycipe.components.calibrations import _rates as rates
from raycipe.components.posteriors._newton import mode
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import Calibrated, Calibration, Evidence
from raycipe.framework.registry import register

POINTS = 200  # at which a function's coverage is counted


@register
class Gpc(Calibration):
    """The largest omega at which credible intervals of bootstrap samples cover the data's fit as often as they say.

    c(omega) = share over replicates b and rows x of |g_b(x) - g(x)| <= z sd_b(x), with one set of bootstrap weights for
    all omega; it falls in omega. bisection searches log omega between -4 and +3 around the residual rate; stochastic
    is the paper's Robbins-Monro search. It calibrates variance, not the bias of smoothing: a little too short for
    functions.

    Args:
        replicates: B
        method: how omega is searched
        steps: of the search
        shape: robust also replaces the covariance of a function's coefficients by the robust one

    Reference:
        N. Syring, R. Martin, Calibrating General Posterior Credible Regions, Biometrika 2019.

    Recipe:
        data: {type: causal_dgp, name: dgp2, examples: 300}
        estimator:
          type: gbayes_causal
          estimand: cate
          prior: linear
          calibration: {type: gpc, replicates: 20}
    """

    def __init__(
        self,
        replicates: Annotated[int, Range(ge=2, le=10**5)] = 100,
        method: Literal["bisection", "stochastic"] = "bisection",
        steps: Annotated[int, Range(ge=1, le=1000)] = 10,
        shape: Literal["plain", "robust"] = "plain",
    ) -> None:
        self.replicates = replicates
        self.method = method
        self.steps = steps
        self.shape = shape

    def rate(self, evidence: Evidence) -> Calibrated:
        from scipy import stats

        start = float(np.log(rates.residual_rate(evidence).omega))
        losses = rates.bootstrap_losses(evidence, self.replicates, again=not evidence.orthogonal)
        problem = evidence.problem
        rows = np.linspace(0, len(problem.offset) - 1, min(POINTS, len(problem.offset))).astype(np.int64)
        basis, z = problem.basis[rows], float(stats.norm.ppf(0.5 + evidence.level / 2))

        def excess(log_omega: float) -> float:
            tried = problem.at(float(np.exp(log_omega)))
            centre = basis @ mode(tried)[0]
            inside = []
            for loss in losses:
                beta, S = mode(rates.with_loss(tried, loss))
                sd = np.sqrt(rates.pointwise_variance(basis, S))
                inside.append(np.abs(basis @ beta - centre) <= z * sd)
            return float(np.mean(inside)) - evidence.level

        how = f"general posterior calibration on {self.replicates} bootstrap samples"
        if self.method == "bisection":
            return Calibrated(float(np.exp(rates.bisect(excess, start - 4.0, start + 3.0, self.steps))), how)
        log_omega = start
        for step in range(1, self.steps + 1):
            log_omega += step**-0.51 * excess(log_omega)
        return Calibrated(float(np.exp(log_omega)), how)
