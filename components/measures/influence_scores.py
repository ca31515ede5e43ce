"""Which training examples a prediction comes from."""

from __future__ import annotations

import copy
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from raycipe.components.editors._case import BATCH, Case, weight_decay_of
from raycipe.components.editors._objective import Objective, Terrain
from raycipe.components.measures._retraining import (
    Ground,
    all_losses,
    correlation,
    halves,
    without_one,
)
from raycipe.framework.arguments import Count, Fraction, Length, NonNegative, Range, default
from raycipe.framework.contracts import InverseHVP, Measure, Measured, Skipped, Split, Subspace, TensorSplit, Trained
from raycipe.framework.curvature import example_gradients
from raycipe.framework.registry import register
from raycipe.framework.splits import subset

MAX_ROWS = 200_000  # of the table of all scores


@register
class InfluenceScores(Measure):
    """Ranks training examples by what their removal would do to the loss of some other examples, the queries.

    score_i = (1/n) g_q' H⁻¹ g_i predicts by how much the query's loss rises when example i is left out of the training:
    positive for examples that help, negative for harmful ones. H is the training loss's curvature, g are gradients.

    Args:
        split: of the queries
        ids: which of its examples are the queries; null takes all of them, together
        together: one ranking for the mean loss of all queries, or one for each
        ihvp: how H x = g_q is solved
        subspace: the parameters that gradients and curvature are taken in
        curvature: the Hessian, or the Gauss-Newton matrix
        top: how many of the most helpful and the most harmful examples are listed
        validate: train again to see whether the scores are right: without single examples, or on random subsets
            (linear datamodelling score)
        trials: how many examples, or subsets
        fraction: share of the examples in a subset
        seeds: trainings for each, whose mean counts: the noise of training hides what one example does
        weight_decay: that of the loss; null takes the training's
        samples: examples that the scores of the subspace are taken of

    Reference:
        P. W. Koh, P. Liang, Understanding Black-box Predictions via Influence Functions, ICML 2017; A. Ilyas, S. M.
        Park, L. Engstrom, G. Leclerc, A. Madry, Datamodels, ICML 2022; S. M. Park et al., TRAK, ICML 2023.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        train: {epochs: 1}
        measures: [{type: influence_scores, ids: [3, 7], validate: lds, trials: 4}]
    """

    needs: ClassVar[tuple[str, ...]] = ("model", "task", "splits")
    reports: ClassVar[tuple[str, ...]] = (
        *("largest", "smallest", "harmful_share", "relative_residual", "products"),
        *("lds", "lds_lowest", "loo_pearson", "loo_spearman"),
    )

    def __init__(
        self,
        split: Literal["train", "val", "test"] = "test",
        ids: Annotated[list[Annotated[int, Range(ge=0, le=2**53)]], Length(1, 10**4)] | None = None,
        together: bool = False,
        ihvp: InverseHVP = default("ekfac"),
        subspace: Subspace = default("all"),
        curvature: Literal["hessian", "ggn"] = "hessian",
        top: Count = 20,
        validate: Literal["leave_one_out", "lds"] | None = None,
        trials: Annotated[int, Range(ge=3, le=10**5)] = 40,
        fraction: Fraction = 0.5,
        seeds: Annotated[int, Range(ge=1, le=100)] = 1,
        weight_decay: NonNegative | None = None,
        samples: Count = 2000,
    ) -> None:
        self.split: Literal["train", "val", "test"] = split
        self.ids = ids
        self.together = together
        self.ihvp = ihvp
        self.subspace = subspace
        self.curvature: Literal["hessian", "ggn"] = curvature
        self.top = top
        self.validate = validate
        self.trials = trials
        self.fraction = fraction
        self.seeds = seeds
        self.weight_decay = weight_decay
        self.samples = samples

    def measure(self, trained: Trained) -> Measured:
        queries, names = self._queries(trained)
        scores, values = self._scores(trained, queries)  # (queries, n)
        labels = _labels(trained.splits["train"])
        values |= {
            "largest": float(scores.max()),
            "smallest": float(scores.min()),
            "harmful_share": float((scores < 0).double().mean()),
        }
        found = Measured(values)
        found.tables["helpful"] = ranked(scores, names, labels, self.top)
        found.tables["harmful"] = ranked(-scores, names, labels, self.top, -1.0)
        if scores.numel() <= MAX_ROWS:
            found.tables["scores"] = [
                {"query": name, "id": number, "score": score}
                for name, row in zip(names, scores.tolist(), strict=True)
                for number, score in enumerate(row)
            ]
        found.figures["scores"] = lambda: draw(scores)
        if self.validate is not None:
            self._validated(trained, queries, scores.numpy(), found)
        return found

    def _queries(self, trained: Trained) -> tuple[list[Split], list[str]]:
        if "train" not in trained.splits or self.split not in trained.splits:
            raise Skipped(f"the data has no `{self.split if 'train' in trained.splits else 'train'}` split")
        split = trained.splits[self.split]
        if self.ids is None:
            return [split], [self.split]
        beyond = next((number for number in self.ids if number >= len(split)), None)
        if beyond is not None:
            raise Skipped(f"there is no example {beyond} in `{self.split}`: the ids are 0 to {len(split) - 1}")
        if self.together:
            return [subset(split, torch.tensor(self.ids))], [f"{self.split} {self.ids[0]} and others"]
        return [subset(split, torch.tensor([number])) for number in self.ids], [f"{self.split} {i}" for i in self.ids]

    def _scores(self, trained: Trained, queries: list[Split]) -> tuple[Tensor, dict[str, float]]:
        """(queries, n) float64 on the CPU, and how well the systems were solved."""
        assert trained.model is not None and trained.task is not None  # they are needed
        decay = weight_decay_of(trained.recipe, []) if self.weight_decay is None else self.weight_decay
        train = trained.splits["train"]
        model = copy.deepcopy(trained.model).eval()
        case = Case(trained, None, model, trained.task, torch.zeros(0).long(), queries[0], train, decay)
        objective = Objective(case, model, train, self.curvature, batch_size=BATCH)
        gradients = torch.stack([objective.gradient_of(split) for split in queries])  # (queries, p)
        index = self.subspace.select(Terrain(case, objective, gradients.mean(dim=0), self.samples)).to(gradients.device)
        system = objective.system(index)
        b = gradients[:, index].to(objective.dtype)
        x = torch.stack([self.ihvp.solve(system, row).x for row in b])  # (queries, k)
        products = system.products
        residuals = [
            float((system.product(u) - row).norm() / row.norm().clamp(min=1e-30)) for u, row in zip(x, b, strict=True)
        ]
        rows = example_gradients(model, trained.task.loss, case.batches(train, 256))
        scores = torch.cat([x.double() @ part[:, index].double().T for part in rows], dim=1).cpu() / len(train)
        return scores, {"relative_residual": float(np.mean(residuals)), "products": float(products)}

    def _validated(self, trained: Trained, queries: list[Split], scores: np.ndarray, found: Measured) -> None:
        """Correlations of what was predicted with what trainings show."""
        assert trained.task is not None
        seeds = [trained.seed + number for number in range(self.seeds)]
        splits = {name: split for name, split in trained.splits.items() if name in ("train", "val")}
        ground = Ground(trained.recipe, splits, trained.facts, trained.task, queries, trained.device, seeds)
        count = scores.shape[1]
        if self.validate == "lds":
            subsets = halves(count, self.fraction, self.trials, trained.seed)
            actual = all_losses(trained, ground, subsets)  # (trials, queries)
            predicted = np.stack([-scores[:, stays.numpy()].sum(axis=1) for stays in subsets])
            each = [correlation(predicted[:, q], actual[:, q], True) for q in range(len(queries))]
            found.values |= {"lds": float(np.mean(each)), "lds_lowest": float(np.min(each))}
        else:
            chosen = spread(scores.mean(axis=0), self.trials)
            whole, *single = all_losses(trained, ground, [torch.arange(count), *without_one(count, chosen)])
            actual, predicted = np.array(single) - whole, scores[:, chosen].T
            pairs = [(predicted[:, q], actual[:, q]) for q in range(len(queries))]
            found.values["loo_pearson"] = float(np.mean([correlation(*pair, False) for pair in pairs]))
            found.values["loo_spearman"] = float(np.mean([correlation(*pair, True) for pair in pairs]))
        found.tables["trainings"] = [
            {"training": t, "query": q, "predicted": float(predicted[t, q]), "actual": float(actual[t, q])}
            for t in range(len(predicted))
            for q in range(len(queries))
        ]
        found.figures["trainings"] = lambda: draw_trainings(predicted, actual)


def spread(scores: np.ndarray, count: int) -> list[int]:
    """Ids from the most harmful to the most helpful, equally spaced in rank, both ends among them."""
    order = np.argsort(scores, kind="stable")
    places = np.unique(np.linspace(0, len(order) - 1, min(count, len(order))).round().astype(int))
    return [int(number) for number in order[places]]


def ranked(scores: Tensor, names: list[str], labels: list[Any], top: int, sign: float = 1.0) -> list[dict[str, Any]]:
    """For each query the examples of highest score, best first; `sign` turns shown scores back."""
    rows = []
    for name, row in zip(names, scores, strict=True):
        best = torch.sort(row, descending=True, stable=True).indices[:top].tolist()
        for rank, number in enumerate(best, 1):
            score = sign * float(row[number])
            rows.append({"query": name, "rank": rank, "id": number, "score": score, "label": labels[number]})
    return rows


def _labels(split: Split) -> list[Any]:
    """The class of each example where there are classes, else None."""
    if isinstance(split, TensorSplit) and split.tensors["y"].dim() == 1 and split.tensors["y"].dtype == torch.int64:
        return list(split.tensors["y"].tolist())
    return [None] * len(split)


def draw(scores: Tensor) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0, 3.2), layout="constrained")
    axes = figure.subplots()
    for row in scores[:10]:
        ordered = row.sort(descending=True).values.tolist()
        axes.plot(range(1, len(ordered) + 1), ordered, linewidth=1)
    axes.axhline(0, color="0.5", linewidth=0.8)
    axes.set(xlabel="training examples, most helpful first", ylabel="predicted rise of the query's loss")
    axes.set_yscale("symlog", linthresh=max(float(scores.abs().max()) * 1e-3, 1e-30))
    return figure


def draw_trainings(predicted: np.ndarray, actual: np.ndarray) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2, 3.6), layout="constrained")
    axes = figure.subplots()
    for q in range(min(10, predicted.shape[1])):
        axes.plot(predicted[:, q], actual[:, q], "o", markersize=4)
    axes.set(xlabel="predicted", ylabel="after training again")
    return figure
