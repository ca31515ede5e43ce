"""How fast training goes on slower and faster networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Annotated, Any, ClassVar, NamedTuple

from raycipe.components.links._network import Round, crossover
from raycipe.components.studies import _cells as cells
from raycipe.framework.arguments import Count, Length, NamedChanges, NonNegative, Positive
from raycipe.framework.contracts import Ended, Measured, Study, Variation
from raycipe.framework.registry import register
from raycipe.framework.runs import Run

CURVE_POINTS = 60


class Way(NamedTuple):
    """What a way does between two exchanges, and the examples (or tokens) of a step over all workers."""

    round: Round
    size: float


@register
class Bandwidth(Study):
    """Examples a second against the bandwidth between workers, for several ways of exchanging.

    Each way is run once, on a link that takes no time, which tells the bytes, messages and computing time of a step.
    With E exchanges in n steps, each of b bytes and S messages, on a network of any speed a round of n/E steps takes
    n/E · t_step + max(0, latency · S + 8 b / bandwidth - overlap · t_step).

    `bytes` are those that a worker sends in a step; `ahead_below` is the bandwidth (Mbit/s) below which a way is faster
    than the first one; `share` is the speed as a share of that on a network that takes no time.

    Args:
        ways: name -> {dotted path: value}; the optimizers must exchange by themselves
        mbps: bandwidths (megabits a second) at which the figures are told
        latency_ms: time of a message on its way
        step_seconds: computing time of a step, of a GPU say; null takes each run's own, compression included
        tokens: of an example, so that rates are tokens a second; 1 leaves them in examples

    Reference:
        A. Douillard et al., Streaming DiLoCo with Overlapping Communication, 2025.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16]}
        task: classification
        optimizer: {type: ef_sgd, compressor: identity}
        train: {steps: 40, log_every: 10}
        resources: {num_workers: 1}
        study: {type: bandwidth, ways: {dense: {optimizer.momentum: 0}, signs: {optimizer.compressor: signnorm}}}
    """

    reports: ClassVar[tuple[str, ...]] = ("rate", "share", "bytes", "step_seconds", "ahead_below", "missing")

    def __init__(
        self,
        ways: NamedChanges,
        mbps: Annotated[list[Positive], Length(1, 100)] = [1.0, 10.0, 100.0, 1000.0, 10000.0],  # noqa: B006 (only read)
        latency_ms: NonNegative = 0.0,
        step_seconds: Positive | None = None,
        tokens: Count = 1,
    ) -> None:
        if not ways or len({cells.slug(name) for name in ways}) < len(ways):
            raise ValueError("ways: needs one or more, with names that differ")
        self.ways = ways
        self.mbps = mbps
        self.latency_ms = latency_ms
        self.step_seconds = step_seconds
        self.tokens = tokens

    def variations(self, recipe: Mapping[str, Any]) -> list[Variation]:
        return [
            Variation(cells.folder(number, name), {**changes, "optimizer.link": {"type": "ideal"}}, {"way": name})
            for number, (name, changes) in enumerate(self.ways.items())
        ]

    def conclude(self, recipe: Mapping[str, Any], runs: Sequence[Ended]) -> Measured:
        found = {run.variation.labels["way"]: self._way(run) for run in runs}
        known = {name: way for name, way in found.items() if way is not None}
        values = {"missing": float(len(self.ways) - len(known))}
        rows = []
        for name, way in known.items():
            values.update(self._values(cells.slug(name), way))
            rows += [{"way": name, **self._row(way, mbps)} for mbps in self.mbps]
        first = known.get(next(iter(self.ways)))
        for name, way in known.items():
            crossed = crossover(first.round, way.round, self.latency_ms) if first and way is not first else None
            if crossed is not None:
                values[f"{cells.slug(name)}/ahead_below"] = crossed
        return Measured(values, {"rates": lambda: self._draw(known)}, {"rates": rows})

    def _way(self, run: Ended) -> Way | None:
        """What a run did between two exchanges; None if it failed, or told nothing of them."""
        if "comm/exchanges" not in run.final:
            return None
        final, steps, recipe = run.final, float(run.result["steps"]), Run(run.folder).resolved()
        step_s = self.step_seconds or step_seconds(run.rows())
        if step_s is None:
            return None
        size = float(recipe["train"]["batch_size"] * self.tokens)
        exchanges = final["comm/exchanges"]
        if not exchanges:  # one worker alone
            return Way(Round(steps, step_s, 0.0, 0.0), size)
        sent, hops = final["comm/bytes"] / _workers(recipe) / exchanges, final["comm/hops"] / exchanges
        overlap = int(recipe["optimizer"].get("overlap_steps") or 0)
        return Way(Round(steps / exchanges, step_s, sent, hops, overlap), size)

    def _values(self, name: str, way: Way) -> dict[str, float]:
        values = {f"{name}/bytes": way.round.num_bytes / way.round.steps, f"{name}/step_seconds": way.round.step_s}
        for mbps in self.mbps:
            row = self._row(way, mbps)
            values.update({f"{name}/{mbps:g}_mbps/{what}": row[what] for what in ("rate", "share")})
        return values

    def _row(self, way: Way, mbps: float) -> dict[str, float]:
        rate = way.size * way.round.steps / way.round.seconds(mbps, self.latency_ms)
        return {"mbps": mbps, "rate": rate, "share": way.round.share(mbps, self.latency_ms)}

    def _draw(self, known: Mapping[str, Way]) -> Any:
        import numpy as np
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.0, 4.0), layout="constrained")
        axes = figure.subplots()
        grid = np.geomspace(min(self.mbps), max(self.mbps), CURVE_POINTS)
        for name, way in known.items():
            axes.plot(grid, [self._row(way, mbps)["rate"] for mbps in grid], label=name)
        what = "tokens" if self.tokens > 1 else "examples"
        axes.set(xscale="log", yscale="log", xlabel="bandwidth, Mbit/s", ylabel=f"{what} a second")
        axes.grid(alpha=0.3)
        if known:
            axes.legend()
        return figure


def step_seconds(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """The median over intervals between log rows of the seconds that a step computed: those passed, less those waited
    for exchanges."""
    logs = [row for row in rows if "comm/wait_seconds" in row]
    times = []
    for before, after in pairwise(logs):
        steps = after["step"] - before["step"]
        waited = after["comm/wait_seconds"] - before["comm/wait_seconds"]
        if steps > 0:
            times.append((after["seconds"] - before["seconds"] - waited) / steps)
    found = median(times) if times else 0.0
    return found if found > 0 else None


def _workers(recipe: Mapping[str, Any]) -> float:
    resources = recipe["resources"]
    workers: Any = resources.get("simulated_workers") or resources["num_workers"]
    return float(workers[-1] if isinstance(workers, list) else max(1, workers))
