"""How often intervals hold the truth, over worlds, losses and sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Annotated, Any, ClassVar

import numpy as np

from raycipe.components.measures.replications import coverage_interval
from raycipe.components.studies import _cells as cells
from raycipe.framework.arguments import Count, Range, Variations
from raycipe.framework.contracts import Ended, Measured, Study, Variation
from raycipe.framework.registry import register

MEASURE = "replications"
PREFIX = f"measure/{MEASURE}/"
MAX_RUNS = 10**5


@register
class Coverage(Study):
    """Counts how often an estimator's intervals hold the truth, at every combination of values.

    Each run is a block of replicates by the measure `replications`: fresh data, a fit, and whether its interval held
    the truth. Blocks run at the same time, are recorded as they end, and are skipped on resume; a replicate's data
    depend on its number alone, so every cell sees the same ones. The table has for each cell the counted coverage with
    its 95 % interval (Clopper-Pearson for a number, Student's for a function), mean length, bias and rmse.

    Args:
        over: dotted path -> the values to try; cells are their combinations
        replicates: of each cell; 50 can't tell .92 from .97, 300 can
        block: replicates of one run; small blocks spread better, large ones have less overhead
        nominal: the level to compare with; null takes the estimator's

    Reference:
        C. J. Clopper, E. S. Pearson, The Use of Confidence or Fiducial Limits, Biometrika 1934.

    Recipe:
        data: {type: causal_dgp, examples: 100, fresh: 0}
        estimator: {type: gbayes_causal, nuisance: {type: crossfit, folds: 2}}
        study: {type: coverage, replicates: 20, block: 10, over: {estimator.loss: [dr, ipw]}}
    """

    reports: ClassVar[tuple[str, ...]] = (
        *("replicates", "coverage", "coverage_low", "coverage_high", "length", "bias", "rmse", "flagged"),
        *("missing", "lowest", "highest"),
    )

    def __init__(
        self,
        over: Variations = {},  # noqa: B006 (never changed)
        replicates: Count = 300,
        block: Count = 50,
        nominal: Annotated[float, Range(gt=0, lt=1)] | None = None,
    ) -> None:
        self.over = over
        self.replicates = replicates
        self.block = block
        self.nominal = nominal
        count = int(np.prod([len(values) for values in over.values()])) * -(-replicates // block)
        if count > MAX_RUNS:
            raise ValueError(f"block: {count:,} runs are more than {MAX_RUNS:,}: take larger blocks")

    def variations(self, recipe: Mapping[str, Any]) -> list[Variation]:
        if "estimator" not in recipe:
            raise ValueError("over: coverage is counted of an estimator, and the recipe has none")
        texts = {path: cells.labels_of(values, "over") for path, values in self.over.items()}
        found: list[Variation] = []
        for places in product(*(range(len(values)) for values in self.over.values())):
            at = dict(zip(self.over, places, strict=True))
            changes = {path: self.over[path][place] for path, place in at.items()}
            labels = {path: texts[path][place] for path, place in at.items()}
            for first in range(0, self.replicates, self.block):
                size = min(self.block, self.replicates - first)
                measure = {"type": MEASURE, "replicates": size, "first": first}
                name = cells.folder(len(found), *labels.values(), f"from{first}")
                found.append(Variation(name, {**changes, "measures": [measure]}, {**labels, "first": first}))
        return found

    def conclude(self, recipe: Mapping[str, Any], runs: Sequence[Ended]) -> Measured:
        by_cell: dict[tuple[str, ...], list[Ended]] = {}
        for run in runs:
            by_cell.setdefault(tuple(run.variation.labels[path] for path in self.over), []).append(run)
        rows = {cell: pooled([run.final for run in blocks]) for cell, blocks in by_cell.items()}
        values = {"missing": float(sum(PREFIX + "coverage" not in run.final for run in runs))}
        for cell, row in rows.items():
            prefix = "".join(f"{cells.slug(text)}/" for text in cell)
            values.update({f"{prefix}{name}": value for name, value in row.items() if name in self.reports})
        known = [row["coverage"] for row in rows.values() if row]
        if known:
            values.update(lowest=min(known), highest=max(known))
        nominal = self.nominal or float(recipe["estimator"].get("level", 0.95))
        names = ("replicates", "coverage", "coverage_low", "coverage_high", "length", "bias", "rmse", "flagged")
        table = [
            {**dict(zip(self.over, cell, strict=True)), **{name: row.get(name) for name in names}}
            for cell, row in rows.items()
        ]
        shown = {cell: row for cell, row in rows.items() if row}
        return Measured(
            values=values,
            tables={"coverage": table, "runs": cells.table(runs)},
            figures={"coverage": lambda: draw(shown, nominal)},
        )


def pooled(blocks: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The figures of a cell from those of its blocks, weighed by their replicates; empty without any."""
    there = [
        {name.removeprefix(PREFIX): value for name, value in block.items() if name.startswith(PREFIX)}
        for block in blocks
        if PREFIX + "coverage" in block
    ]
    if not there:
        return {}
    n = np.array([block["replicates"] for block in there])

    def mean(name: str, power: int = 1) -> float:
        return float((n @ np.array([block[name] ** power for block in there])) / n.sum())

    coverage = mean("coverage")
    between = mean("coverage", 2) - coverage**2
    sd = float(np.sqrt(max(0.0, mean("coverage_sd", 2) + between)))
    low, high = coverage_interval(coverage, sd, int(n.sum()), there[0]["points"])
    return {
        "replicates": float(n.sum()),
        "coverage": coverage,
        "coverage_low": low,
        "coverage_high": high,
        "length": mean("length"),
        "bias": mean("bias"),
        "rmse": float(np.sqrt(mean("rmse", 2))),
        "flagged": mean("flagged"),
    }


def draw(rows: Mapping[tuple[str, ...], Mapping[str, float]], nominal: float) -> Any:
    """Every cell's coverage with its interval, beside the nominal level; lengths as numbers."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 1.4 + 0.28 * len(rows)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(nominal, color="0.5", linestyle="--", label=f"nominal {nominal:g}")
    for place, row in enumerate(rows.values()):
        misses = not row["coverage_low"] <= nominal <= row["coverage_high"]
        color = "#f58518" if misses else "#4c78a8"
        axes.plot([row["coverage_low"], row["coverage_high"]], [place, place], color=color, linewidth=2)
        axes.plot([row["coverage"]], [place], "o", color=color, markersize=5)
        axes.annotate(
            f"{row['length']:.3g}", (1.02, place), xycoords=("axes fraction", "data"), va="center", fontsize=8
        )
    axes.set_yticks(range(len(rows)), [", ".join(cell) or "recipe" for cell in rows], fontsize=8)
    axes.set(xlabel="counted coverage (right: mean length)", ylim=(max(1, len(rows)) - 0.5, -0.5))
    axes.legend(frameon=False, fontsize=8, loc="lower left")
    return figure
