"""The same recipe with other seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Annotated, Any, ClassVar

from raycipe.components.studies import _cells as cells
from raycipe.framework.arguments import Length, Range, Variations
from raycipe.framework.contracts import Ended, Measured, Study, Variation
from raycipe.framework.registry import register

ALONE = "recipe"


@register
class Repeat(Study):
    """Repeats the recipe over seeds: mean, deviation and confidence interval; with `compare` a paired test as well.

    mean ± t(n - 1, 1/2 + c/2) sd / sqrt(n) of the metric over n seeds. Each pair of compared values is tested on the
    differences seed by seed (Student's paired test), and the p-values are corrected for their number (Holm).

    Args:
        metric: the figure in question; every other final figure stands in the table
        seeds: how many (0, 1, ...), or which ones; 2 tell no more than a rough interval
        compare: one dotted path -> the values to compare; each is run with every seed
        confidence: c, of the intervals

    Reference:
        S. Holm, A Simple Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of Statistics, 1979.

    Recipe:
        data: breast_cancer
        estimator: {type: sklearn, name: LogisticRegression}
        study: {type: repeat, metric: test/accuracy, seeds: 3}
    """

    reports: ClassVar[tuple[str, ...]] = (
        *("runs", "mean", "sd", "low", "high", "missing"),
        *("difference", "p", "p_holm"),
    )

    def __init__(
        self,
        metric: str,
        seeds: Annotated[int, Range(ge=1, le=10**5)] | Annotated[list[int], Length(1, 10**5)] = 5,
        compare: Variations | None = None,
        confidence: Annotated[float, Range(gt=0, lt=1)] = 0.95,
    ) -> None:
        if compare is not None and len(compare) != 1:
            raise ValueError(f"compare: takes one path, not {len(compare)}: for combinations use `type: grid`")
        for values in (compare or {}).values():
            cells.labels_of(values, "compare")  # its check that they can be told apart
        self.metric = metric
        cells.seeds_of(seeds)  # its range check
        self.seeds = seeds
        self.compare = compare
        self.confidence = confidence

    def variations(self, recipe: Mapping[str, Any]) -> list[Variation]:
        found: list[Variation] = []
        for text, changes in self._variants().items():
            for seed in cells.seeds_of(self.seeds):
                words = (f"seed{seed}",) if self.compare is None else (text, f"seed{seed}")
                labels = {"variant": text, "seed": seed}
                found.append(Variation(cells.folder(len(found), *words), {**changes, "seed": seed}, labels))
        return found

    def _variants(self) -> dict[str, dict[str, Any]]:
        if self.compare is None:
            return {ALONE: {}}
        ((path, values),) = self.compare.items()
        labels = cells.labels_of(values, "compare")
        return {text: {path: value} for text, value in zip(labels, values, strict=True)}

    def conclude(self, recipe: Mapping[str, Any], runs: Sequence[Ended]) -> Measured:
        groups = {
            text: cells.metric_values(group, self.metric) for text, group in cells.grouped(runs, "variant").items()
        }
        values = cells.missing(runs, self.metric)
        summary = []
        for text, by_seed in groups.items():
            found = cells.spread(list(by_seed.values()), self.confidence)
            values.update(found.values("" if self.compare is None else f"{cells.slug(text)}/"))
            summary.append({"variant": text, **found._asdict()})
        tables: dict[str, list[dict[str, Any]]] = {"summary": summary, "runs": cells.table(runs)}
        if len(groups) > 1:
            tables["pairs"] = pairs(groups)
            for row in tables["pairs"]:
                prefix = f"{cells.slug(row['first'])}-{cells.slug(row['second'])}/"
                shown = {name: row[name] for name in ("difference", "p", "p_holm") if row[name] is not None}
                values.update({f"{prefix}{name}": value for name, value in shown.items()})
        points = {text: list(by_seed.values()) for text, by_seed in groups.items()}
        return Measured(
            values=values, tables=tables, figures={"spread": lambda: cells.dots(points, self.confidence, self.metric)}
        )


def pairs(groups: Mapping[str, Mapping[Any, float]]) -> list[dict[str, Any]]:
    """Every two variants, on the seeds that both have: mean difference, p and Holm's p (None for too few seeds)."""
    rows: list[dict[str, Any]] = []
    for first, second in combinations(groups, 2):
        seeds = [seed for seed in groups[first] if seed in groups[second]]
        differences = [groups[first][seed] - groups[second][seed] for seed in seeds]
        p = cells.paired_p(differences)
        mean = sum(differences) / len(differences) if differences else None
        rows.append({"first": first, "second": second, "seeds": len(seeds), "difference": mean, "p": p})
    corrected = cells.holm({str(number): row["p"] for number, row in enumerate(rows)})
    return [
        {**row, "p": row["p"] if str(number) in corrected else None, "p_holm": corrected.get(str(number))}
        for number, row in enumerate(rows)
    ]
