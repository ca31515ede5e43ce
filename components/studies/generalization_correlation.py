"""Which measures order models by how well they generalize."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from raycipe.components.studies import _cells as cells
from raycipe.framework.arguments import Length, Range, Variations
from raycipe.framework.contracts import Ended, Measured, Study, Variation
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator

MAX_RUNS = 10**5
TARGETS = {  # target -> (metric, its sign, another metric, its sign)
    "accuracy_gap": (("train/accuracy", 1), ("test/accuracy", -1)),
    "loss_gap": (("test/loss", 1), ("train/loss", -1)),
    "test_loss": (("test/loss", 1),),
    "test_error": (("test/accuracy", -1),),
}
Target = Literal["accuracy_gap", "loss_gap", "test_loss", "test_error"]


class Table(NamedTuple):
    """Of the runs that tell all of it: the measures' values, the targets, and which cell and seed each run is."""

    measures: dict[str, np.ndarray]
    targets: dict[str, np.ndarray]
    labels: dict[str, list[str]]


@register
class GeneralizationCorrelation(Study):
    """The recipe at every combination of values and seeds: how measures of the runs order their generalization.

    For each measure and target over all runs: Kendall's tau-b (`kendall`, with the bootstrap interval `low` to `high`
    over runs), Spearman's rho (`spearman`), and the granulated Kendall coefficient `psi`: for each hyperparameter the
    mean of tau over the groups of runs that differ in it alone, averaged over hyperparameters. A measure that only
    follows one hyperparameter has a high tau and a low psi. Positive: the larger the measure, the worse the model.

    accuracy_gap = train/accuracy - test/accuracy, loss_gap = test/loss - train/loss; both of training come from the
    run's last rows. Choose `train: {train_metrics: all}` for their exact means.

    Args:
        over: dotted path -> the values to try; the combinations are their product
        measures: the metrics in question, e.g. measure/sharpness/sharpness
        targets: what they should order
        seeds: how many (0, 1, ...), or which ones, for each combination
        bootstrap: resamples of the interval

    Reference:
        Y. Jiang, B. Neyshabur, H. Mobahi, D. Krishnan, S. Bengio, Fantastic Generalization Measures and Where to Find
        Them, ICLR 2020; G. K. Dziugaite et al., In Search of Robust Measures of Generalization, NeurIPS 2020.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [8]}
        task: classification
        optimizer: {type: sgd, lr: 0.1}
        measures: [weight_norms]
        study:
          {type: generalization_correlation, measures: [measure/weight_norms/norm],
           over: {optimizer.lr: [0.05, 0.2], train.batch_size: [32, 128]}}
    """

    reports: ClassVar[tuple[str, ...]] = ("runs", "missing", "kendall", "low", "high", "spearman", "psi")

    def __init__(
        self,
        over: Variations,
        measures: Annotated[list[str], Length(1, 100)],
        targets: Annotated[list[Target], Length(1, 4)] = ["loss_gap", "accuracy_gap"],  # noqa: B006 (never changed)
        seeds: Annotated[int, Range(ge=1, le=10**5)] | Annotated[list[int], Length(1, 10**5)] = 3,
        bootstrap: Annotated[int, Range(ge=10, le=10**6)] = 1000,
    ) -> None:
        count = math.prod(len(values) for values in over.values()) * len(cells.seeds_of(seeds))
        if not over or count > MAX_RUNS:
            raise ValueError(f"over: must have 1 to {MAX_RUNS:,} runs, not {count if over else 0:,}")
        self.over = over
        self.measures = measures
        self.targets = targets
        self.seeds = seeds
        self.bootstrap = bootstrap

    def variations(self, recipe: Mapping[str, Any]) -> list[Variation]:
        texts = {path: cells.labels_of(values, "over") for path, values in self.over.items()}
        found: list[Variation] = []
        for places in product(*(range(len(values)) for values in self.over.values())):
            at = dict(zip(self.over, places, strict=True))
            changes = {path: self.over[path][place] for path, place in at.items()}
            labels = {path: texts[path][place] for path, place in at.items()}
            for seed in cells.seeds_of(self.seeds):
                name = cells.folder(len(found), *labels.values(), f"seed{seed}")
                found.append(Variation(name, {"seed": seed, **changes}, {**labels, "seed": seed}))
        return found

    def conclude(self, recipe: Mapping[str, Any], runs: Sequence[Ended]) -> Measured:
        needed = {*self.measures, *(metric for target in self.targets for metric, _ in TARGETS[target])}
        told = [run for run in runs if needed <= run.final.keys()]
        values = {"runs": float(len(told)), "missing": float(len(runs) - len(told))}
        rows: list[dict[str, Any]] = []
        if len(told) >= 3:
            table = self._table(told)
            rows = [self._correlate(table, measure, target) for measure in self.measures for target in self.targets]
            for row in rows:
                prefix = f"{cells.slug(row['measure'].removeprefix('measure/'))}/{row['target']}/"
                known = {name: row[name] for name in ("kendall", "low", "high", "spearman", "psi")}
                values.update({prefix + name: value for name, value in known.items() if not math.isnan(value)})
        tables = {"runs": cells.table(runs), **({"correlations": rows} if rows else {})}
        return Measured(values=values, tables=tables, figures={"kendall": lambda: draw(rows)} if rows else {})

    def _table(self, runs: Sequence[Ended]) -> Table:
        measures = {name: np.array([run.final[name] for run in runs]) for name in self.measures}
        targets: dict[str, np.ndarray] = {
            name: np.array([sum(sign * run.final[metric] for metric, sign in TARGETS[name]) for run in runs])
            for name in self.targets
        }
        names = [*self.over, "seed"]
        return Table(measures, targets, {name: [str(run.variation.labels[name]) for run in runs] for name in names})

    def _correlate(self, table: Table, measure: str, target: str) -> dict[str, Any]:
        x, y = table.measures[measure], table.targets[target]
        stream = numpy_generator(0, "generalization_correlation")
        drawn = [stream.integers(0, len(x), len(x)) for _ in range(self.bootstrap)]
        spread = [value for value in (kendall(x[rows], y[rows]) for rows in drawn) if not math.isnan(value)]
        low, high = np.quantile(spread, [0.025, 0.975]) if spread else (math.nan, math.nan)
        granulated = {path: psi(x, y, table.labels, path) for path in self.over}
        known = [value for value in granulated.values() if not math.isnan(value)]
        return {
            "measure": measure,
            "target": target,
            "kendall": kendall(x, y),
            "low": float(low),
            "high": float(high),
            "spearman": spearman(x, y),
            "psi": sum(known) / len(known) if known else math.nan,
            **{f"psi {path}": value for path, value in granulated.items()},
        }


def kendall(x: np.ndarray, y: np.ndarray) -> float:
    """Kendall's tau-b; NaN where one of them is constant."""
    from scipy import stats

    return float(stats.kendalltau(x, y).statistic) if np.ptp(x) > 0 and np.ptp(y) > 0 else math.nan


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    from scipy import stats

    return float(stats.spearmanr(x, y).statistic) if np.ptp(x) > 0 and np.ptp(y) > 0 else math.nan


def psi(x: np.ndarray, y: np.ndarray, labels: Mapping[str, Sequence[str]], path: str) -> float:
    """The mean of tau over the groups of runs that differ in one hyperparameter alone; NaN where no group tells."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for place in range(len(x)):
        groups.setdefault(tuple(column[place] for name, column in labels.items() if name != path), []).append(place)
    found = [kendall(x[group], y[group]) for group in groups.values() if len(group) > 1]
    known = [value for value in found if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def draw(rows: Sequence[Mapping[str, Any]]) -> Any:
    """tau with its interval and psi, a row for each measure and target."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 1.2 + 0.35 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(rows):
        axes.plot([row["low"], row["high"]], [place, place], color="#4c78a8", linewidth=2)
        axes.plot([row["kendall"]], [place], "o", color="#4c78a8", label="Kendall" if place == 0 else None)
        axes.plot([row["psi"]], [place], "D", color="#f58518", label="granulated" if place == 0 else None)
    names = [f"{row['measure'].removeprefix('measure/')}, {row['target']}" for row in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=8)
    axes.axvline(0, color="grey", linewidth=0.8)
    axes.set(xlim=(-1.05, 1.05), xlabel="rank correlation with the target")
    axes.invert_yaxis()
    axes.legend(fontsize=8)
    return figure
