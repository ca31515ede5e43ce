"""What each part of a recipe is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from raycipe.components.studies import _cells as cells
from raycipe.framework.arguments import Length, NamedChanges, Range
from raycipe.framework.contracts import Ended, Measured, Study, Variation
from raycipe.framework.registry import register

FULL = "full"


@register
class Ablation(Study):
    """Takes one part of the recipe away at a time, and compares with the full recipe seed by seed.

    difference = mean over seeds of (metric without the part - metric of the full recipe), with Student's interval and
    paired test; p-values are corrected for the number of parts (Holm).

    Args:
        parts: name of a part -> {dotted path: value without it}; null as a value takes a section or an optional
            argument away
        metric: the figure in question; every other final figure stands in the table
        seeds: how many (0, 1, ...), or which ones; 2 tell no more than a rough interval
        confidence: of the intervals

    Reference:
        S. Holm, A Simple Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of Statistics, 1979.

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: {type: sgd, momentum: 0.9, schedule: cosine}
        study: {type: ablation, metric: test/accuracy, seeds: 3, parts: {momentum: {optimizer.momentum: 0}}}
    """

    reports: ClassVar[tuple[str, ...]] = (
        *("runs", "mean", "sd", "low", "high", "missing"),
        *("difference", "difference_low", "difference_high", "p", "p_holm"),
    )

    def __init__(
        self,
        parts: NamedChanges,
        metric: str,
        seeds: Annotated[int, Range(ge=1, le=10**5)] | Annotated[list[int], Length(1, 10**5)] = 5,
        confidence: Annotated[float, Range(gt=0, lt=1)] = 0.95,
    ) -> None:
        if not parts:
            raise ValueError("parts: is empty: nothing to take away")
        if FULL in parts or len({cells.slug(name) for name in parts}) < len(parts):
            raise ValueError(f"parts: names must differ from each other and from `{FULL}`")
        self.parts = parts
        self.metric = metric
        cells.seeds_of(seeds)  # its range check
        self.seeds = seeds
        self.confidence = confidence

    def variations(self, recipe: Mapping[str, Any]) -> list[Variation]:
        found: list[Variation] = []
        for name, changes in {FULL: {}, **self.parts}.items():
            for seed in cells.seeds_of(self.seeds):
                words = (FULL if name == FULL else f"without {name}", f"seed{seed}")
                labels = {"without": "" if name == FULL else name, "seed": seed}
                found.append(Variation(cells.folder(len(found), *words), {"seed": seed, **changes}, labels))
        return found

    def conclude(self, recipe: Mapping[str, Any], runs: Sequence[Ended]) -> Measured:
        groups = {
            text: cells.metric_values(group, self.metric) for text, group in cells.grouped(runs, "without").items()
        }
        full = groups.pop("")
        rows = differences(full, groups, self.confidence)
        values = cells.missing(runs, self.metric)
        values.update(cells.spread(list(full.values()), self.confidence).values(f"{FULL}/"))
        for name, by_seed in groups.items():
            values.update(cells.spread(list(by_seed.values()), self.confidence).values(f"{cells.slug(name)}/"))
        for row in rows:
            shown = {name: row[name] for name in self.reports if row.get(name) is not None and name != "missing"}
            values.update({f"{cells.slug(row['without'])}/{name}": value for name, value in shown.items()})
        by_name = {"full recipe": list(full.values())}
        by_name.update({f"without {name}": list(by_seed.values()) for name, by_seed in groups.items()})
        return Measured(
            values=values,
            tables={"parts": rows, "runs": cells.table(runs)},
            figures={"parts": lambda: cells.dots(by_name, self.confidence, self.metric)},
        )


def differences(
    full: Mapping[Any, float], without: Mapping[str, Mapping[Any, float]], confidence: float
) -> list[dict[str, Any]]:
    """A row for each part, on the seeds that it shares with the full recipe; None for what too few seeds tell."""
    rows = []
    for name, by_seed in without.items():
        pairs = [by_seed[seed] - full[seed] for seed in full if seed in by_seed]
        found = cells.spread(pairs, confidence)
        rows.append((name, found, cells.paired_p(pairs)))
    corrected = cells.holm({name: p for name, _, p in rows})
    return [
        {
            "without": name,
            "seeds": found.runs,
            "difference": found.mean if found.runs else None,
            "difference_low": found.low if found.runs > 1 else None,
            "difference_high": found.high if found.runs > 1 else None,
            "p": p if name in corrected else None,
            "p_holm": corrected.get(name),
        }
        for name, found, p in rows
    ]
