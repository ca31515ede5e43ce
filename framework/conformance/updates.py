"""Promises of optimizers, schedules and measures."""

from __future__ import annotations

import copy
import io
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from raycipe.framework.comm import LocalComm
from raycipe.framework.conformance.example import SEED, Example, cast
from raycipe.framework.conformance.players import stand_in
from raycipe.framework.contracts import Measured, Optimizer, OptimizerRun, Trained
from raycipe.framework.registry import build
from raycipe.framework.tables import roles_of, tables

STEPS = 3

# ---------------------------------------------------------------------------------------------- optimizers


class _Run:
    """A few steps on one batch, as the training loop takes them."""

    def __init__(self, example: Example, dtype: torch.dtype = torch.float32) -> None:
        self.task, self.model = example.task(), example.trained_model().to(dtype)
        self.batch = cast(example.batch(), dtype)
        self.optimizer = example.optimizer(self.model)
        self.taken = 0
        self.problem = stand_in(self.task, self.model, self.optimizer, self.batch, example.splits)
        self.optimizer.prepare(OptimizerRun(100, LocalComm(), 0, evaluate=self.loss, problem=self.problem))

    def loss(self) -> Tensor:
        self.optimizer.zero_grad()
        value = self.task.loss(self.model, self.batch).value
        value.backward()  # type: ignore[no-untyped-call]
        return value.detach()

    def steps(self, count: int) -> list[float]:
        losses = []
        for _ in range(count):
            losses.append(float(self.loss()))
            if self.problem is not None:
                self.problem.begin(self.taken)
            self.optimizer.step()
            self.taken += 1
        return losses

    def gradient_norm(self) -> float:
        self.loss()
        return math.sqrt(sum(float(p.grad.square().sum()) for p in self.model.parameters() if p.grad is not None))


def steps_lower_the_loss(example: Example) -> None:
    """On one batch, in float32 and in float64. In a minimax problem the gradient of both players gets smaller."""
    for dtype in (torch.float32, torch.float64):
        run = _Run(example, dtype)
        if run.task.saddle:
            before = run.gradient_norm()
            run.steps(30)
            after = run.gradient_norm()
            assert after < before, f"{dtype}: the gradient's norm goes from {before} to {after}"
            continue
        losses = run.steps(30)
        assert all(map(math.isfinite, losses)) and losses[-1] < losses[0], f"{dtype}: {losses[0]} -> {losses[-1]}"


def restored_state_continues_bit_for_bit(example: Example) -> None:
    """State goes through torch.save and a load that executes nothing; then all later steps are equal."""
    unbroken, resumed = _Run(example), _Run(example)
    unbroken.steps(STEPS)
    parts = [unbroken.model.state_dict(), unbroken.optimizer.state_dict(), unbroken.optimizer.rank_state_dict()]
    weights, common, mine = _through_file(parts)
    resumed.model.load_state_dict(weights)
    resumed.optimizer.load_state_dict(common)
    resumed.optimizer.load_rank_state(mine, [mine])
    resumed.taken = STEPS
    assert unbroken.steps(STEPS) == resumed.steps(STEPS), "losses differ after a restore"
    for a, b in zip(unbroken.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(a, b), "weights differ after a restore"


def consensus_gives_weights_back(example: Example) -> None:
    run = _Run(example)
    run.steps(STEPS)
    before = copy.deepcopy(run.model.state_dict())
    with run.optimizer.consensus():
        pass
    assert all(torch.equal(before[name], values) for name, values in run.model.state_dict().items())


def parameters_may_be_a_generator_or_groups(example: Example) -> None:
    model = example.model()
    groups: list[Any] = [{"params": [p], "lr": 0.125} for p in model.parameters()]
    for params in (iter(list(model.parameters())), groups):
        optimizer: Optimizer = build(example.recipe["optimizer"], "optimizers", "optimizer", {"params": params})
        count = sum(len(group["params"]) for group in optimizer.param_groups)
        assert count == len(list(model.parameters())), "some parameters were lost"
    assert all(group["lr"] == 0.125 for group in optimizer.param_groups), "a group's own lr is ignored"


def _through_file(value: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


# ---------------------------------------------------------------------------------------------- schedules, measures


def factor_is_pure_and_finite(example: Example) -> None:
    """Equal in any order of calls, never negative, for runs of any length."""
    schedule = example.make()
    for total in (1, 2, 7, 1000):
        steps = range(min(total, 1000))
        forward = [schedule.factor(step, total) for step in steps]
        backward = [schedule.factor(step, total) for step in reversed(steps)][::-1]
        assert forward == backward, "the factor depends on earlier calls"
        assert all(isinstance(f, (int, float)) and math.isfinite(f) and f >= 0 for f in forward), f"{total}: {forward}"
        assert max(forward) > 0, f"a run of {total} steps would learn nothing"


def measure_leaves_everything_as_it_was(example: Example) -> None:
    """Weights, modes and random state untouched; equal at a second call; finite values under declared names."""
    if "estimator" in example.recipe:
        _measures_an_estimator(example)
        return
    model, start = example.trained_model().eval(), example.trained_model(9)
    trained = Trained(
        recipe=example.recipe,
        splits=example.splits,
        facts=example.facts,
        model=model,
        initial_model=lambda: copy.deepcopy(start),
        task=example.task(),
        step=30,
        rows=[{"step": step, "train/accuracy": step / 30, "val/accuracy": step / 40} for step in (10, 20, 30)],
    )
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    found = example.make().measure(trained)
    assert torch.equal(state, torch.get_rng_state()), "draws global random numbers"
    assert not model.training and all(torch.equal(before[k], v) for k, v in model.state_dict().items()), "model changed"
    _found_again(example, trained, found)


def _measures_an_estimator(example: Example) -> None:
    """Of a fitted estimator the predictions stay."""
    found = tables(example.splits)
    train = found["train"]
    estimator = build(example.recipe["estimator"], "estimators", "estimator", {"seed": SEED}, example.facts)
    estimator.fit(train["X"], train["y"], **roles_of(train))
    trained = Trained(recipe=example.recipe, splits=example.splits, facts=example.facts, estimator=estimator)
    before, state = estimator.predict(train["X"]), torch.get_rng_state()
    measured = example.make().measure(trained)
    assert torch.equal(state, torch.get_rng_state()), "draws global random numbers"
    assert np.array_equal(before, estimator.predict(train["X"])), "the estimator changed"
    _found_again(example, trained, measured)


def _found_again(example: Example, trained: Trained, found: Measured) -> None:
    trained.cache.clear()
    assert example.make().measure(trained).values == found.values, "a second measurement differs"
    assert found.values and all(isinstance(v, float) and math.isfinite(v) for v in found.values.values()), found.values
    reports = getattr(example.cls, "reports", ())
    assert not reports or set(found.values) <= set(reports), f"{sorted(set(found.values) - set(reports))} not declared"
    for rows in found.tables.values():
        assert all(row.keys() == rows[0].keys() for row in rows), "rows of one table have different columns"
    for draw in found.figures.values():
        draw().savefig(io.BytesIO(), format="png")


OPTIMIZERS = (
    steps_lower_the_loss,
    restored_state_continues_bit_for_bit,
    consensus_gives_weights_back,
    parameters_may_be_a_generator_or_groups,
)
SCHEDULES = (factor_is_pure_and_finite,)
GRADIENTS = (steps_lower_the_loss, restored_state_continues_bit_for_bit)
MEASURES = (measure_leaves_everything_as_it_was,)
