"""How far a minimax result is from the population's optimum."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch

from raycipe.components.measures._risks import at_point, saddle_of
from raycipe.components.measures._twins import Paths, simulate
from raycipe.framework.arguments import Count
from raycipe.framework.contracts import Measure, Measured, Point, Skipped, Trained
from raycipe.framework.registry import register
from raycipe.framework.training.players import FlatPlayers


@register
class ExcessPrimalRisk(Measure):
    """Excess primal risk R(w) - min R with R(w) = max over v of the expected f, where the data tell their law.

    `excess` is that of the run's own weights; with `seeds` > 1 the recipe is trained again side by side, `mean_excess`
    and `standard_error` are over these repetitions (the first is the run's seed). Values are in the task's unit; for
    auc_saddle p(1-p).

    Args:
        seeds: independent repetitions; 1 for the run alone
        target: last: the last iterate; avg: the average that the optimizer keeps
        points: steps at which the curve over the repetitions is taken
        twins: twins of each repetition, so that the same simulation serves saddle_stability

    Reference:
        Y. Lei, Z. Yang, T. Yang, Y. Ying, Stability and Generalization of Stochastic Gradient Methods for Minimax
        Problems, ICML 2021.

    Recipe:
        data: {type: gauss_auc, examples: 64, dim: 4}
        model: {type: linear, num_outputs: 1, bias: false, zero_init: true}
        task: auc_saddle
        optimizer: {type: sgda, lr: 1.0, schedule: theory}
        train: {epochs: 1, batch_size: 1}
        measures: [{type: excess_primal_risk, seeds: 3}]
    """

    reports: ClassVar[tuple[str, ...]] = ("excess", "mean_excess", "standard_error")

    def __init__(
        self, seeds: Count = 8, target: Literal["last", "avg"] = "avg", points: Count = 12, twins: Count = 1
    ) -> None:
        self.seeds = seeds
        self.target = target
        self.points = points
        self.twins = twins

    def measure(self, trained: Trained) -> Measured:
        task, saddle = saddle_of(trained)
        found = task.population(saddle, trained.facts)
        if found is None:
            raise Skipped("the law of these data, or the risk of this model under it, is not known")
        values = {"excess": found[0] - found[1]}
        if self.seeds == 1:
            return Measured(values=values)
        paths = simulate(trained, self.seeds, self.twins, self.points)
        points = paths.last if self.target == "last" else paths.mean
        rows = [_row(paths, step, point) for step, point in zip(paths.steps, points, strict=True)]
        values.update({name: rows[-1][name] for name in ("mean_excess", "standard_error")})
        return Measured(values=values, tables={"curve": rows})


def _row(paths: Paths, step: int, point: Point) -> dict[str, Any]:
    excess = excesses(paths, point)
    return {
        "step": step,
        "mean_excess": float(excess.mean()),
        "standard_error": float(excess.std() / len(excess) ** 0.5),
    }


def excesses(paths: Paths, point: Point) -> torch.Tensor:
    """The excess primal risk of each seed's own run (not its twins), (seeds,)."""
    found = []
    for number, world in enumerate(paths.problem.worlds):
        saddle = at_point(
            world.saddle, FlatPlayers(paths.problem.task, world.saddle), (point[0][number, 0], point[1][number, 0])
        )
        risk = paths.problem.task.population(saddle, world.facts)
        assert risk is not None  # asked before the simulation
        found.append(risk[0] - risk[1])
    return torch.tensor(found, dtype=torch.float64)
