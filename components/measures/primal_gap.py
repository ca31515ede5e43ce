"""The generalization gap of a minimax result."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch

from raycipe.components.measures._risks import saddle_of, whole_split, worst_value
from raycipe.framework.contracts import Measure, Measured, Trained
from raycipe.framework.registry import register


@register
class PrimalGap(Measure):
    """Primal generalization gap R(w) - R_S(w): the worst-case risk on the population less that on the training split.

    R(w) = max over v of F(w, v), the maximum over v taken anew on each side (never the v of training). The population's
    side is its closed form where the data tell their law, else the held-out split.

    Args:
        population: auto takes the closed form where there is one; test or val take that split

    Reference:
        Y. Lei, Z. Yang, T. Yang, Y. Ying, Stability and Generalization of Stochastic Gradient Methods for Minimax
        Problems, ICML 2021.

    Recipe:
        data: {type: gauss_auc, examples: 64, dim: 4}
        model: {type: linear, num_outputs: 1, bias: false, zero_init: true}
        task: auc_saddle
        optimizer: {type: sgda, lr: 1.0, schedule: theory}
        measures: [primal_gap]
    """

    reports: ClassVar[tuple[str, ...]] = ("gap", "population_risk", "empirical_risk")

    def __init__(self, population: Literal["auto", "test", "val"] = "auto") -> None:
        self.population = population

    def measure(self, trained: Trained) -> Measured:
        task, saddle = saddle_of(trained)
        unit = task.unit(saddle)
        empirical = worst_value(task, saddle, whole_split(trained, "train")) / unit
        law = task.population(saddle, trained.facts) if self.population == "auto" else None
        if law is not None:
            population = law[0]
        else:
            name = "test" if self.population == "auto" else self.population
            with torch.no_grad():
                population = worst_value(task, saddle, whole_split(trained, name)) / unit
        values = {"gap": population - empirical, "population_risk": population, "empirical_risk": empirical}
        return Measured(values=values)
