"""Smoking and weight."""

from __future__ import annotations

import numpy as np

from raycipe.components.data._causal import causal_facts, split_of
from raycipe.components.data._packages import package_file, standardized
from raycipe.framework.contracts import Data, Split
from raycipe.framework.registry import register

NUMBERS = ["sex", "race", "age", "smokeintensity", "smokeyrs", "wt71"]
CATEGORIES = ["education", "exercise", "active"]


@register
class Nhefs(Data):
    """What giving up smoking did to weight (kilograms, 1971 to 1982) in 1566 people, 403 of whom gave up.

    Covariates are those of Hernán and Robins: sex, race, age and its square, schooling, cigarettes a day, years of
    smoking, exercise, activity, weight and its square, all standardized. Their estimates are about 3.5 kg. Read from
    the package causaldata: pip install 'raycipe[causal-data]'.

    Reference:
        M. A. Hernán, J. M. Robins, Causal Inference: What If, 2020.

    Recipe:
        data: nhefs
        estimator: {type: gbayes_causal, prior: {type: gaussian, sd: 5.0}}
    """

    def load(self, seed: int) -> dict[str, Split]:
        import pandas as pd

        file = package_file("causaldata", "nhefs_complete/nhefs_complete.dta", "'raycipe[causal-data]'")
        rows = pd.read_stata(file, convert_categoricals=False)
        frame = rows[NUMBERS].astype(np.float64)
        for name in ("age", "smokeintensity", "smokeyrs", "wt71"):
            frame[f"{name}_squared"] = frame[name] ** 2
        for name in CATEGORIES:
            frame = frame.join(pd.get_dummies(rows[name].astype(int), prefix=name, dtype=float).iloc[:, 1:])
        x, names = standardized(frame)
        arrays = {"x": x, "y": rows["wt82_71"].to_numpy(np.float64), "treatment": rows["qsmk"].to_numpy(np.int64)}
        self.facts = causal_facts(x.shape[1], names)
        return {"train": split_of(arrays)}
