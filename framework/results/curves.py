"""Curves: the reported rows as one series a metric, and their pictures."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite, nan
from typing import Any

NOT_METRICS = ("step", "epoch", "seconds", "attempt")
SMOOTHED_FROM = 200  # points
Series = list[tuple[int, float]]
COLORS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f")


def series(rows: Iterable[Mapping[str, Any]]) -> dict[str, Series]:
    """Metric → [(step, value)]; of several rows at one step the last one counts (a resumed run repeats steps)."""
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        for name, value in row.items():
            if name not in NOT_METRICS and isinstance(value, (int, float)):
                found.setdefault(name, {})[int(row["step"])] = float(value)
    return {name: sorted(points.items()) for name, points in found.items()}


def panels(names: Iterable[str]) -> dict[str, list[str]]:
    """Metrics that belong in one picture: `train/loss` and `val/loss` under `loss`; `time/*` and `comm/*` apart."""
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        group, _, rest = name.partition("/")
        found.setdefault(rest if group in ("train", "val", "test") else name, []).append(name)
    order = {"loss": 0, "accuracy": 1, "lr": 3}
    return dict(sorted(found.items(), key=lambda item: (order.get(item[0], 2), item[0])))


def draw(title: str, lines: Mapping[str, Series], legend: bool = True) -> str:
    """One picture as SVG text: label → series. Non-finite points are left out, as the curve's gap shows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 3.2), layout="constrained")
    axes = figure.subplots()
    for index, (label, points) in enumerate(lines.items()):
        steps, values = zip(*points, strict=True) if points else ((), ())
        color, marker = COLORS[index % len(COLORS)], "o" if len(points) < 3 else None
        if len(points) > SMOOTHED_FROM:
            axes.plot(steps, values, color=color, linewidth=0.7, alpha=0.25)
            values = tuple(smoothed(values))
        axes.plot(steps, values, label=label, color=color, marker=marker, linewidth=1.6, alpha=0.85)
    axes.set_xlabel("step")
    axes.set_ylabel(title)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if legend:
        axes.legend(frameon=False, fontsize=8)
    if spans_decades([value for points in lines.values() for _, value in points]):
        axes.set_yscale("log")
    return to_svg(figure)


def draw_returns(found: Mapping[str, Series], evaluated_by: str = "") -> Any:
    """The returns of an agent: training as a line, evaluation with the 95 % band of its mean."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 3.6), layout="constrained")
    axes = figure.subplots()
    if training := found.get("rl/episode_return"):
        steps, values = zip(*training, strict=True)
        axes.plot(steps, smoothed(values), color="0.55", linewidth=1.2, label="training, last 100 episodes")
    if evaluated := found.get("rl/eval_return"):
        steps, values = zip(*evaluated, strict=True)
        low, high = ([value for _, value in found[f"rl/eval_return_{end}"]] for end in ("low", "high"))
        axes.fill_between(steps, low, high, color=COLORS[0], alpha=0.2, linewidth=0)
        label = f"evaluation, mean{evaluated_by} with 95 % band"
        axes.plot(steps, values, color=COLORS[0], linewidth=1.6, marker="o", markersize=3, label=label)
    axes.set(xlabel="environment steps", ylabel="return")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    return figure


def smoothed(values: Sequence[float]) -> list[float]:
    """The mean over a window of a fiftieth of the points on each side; not finite values are left out of the means."""
    half = max(1, len(values) // 50)
    found = []
    for index in range(len(values)):
        window = [value for value in values[max(0, index - half) : index + half + 1] if isfinite(value)]
        found.append(sum(window) / len(window) if window else nan)
    return found


def spans_decades(values: Sequence[float]) -> bool:
    """Whether a logarithmic axis says more: all positive and over a factor of 100 apart."""
    finite = [value for value in values if value == value and abs(value) != float("inf")]
    return bool(finite) and min(finite) > 0 and max(finite) / min(finite) > 100


def to_svg(figure: Any) -> str:
    """An `<svg>` element for a page: no XML header, the same bytes each time."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "raycipe", "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def data_uri(content: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"
