"""Simulated outcomes on the covariates of real births."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from raycipe.components.data._causal import causal_facts, split_of
from raycipe.components.data._packages import package_file, standardized
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import Data, Split
from raycipe.framework.registry import register

FOLDER = "datasets/data/acic_challenge_2016"


@register
class Acic16(Data):
    """Ten worlds of the 2016 challenge of the Atlantic Causal Inference Conference: 4802 births, 58 covariates.

    Covariates are real, treatment and outcomes simulated, so both mean outcomes are known for every row (`truth`), the
    propensity is not. Words become columns (82 in all), all standardized. Read from files of the package causallib,
    which asks for an older pandas; the files do not: pip install --no-deps causallib.

    Args:
        instance: which of the ten worlds

    Reference:
        V. Dorie et al., Automated versus Do-It-Yourself Methods for Causal Inference, Statistical Science 2019.

    Recipe:
        data: {type: acic16, instance: 4}
        estimator: gbayes_causal
    """

    def __init__(self, instance: Annotated[int, Range(ge=1, le=10)] = 1) -> None:
        self.instance = instance

    def load(self, seed: int) -> dict[str, Split]:
        import pandas as pd

        install = "--no-deps causallib"
        covariates = pd.read_csv(package_file("causallib", f"{FOLDER}/x.csv", install))
        rows = pd.read_csv(package_file("causallib", f"{FOLDER}/zymu_{self.instance}.csv", install))
        x, names = standardized(covariates)
        z = rows["z"].to_numpy(np.int64)
        y = np.where(z == 1, rows["y1"], rows["y0"])
        truth = rows[["mu0", "mu1"]].to_numpy(np.float64)
        effect = truth[:, 1] - truth[:, 0]
        true = {"true_ate": effect.mean(), "true_att": effect[z == 1].mean(), "true_atc": effect[z == 0].mean()}
        effects = {name: float(value) for name, value in true.items()}
        self.facts = causal_facts(x.shape[1], names, effects=effects)
        return {"train": split_of({"x": x, "y": y, "treatment": z, "truth": truth})}
