"""When a network has learned its examples by heart, and when it has understood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from raycipe.framework.arguments import Count, Length, Share
from raycipe.framework.contracts import Measure, Measured, Skipped, Trained
from raycipe.framework.registry import register

Curve = list[tuple[int, float]]  # (step, value), by step


@register
class GrokkingOnset(Measure):
    """Steps of memorization and of generalization, from a run's own rows; a figure of both with further curves.

    `memorized_at` is the first of `patience` readings in a row at which the training metric is at least its threshold,
    `generalized_at` the same of the held-out one; `delay` is their difference, `ratio` their quotient. What was not
    reached is left out. A `signal` is judged by what it tells from memorization on: `signal_spearman`, its rank
    correlation with the held-out metric; `signal_growth`, its value at generalization over that at memorization;
    `signal_lead`, how many steps before the held-out metric it comes half of its way (from memorization to the end).

    Args:
        train: metric of the training examples
        held_out: metric of the held-out examples
        train_threshold: from where on the examples count as memorized
        held_out_threshold: from where on the network counts as generalizing
        patience: readings in a row that a curve must hold its threshold
        signal: a metric that may tell of generalization, e.g. measure/magnitude_potential/train_ratio
        curves: further metrics that the figure shows

    Reference:
        A. Power, Y. Burda, H. Edwards, I. Babuschkin, V. Misra, Grokking, 2022.

    Recipe:
        data: {type: modular_arithmetic, p: 11}
        model: {type: modular_mlp, width: 32}
        task: classification
        optimizer: {type: adamw, lr: 1e-2}
        measures: [{type: grokking_onset, train_threshold: 0.5, patience: 1}]
    """

    needs: ClassVar[tuple[str, ...]] = ("rows",)
    in_training: ClassVar[bool] = False
    reports: ClassVar[tuple[str, ...]] = (
        *("memorized_at", "generalized_at", "delay", "ratio"),
        *("signal_spearman", "signal_growth", "signal_lead", "readings"),
    )

    def __init__(
        self,
        train: str = "train/accuracy",
        held_out: str = "val/accuracy",
        train_threshold: Share = 0.99,
        held_out_threshold: Share = 0.95,
        patience: Count = 3,
        signal: str | None = None,
        curves: Annotated[list[str], Length(0, 8)] = [],  # noqa: B006 (never changed)
    ) -> None:
        self.train = train
        self.held_out = held_out
        self.train_threshold = train_threshold
        self.held_out_threshold = held_out_threshold
        self.patience = patience
        self.signal = signal
        self.curves = curves

    def measure(self, trained: Trained) -> Measured:
        learned, held_out = self._curve(trained, self.train), self._curve(trained, self.held_out)
        memorized = onset(learned, self.train_threshold, self.patience)
        generalized = onset(held_out, self.held_out_threshold, self.patience)
        values = {"readings": float(len(held_out))}
        if memorized is not None:
            values["memorized_at"] = float(memorized)
        if generalized is not None:
            values["generalized_at"] = float(generalized)
        if memorized is not None and generalized is not None:
            values.update(delay=float(generalized - memorized), ratio=generalized / memorized)
        if self.signal is not None and memorized is not None:
            values.update(judged(self._curve(trained, self.signal), held_out, memorized, generalized))
        shown = {
            name: self._curve(trained, name) for name in dict.fromkeys([*self.curves, *filter(None, [self.signal])])
        }
        accuracies = {self.train: learned, self.held_out: held_out}
        figure = lambda: draw(accuracies, shown, memorized, generalized)  # noqa: E731
        return Measured(values=values, figures={"curves": figure}, tables={"curves": _table({**accuracies, **shown})})

    def _curve(self, trained: Trained, metric: str) -> Curve:
        found = curve(trained.rows, metric)
        if not found:
            raise Skipped(f"no row of the run tells {metric}")
        return found


def curve(rows: Sequence[Mapping[str, Any]], metric: str) -> Curve:
    """The readings of a metric; of several at one step the last."""
    return sorted({int(row["step"]): float(row[metric]) for row in rows if row.get(metric) is not None}.items())


def onset(readings: Curve, threshold: float, patience: int) -> int | None:
    """The first step of `patience` readings in a row that reach the threshold; None if there are none."""
    above = 0
    for place, (_, value) in enumerate(readings):
        above = above + 1 if value >= threshold else 0
        if above == patience:
            return readings[place - patience + 1][0]
    return None


def judged(signal: Curve, held_out: Curve, memorized: int, generalized: int | None) -> dict[str, float]:
    """What a signal tells of the held-out metric from memorization on."""
    from scipy import stats

    at = dict(held_out)
    both = [(step, value, at[step]) for step, value in signal if step >= memorized and step in at]
    if len(both) < 3:
        raise Skipped(f"{len(both)} readings of the signal stand beside the held-out metric: three are needed")
    steps, values, accuracies = (np.array(column) for column in zip(*both, strict=True))
    found = {}
    if np.ptp(values) > 0 and np.ptp(accuracies) > 0:
        found["signal_spearman"] = float(stats.spearmanr(values, accuracies).statistic)
        found["signal_lead"] = float(half_way(steps, accuracies) - half_way(steps, values))
    if generalized is not None and values[0] != 0:
        later = values[np.searchsorted(steps, generalized).clip(max=len(steps) - 1)]
        found["signal_growth"] = float(later / values[0])
    return found


def half_way(steps: np.ndarray, values: np.ndarray) -> float:
    """The step at which a curve has first come half of the way from its first to its last value, interpolated."""
    share = (values - values[0]) / (values[-1] - values[0] or 1.0)
    place = int(np.argmax(share >= 0.5))
    if place == 0:
        return float(steps[-1] if share[0] < 0.5 else steps[0])
    part = (0.5 - share[place - 1]) / (share[place] - share[place - 1])
    return float(steps[place - 1] + part * (steps[place] - steps[place - 1]))


def _table(curves: Mapping[str, Curve]) -> list[dict[str, Any]]:
    columns = {name: dict(readings) for name, readings in curves.items()}
    steps = sorted({step for readings in columns.values() for step in readings})
    return [{"step": step, **{name: readings.get(step) for name, readings in columns.items()}} for step in steps]


def draw(
    accuracies: Mapping[str, Curve], shown: Mapping[str, Curve], memorized: int | None, generalized: int | None
) -> Any:
    """Accuracies above, every other curve below, over the logarithm of the step; dashed lines at the two onsets."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.2, 2.4 + 1.3 * len(shown)), layout="constrained")
    panels = figure.subplots(1 + len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for name, readings in accuracies.items():
        panels[0].plot(*zip(*readings, strict=True), label=name)
    panels[0].legend(fontsize=8)
    for axes, (name, readings) in zip(panels[1:], shown.items(), strict=True):
        values = [value for _, value in readings]
        axes.plot([step for step, _ in readings], values, color="#54a24b", marker=".")
        if min(values) > 0 and max(values) > 50 * min(values):
            axes.set_yscale("log")
        axes.set_title(name.removeprefix("measure/"), fontsize=8, loc="left", pad=2)
    for axes in panels:
        for step in (memorized, generalized):
            if step is not None:
                axes.axvline(step, color="grey", linestyle="--", linewidth=0.8)
    panels[-1].set(xscale="log", xlabel="step")
    return figure
