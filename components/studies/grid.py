"""Every combination of some values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Annotated, Any, ClassVar

import numpy as np

from raycipe.components.studies import _cells as cells
from raycipe.framework.arguments import Length, Range, Variations
from raycipe.framework.contracts import Ended, Measured, Study, Variation
from raycipe.framework.registry import register

MAX_CELLS = 10**5
SHOWN_NUMBERS = 60  # cells of a heat map that still have room for their number


@register
class Grid(Study):
    """A factorial design: the recipe at every combination of values, each with every seed.

    The table has a row a run. A path's main effect is told by its marginal means, over everything else:
    `range` is the largest minus the smallest of them.

    Args:
        over: dotted path -> the values to try; the combinations are their product
        metric: the figure in question; every other final figure stands in the table
        seeds: how many (0, 1, ...), or which ones, for each combination
        confidence: of the intervals

    Reference:
        R. A. Fisher, The Design of Experiments, 1935.

    Recipe:
        data: breast_cancer
        estimator: {type: sklearn, name: LogisticRegression, arguments: {C: 1.0}}
        study:
          type: grid
          metric: test/accuracy
          over: {estimator.arguments.C: [0.01, 1.0], data.standardize: [true, false]}
    """

    reports: ClassVar[tuple[str, ...]] = ("runs", "mean", "sd", "low", "high", "missing", "range", "lowest", "highest")

    def __init__(
        self,
        over: Variations,
        metric: str,
        seeds: Annotated[int, Range(ge=1, le=10**5)] | Annotated[list[int], Length(1, 10**5)] = 1,
        confidence: Annotated[float, Range(gt=0, lt=1)] = 0.95,
    ) -> None:
        self.over = over
        self.metric = metric
        cells.seeds_of(seeds)  # its range check
        self.seeds = seeds
        self.confidence = confidence
        for values in over.values():
            cells.labels_of(values, "over")  # its check that they can be told apart
        count = math.prod(len(values) for values in over.values()) * len(cells.seeds_of(seeds))
        if not over or count > MAX_CELLS:
            raise ValueError(f"over: must have 1 to {MAX_CELLS:,} runs, not {count if over else 0:,}")

    def variations(self, recipe: Mapping[str, Any]) -> list[Variation]:
        texts = {path: cells.labels_of(values, "over") for path, values in self.over.items()}
        found: list[Variation] = []
        for places in product(*(range(len(values)) for values in self.over.values())):
            at = dict(zip(self.over, places, strict=True))
            changes = {path: self.over[path][place] for path, place in at.items()}
            labels = {path: texts[path][place] for path, place in at.items()}
            for seed in cells.seeds_of(self.seeds):
                words = [*labels.values(), f"seed{seed}"]
                whole = {"seed": seed, **changes}
                found.append(Variation(cells.folder(len(found), *words), whole, {**labels, "seed": seed}))
        return found

    def conclude(self, recipe: Mapping[str, Any], runs: Sequence[Ended]) -> Measured:
        paths = list(self.over)
        by_cell: dict[tuple[str, ...], list[float]] = {}
        for run in runs:
            cell = tuple(run.variation.labels[path] for path in paths)
            by_cell.setdefault(cell, []).extend([run.final[self.metric]] if cells.tells(run, self.metric) else [])
        found = {cell: cells.spread(values, self.confidence) for cell, values in by_cell.items()}
        means = {cell: spread.mean for cell, spread in found.items() if spread.runs}
        values = cells.missing(runs, self.metric)
        for cell, spread in found.items():
            values.update(spread.values("/".join(map(cells.slug, cell)) + "/"))
        effects = main_effects(paths, means)
        for path in paths:
            marginal = [row["mean"] for row in effects if row["path"] == path]
            if marginal:
                values[f"{cells.slug(path)}/range"] = max(marginal) - min(marginal)
        if means:
            values.update(lowest=min(means.values()), highest=max(means.values()))
        rows = [{**dict(zip(paths, cell, strict=True)), **spread._asdict()} for cell, spread in found.items()]
        return Measured(
            values=values,
            tables={"cells": rows, "effects": effects, "runs": cells.table(runs)},
            figures={"cells": lambda: draw(paths, found, self.metric)},
        )


def main_effects(paths: Sequence[str], means: Mapping[tuple[str, ...], float]) -> list[dict[str, Any]]:
    """For each value of each path the mean over all cells that have it."""
    rows = []
    for position, path in enumerate(paths):
        for value in dict.fromkeys(cell[position] for cell in means):
            there = [mean for cell, mean in means.items() if cell[position] == value]
            rows.append({"path": path, "value": value, "cells": len(there), "mean": math.fsum(there) / len(there)})
    return rows


def draw(paths: Sequence[str], found: Mapping[tuple[str, ...], cells.Spread], metric: str) -> Any:
    """One path: means and intervals. More: a heat map of the first two, averaged over the others."""
    from matplotlib.figure import Figure

    firsts = list(dict.fromkeys(cell[0] for cell in found))
    if len(paths) == 1:
        figure = Figure(figsize=(5.5, 3.8), layout="constrained")
        axes = figure.subplots()
        spreads = [found[(first,)] for first in firsts]
        errors = [0.0 if math.isnan(spread.high) else spread.high - spread.mean for spread in spreads]
        axes.errorbar(range(len(firsts)), [spread.mean for spread in spreads], errors, fmt="o-", capsize=4)
        axes.set_xticks(range(len(firsts)), firsts)
        axes.set(xlabel=paths[0], ylabel=metric)
        return figure
    seconds = list(dict.fromkeys(cell[1] for cell in found))
    sums, counts = np.zeros((len(firsts), len(seconds))), np.zeros((len(firsts), len(seconds)))
    for cell, spread in found.items():
        if spread.runs:
            at = firsts.index(cell[0]), seconds.index(cell[1])
            sums[at] += spread.mean
            counts[at] += 1
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    figure = Figure(figsize=(2.2 + 0.9 * len(seconds), 1.8 + 0.6 * len(firsts)), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(means, aspect="auto", cmap="viridis")
    if means.size <= SHOWN_NUMBERS:
        middle = (np.nanmin(means) + np.nanmax(means)) / 2 if counts.any() else 0.0
        for (row, column), mean in np.ndenumerate(means):
            color = "white" if mean < middle else "black"
            axes.text(column, row, "failed" if np.isnan(mean) else f"{mean:.4g}", ha="center", va="center", color=color)
    axes.set_xticks(range(len(seconds)), seconds)
    axes.set_yticks(range(len(firsts)), firsts)
    axes.set(xlabel=paths[1], ylabel=paths[0])
    figure.colorbar(image, label=metric)
    return figure
