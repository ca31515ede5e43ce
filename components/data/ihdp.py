"""Simulated outcomes on the covariates of premature children."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np

from raycipe.components.data._causal import causal_facts, split_of
from raycipe.components.data._packages import package_file, standardized
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import Data, Split
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator

if TYPE_CHECKING:
    import pandas as pd

MEASURED = ["bw", "b.head", "preterm", "birth.o", "nnhealth", "momage"]
YES_OR_NO = [
    *("sex", "twin", "b.marr", "mom.lths", "mom.hs", "mom.scoll", "cig", "first", "booze", "drugs", "work.dur"),
    *("prenatal", "site1", "site2", "site3", "site4", "site5", "site6", "site7"),
]


@register
class Ihdp(Data):
    """Hill's simulated outcomes on 747 children of the Infant Health and Development Program, 139 of them treated.

    Treated children of mothers who are not white are left out, so that the arms differ. Surface A is linear with the
    effect 4; B is exponential without treatment and linear with it, its mean effect on the treated exactly 4. Both
    mean outcomes are known for every row (`truth`). The seed draws coefficients and noise. Covariates are read from a
    file of the package econml: pip install --no-deps econml.

    Args:
        surface: of the outcomes
        rep: number of the draw, besides the seed

    Reference:
        J. L. Hill, Bayesian Nonparametric Modeling for Causal Inference, JCGS 2011.

    Recipe:
        data: {type: ihdp, surface: B}
        estimator: {type: gbayes_causal, estimand: cate}
    """

    def __init__(self, surface: Literal["A", "B"] = "B", rep: Annotated[int, Range(ge=0, le=10**6)] = 0) -> None:
        self.surface = surface
        self.rep = rep

    def load(self, seed: int) -> dict[str, Split]:
        import pandas as pd

        rows = pd.read_csv(package_file("econml", "data/ihdp/sim.csv", "--no-deps econml"))
        rows = rows[(rows["treat"] == 0) | (rows["momwhite"] == 1)]
        z = rows["treat"].to_numpy(np.int64)
        x = covariates(rows)
        y, truth = outcomes(x, z, self.surface, numpy_generator(seed, "ihdp", self.rep))
        effect = truth[:, 1] - truth[:, 0]
        true = {"true_ate": effect.mean(), "true_att": effect[z == 1].mean(), "true_atc": effect[z == 0].mean()}
        effects = {name: float(value) for name, value in true.items()}
        self.facts = causal_facts(x.shape[1], [*MEASURED, *YES_OR_NO], effects=effects)
        return {"train": split_of({"x": x, "y": y, "treatment": z, "truth": truth})}


def covariates(rows: pd.DataFrame) -> np.ndarray:
    """(747, 25): six standardized measurements, `first` as 1 and 2, the rest as they are."""
    binary = rows[YES_OR_NO].astype(np.float64)
    binary["first"] += 1
    return np.concatenate([standardized(rows[MEASURED])[0], binary.to_numpy()], axis=1)


def outcomes(
    x: np.ndarray, z: np.ndarray, surface: str, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """y (n,) with unit noise, and the mean outcomes (n, 2), from coefficients drawn as by Hill.

    A: mu0 = [1, X] b, mu1 = mu0 + 4, b in {0, 1, 2, 3, 4}. B: mu0 = exp([1, X + 1/2] b), mu1 = [1, X] b - c, b in
    {0, .1, .2, .3, .4}, c so that the mean effect on the treated is 4.
    """
    whole = np.column_stack([np.ones(len(x)), x])
    if surface == "A":
        b = generator.choice([0.0, 1.0, 2.0, 3.0, 4.0], whole.shape[1], p=[0.5, 0.2, 0.15, 0.1, 0.05])
        mu0 = whole @ b
        mu1 = mu0 + 4.0
    else:
        b = generator.choice([0.0, 0.1, 0.2, 0.3, 0.4], whole.shape[1], p=[0.6, 0.1, 0.1, 0.1, 0.1])
        mu0 = np.exp(np.column_stack([np.ones(len(x)), x + 0.5]) @ b)
        linear = whole @ b
        mu1 = linear - ((linear - mu0)[z == 1].mean() - 4.0)
    y = np.where(z == 1, mu1, mu0) + generator.standard_normal(len(x))
    return y, np.stack([mu0, mu1], axis=1)
