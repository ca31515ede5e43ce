"""The mean effect of each group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np

from raycipe.framework.arguments import Range
from raycipe.framework.contracts import CausalLoss, Estimand, RowLoss, Sample
from raycipe.framework.registry import register


@register
class Gate(Estimand):
    """The mean effect in each group of one covariate: its values if they are few, else bins with equal shares of rows.

    A normal prior stands for each group's effect.

    Args:
        column: which covariate, counted from 0
        bins: groups of a covariate that has more different values than that

    Reference:
        V. Chernozhukov, M. Demirer, E. Duflo, I. Fernández-Val, Generic Machine Learning Inference on Heterogeneous
        Treatment Effects, 2018.

    Recipe:
        data: {type: causal_dgp, name: dgp2, examples: 300}
        estimator: {type: gbayes_causal, estimand: {type: gate, column: 0, bins: 3}}
    """

    losses: ClassVar[tuple[str, ...]] = ("dr", "r", "ipw", "ra")
    words: ClassVar[str] = "the mean effect E[Y(1) - Y(0) | group] of each group"

    def __init__(
        self, column: Annotated[int, Range(ge=0, le=10**6)] = 0, bins: Annotated[int, Range(ge=2, le=100)] = 4
    ) -> None:
        self.column = column
        self.bins = bins

    def row_loss(self, loss: CausalLoss, sample: Sample, nuisances: Mapping[str, np.ndarray]) -> RowLoss:
        return loss.row_loss(sample, nuisances)

    def covariates(self, sample: Sample) -> np.ndarray:
        """(n, groups) of 0 and 1. The groups' edges are those of these rows from now on."""
        if self.column >= sample.X.shape[1]:
            raise ValueError(f"estimand: column {self.column} of {sample.X.shape[1]} covariates, counted from 0")
        values = sample.X[:, self.column]
        distinct = np.unique(values)
        if len(distinct) <= self.bins:
            self.edges_ = (distinct[1:] + distinct[:-1]) / 2
        else:
            self.edges_ = np.unique(np.quantile(values, np.linspace(0, 1, self.bins + 1)[1:-1]))
        return self.at(sample.X)

    def at(self, X: np.ndarray) -> np.ndarray:
        group = np.searchsorted(self.edges_, X[:, self.column], side="right")
        found: np.ndarray = np.eye(len(self.edges_) + 1)[group]
        return found

    def labels(self) -> list[str]:
        edges = [f"{edge:.4g}" for edge in self.edges_]
        return [f"{low} .. {high}" for low, high in zip(["", *edges], [*edges, ""], strict=True)]
