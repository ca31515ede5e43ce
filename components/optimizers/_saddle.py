"""Shared by the optimizers of minimax problems: points, rates, averages, skipped steps, state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from raycipe.components.optimizers._alone import Alone
from raycipe.components.optimizers._fused import as_list
from raycipe.framework.contracts import (
    Estimate,
    GradientEstimator,
    Optimizer,
    OptimizerRun,
    Point,
    Problem,
    Schedule,
)
from raycipe.framework.errors import RunError

Averaging = Literal["none", "uniform", "weighted", "suffix0.5"]
MAX_SKIPPED = 10  # steps in a row whose gradients are not finite


class NotFinite(Exception):
    """An estimated gradient holds NaN or infinity: the step is left out."""


class SaddleOptimizer(Optimizer, ABC):
    """Base of optimizers that descend in w and ascend in v.

    A subclass gives one step as `advance`, on flat points whose last dimension counts entries. Gradients come from
    `gradients`, whatever it does to obtain them; the average of the iterates is what is evaluated and saved. All
    workers hold the same point: estimates are equal on all of them. Without the training loop, `step` uses the
    parameters' `.grad`, and a closure where a step needs gradients at another point.
    """

    exchanges: ClassVar[bool] = True
    saddle: ClassVar[bool] = True

    def __init__(
        self,
        params: Any,
        lr: float,
        lr_v: float | None,
        gradients: GradientEstimator,
        average: Averaging,
        schedule: Schedule | None,
    ) -> None:
        groups = as_list(params)
        for group in groups:
            if isinstance(group, dict) and group.get("role") == "max" and lr_v is not None:
                group.setdefault("lr", lr_v)
        torch.optim.Optimizer.__init__(self, groups, {"lr": lr, "role": "min"})
        self.gradients = gradients
        self.average = average
        self.schedule = schedule
        self.uses_gradients = gradients.uses_gradients
        self.whole_batch = gradients.whole_batch
        self.problem: Problem | None = None
        self.is_started = False
        self.kept: dict[str, Any] = {}  # of the subclass, tensors and numbers
        self.mean: Point | None = None  # float64
        self.mean_weight = 0.0
        self.skipped = self.skipped_in_a_row = 0
        self.info: Mapping[str, Tensor] = {}

    @abstractmethod
    def advance(self, problem: Problem, w: Tensor, v: Tensor) -> Point:
        """The next point; raises NotFinite through `estimate`."""

    # ------------------------------------------------------------------------------------------ one step

    def prepare(self, run: OptimizerRun) -> None:
        self.problem = run.problem

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        problem = self.problem or Alone(self.param_groups, closure)
        w, v = problem.point()
        if not self.is_started:
            self._start(problem)
        try:
            w, v = self.advance(problem, w, v)
        except NotFinite:
            self._skip(problem, w, v)
            return None
        self.skipped_in_a_row = 0
        problem.move(w, v)
        self._add_to_mean(problem, w, v)
        return None

    def _start(self, problem: Problem) -> None:
        self.is_started = True
        for estimator in estimators(self.gradients):
            estimator.prepare(problem)
        for caution in self.cautions(problem):
            problem.warn(caution)

    def cautions(self, problem: Problem) -> list[str]:
        task = getattr(problem, "task", None)
        found = list(task.cautions()) if task is not None else []
        if any(group["lr"] == 0 and group["role"] == "max" for group in self.param_groups):
            found.append("lr_v is 0: v never moves, and this is no minimax problem any more")
        return found

    def estimate(self, problem: Problem, w: Tensor, v: Tensor, players: str = "wv") -> Estimate:
        found = self.gradients.estimate(problem, w, v, players)
        if not bool(torch.isfinite(found.w.sum() + found.v.sum())):
            raise NotFinite
        self.info = found.info
        return found

    def _skip(self, problem: Problem, w: Tensor, v: Tensor) -> None:
        """No worker moves: all see the same estimate."""
        self.skipped += 1
        self.skipped_in_a_row += 1
        problem.move(w, v)
        if self.skipped_in_a_row >= MAX_SKIPPED:
            raise RunError(
                "nonfinite",
                f"the gradients of {MAX_SKIPPED} steps in a row are not finite",
                "lower optimizer.lr, bound the players (task.radius_w), or take gradients: clipped",
                "optimizer",
                problem.step,
            )

    def rate(self, role: str) -> Any:
        """The learning rate of a player: a number, or an entry each where its groups differ."""
        groups = [group for group in self.param_groups if group["role"] == role]
        rates = {float(group["lr"]) for group in groups}
        if len(rates) <= 1:
            return rates.pop() if rates else 0.0
        return torch.cat([p.detach().new_full((p.numel(),), group["lr"]) for group in groups for p in group["params"]])

    def descend(self, problem: Problem, w: Tensor, v: Tensor, g_w: Tensor, g_v: Tensor) -> Point:
        """P(w - lr_w g_w, v + lr_v g_v)."""
        return problem.project(w - self.rate("min") * g_w, v + self.rate("max") * g_v)

    # ------------------------------------------------------------------------------------------ averages

    def _add_to_mean(self, problem: Problem, w: Tensor, v: Tensor) -> None:
        """mean <- mean + a (x - mean) / sum of weights a, in float64."""
        if self.average == "none" or (self.average == "suffix0.5" and 2 * problem.step < problem.total_steps):
            return
        weight = float(self.param_groups[0]["lr"]) if self.average == "weighted" else 1.0
        if weight == 0:
            return
        self.mean_weight += weight
        share = weight / self.mean_weight
        if self.mean is None:
            self.mean = (w.double().clone(), v.double().clone())
        else:
            for mean, now in zip(self.mean, (w, v), strict=True):
                mean.lerp_(now.double(), share)

    @contextmanager
    def consensus(self) -> Iterator[None]:
        """Inside, the parameters are the average of the iterates."""
        if self.mean is None:
            yield
            return
        problem = self.problem or Alone(self.param_groups, None)
        iterate = problem.point()
        problem.move(*(mean.to(now.dtype) for mean, now in zip(self.mean, iterate, strict=True)))
        try:
            yield
        finally:
            problem.move(*iterate)

    # ------------------------------------------------------------------------------------------ state and log

    def state_dict(self) -> dict[str, Any]:
        problem = self.problem or Alone(self.param_groups, None)
        return {
            **super().state_dict(),
            "saddle": {
                "is_started": self.is_started,
                "iterate": list(problem.point()),
                "mean": list(self.mean) if self.mean is not None else [],
                "mean_weight": self.mean_weight,
                "skipped": [self.skipped, self.skipped_in_a_row],
                "evaluations": problem.evaluations,
                "kept": self.kept,
                "gradients": [estimator.state() for estimator in estimators(self.gradients)],
            },
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        state = dict(state)
        mine = state.pop("saddle")
        super().load_state_dict(state)
        problem = self.problem or Alone(self.param_groups, None)
        device = self.param_groups[0]["params"][0].device
        problem.move(*to_device(mine["iterate"], device))
        self.is_started = mine["is_started"]
        mean = to_device(mine["mean"], device)
        self.mean, self.mean_weight = (mean[0], mean[1]) if mean else None, mine["mean_weight"]
        self.skipped, self.skipped_in_a_row = mine["skipped"]
        problem.evaluations = mine["evaluations"]
        self.kept = to_device(mine["kept"], device)
        for estimator, saved in zip(estimators(self.gradients), mine["gradients"], strict=True):
            estimator.load(to_device(saved, device))

    def stats(self) -> dict[str, Tensor | float]:
        found: dict[str, Tensor | float] = {f"train/{name}": value for name, value in self.info.items()}
        if self.problem is not None:
            found["train/function_evals"] = float(self.problem.evaluations)
        if self.skipped:
            found["train/skipped"] = float(self.skipped)
        return found


def estimators(first: GradientEstimator) -> Iterator[GradientEstimator]:
    """An estimator and all that it stands on."""
    yield first
    for inner in first.nested():
        yield from estimators(inner)


def to_device(value: Any, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: to_device(child, device) for key, child in value.items()}
    return [to_device(child, device) for child in value] if isinstance(value, list) else value
