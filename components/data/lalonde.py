"""A job training programme, with the experiment's own controls or with a survey's."""

from __future__ import annotations

from typing import Literal

import numpy as np

from raycipe.components.data._causal import causal_facts, split_of
from raycipe.components.data._packages import package_file, standardized
from raycipe.framework.contracts import Data, Split
from raycipe.framework.registry import register

INSTALL = "'raycipe[causal-data]'"
COVARIATES = ["age", "educ", "black", "hisp", "marr", "nodegree", "re74", "re75"]


@register
class Lalonde(Data):
    """What a job training programme did to earnings in 1978 (dollars): the data of LaLonde, Dehejia and Wahba.

    nsw compares 185 participants with the experiment's 260 controls: the difference, 1794 dollars, is the benchmark.
    cps takes 15,992 people of a survey instead, who are another population: the raw difference is -8498. Covariates are
    standardized: age, schooling, race, marriage, earlier earnings; squares of age and schooling, and whether there were
    no earnings. Read from the package causaldata: pip install 'raycipe[causal-data]'.

    Args:
        control: whom the participants are compared with

    Reference:
        R. H. Dehejia, S. Wahba, Causal Effects in Nonexperimental Studies: Reevaluating the Evaluation of Training
        Programs, JASA 1999.

    Recipe:
        data: {type: lalonde, control: nsw}
        estimator: {type: gbayes_causal, estimand: att, prior: {type: gaussian, sd: 5000}}
    """

    def __init__(self, control: Literal["nsw", "cps"] = "nsw") -> None:
        self.control = control

    def load(self, seed: int) -> dict[str, Split]:
        import pandas as pd

        rows = pd.read_stata(package_file("causaldata", "nsw_mixtape/nsw_mixtape.dta", INSTALL))
        if self.control == "cps":
            survey = pd.read_stata(package_file("causaldata", "cps_mixtape/cps_mixtape.dta", INSTALL))
            rows = pd.concat([rows[rows["treat"] == 1], survey], ignore_index=True)
        frame = rows[COVARIATES].astype(np.float64)
        for name in ("age", "educ"):
            frame[f"{name}_squared"] = frame[name] ** 2
        for name in ("re74", "re75"):
            frame[f"{name}_is_0"] = (frame[name] == 0).astype(np.float64)
        x, names = standardized(frame)
        arrays = {"x": x, "y": rows["re78"].to_numpy(np.float64), "treatment": rows["treat"].to_numpy(np.int64)}
        self.facts = causal_facts(x.shape[1], names)
        return {"train": split_of(arrays)}
