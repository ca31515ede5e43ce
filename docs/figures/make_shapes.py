"""Draws mnist1d.png (a stroke and an example of each class) and schedules.png into this folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from raycipe.components.data.mnist1d import templates
from raycipe.framework.registry import make

FOLDER = Path(__file__).parent
STEPS = 1000
SCHEDULES = {
    "constant": {"warmup": 100},
    "cosine": {"warmup": 100, "floor": 0.05},
    "linear": {"warmup": 100},
    "step": {"warmup": 100},
    "inverse_sqrt": {"warmup": 100},
}


def draw_shapes() -> None:
    figure = Figure(figsize=(9, 3), layout="constrained")
    panels = figure.subplots(2, 10, sharey="row")
    examples = make("data/mnist1d").draw(np.arange(10), np.random.default_rng(0))
    for digit in range(10):
        panels[0, digit].plot(templates()[digit], color="#4c78a8")
        panels[0, digit].set_title(str(digit))
        panels[1, digit].plot(examples[digit], color="#f58518", linewidth=1)
    panels[0, 0].set_ylabel("stroke")
    panels[1, 0].set_ylabel("example")
    for panel in panels.flat:
        panel.set(xticks=[], yticks=[])
    figure.savefig(FOLDER / "mnist1d.png", dpi=110)


def draw_schedules() -> None:
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    axes = figure.subplots()
    for name, arguments in SCHEDULES.items():
        schedule = make(f"schedules/{name}", **arguments)
        axes.plot([schedule.factor(step, STEPS) for step in range(STEPS)], label=name)
    axes.set(xlabel="step", ylabel="factor", ylim=(0, 1.05))
    axes.legend(frameon=False, ncols=3)
    figure.savefig(FOLDER / "schedules.png", dpi=110)


if __name__ == "__main__":
    draw_shapes()
    draw_schedules()
