"""The measures of minimax risks, of biased estimators and of rankings, against known values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from raycipe.components.measures._risks import minimize
from raycipe.components.measures.auc_score import auc
from raycipe.framework.contracts import Skipped, TensorSplit, Trained
from raycipe.framework.registry import build, make
from raycipe.framework.training.players import FlatPlayers


def quadratic(optimizer: dict[str, Any] | None = None, at: Any = None) -> tuple[Trained, FlatPlayers]:
    """A quadratic game of 50 noisy examples at a given point."""
    data = make("data/player_noise", examples=50, dim=3)
    splits = {"train": data.load(0)["train"], "test": data.load(1)["train"]}
    task = make("tasks/quadratic_game", strength=0.3)
    saddle = task.trained(make("models/point", dim=3, start=1.0), splits)
    flat = FlatPlayers(task, saddle)
    if at is not None:
        flat.write(*at(task, splits))
    recipe = {"seed": 0, "optimizer": optimizer or {"type": "sgda"}, "train": {"batch_size": 1}}
    return Trained(recipe=recipe, splits=splits, facts=data.facts, model=saddle, task=task), flat


def test_no_duality_gap_at_the_saddle_and_one_beside_it() -> None:
    at_saddle, _ = quadratic(at=lambda task, splits: task.saddle_of(*splits["train"].tensors.values()))
    beside, _ = quadratic()
    assert make("measures/duality_gap_empirical").measure(at_saddle).values["gap"] == pytest.approx(0, abs=1e-10)
    found = make("measures/duality_gap_empirical").measure(beside).values
    assert found["gap"] > 0.1 and found["gap"] == pytest.approx(found["worst"] - found["best"])


def test_duality_gap_is_that_of_the_closed_solutions() -> None:
    run, flat = quadratic()
    x, y = (values.double().mean(0) for values in run.splits["train"].tensors.values())  # type: ignore[attr-defined]
    a, b, c = run.task.matrices(3)  # type: ignore[union-attr]
    w, v = flat.read()
    best_v = torch.linalg.solve(c, b.T @ w - y)
    best_w = torch.linalg.solve(a, -(b @ v + x))
    worst = w @ a @ w / 2 + w @ b @ best_v - best_v @ c @ best_v / 2 + x @ w - y @ best_v
    best = best_w @ a @ best_w / 2 + best_w @ b @ v - v @ c @ v / 2 + x @ best_w - y @ v
    found = make("measures/duality_gap_empirical").measure(run).values
    assert found["gap"] == pytest.approx(float(worst - best), abs=1e-8)


def test_weak_gap_compares_held_out_with_training_examples() -> None:
    run, _ = quadratic(at=lambda task, splits: task.saddle_of(*splits["train"].tensors.values()))
    found = make("measures/weak_pd_gap").measure(run).values
    assert found["empirical"] == pytest.approx(0, abs=1e-10) and found["generalization"] > 0


def test_primal_gap_takes_the_population_s_law_or_the_test_split() -> None:
    run, _ = quadratic(at=lambda task, splits: task.saddle_of(*splits["train"].tensors.values()))
    law = make("measures/primal_gap").measure(run).values
    split = make("measures/primal_gap", population="test").measure(run).values
    assert law["gap"] > 0 and split["empirical_risk"] == law["empirical_risk"]
    assert split["population_risk"] != law["population_risk"]
    assert law["population_risk"] == run.task.population(run.model, {})[0]  # type: ignore[union-attr,arg-type]


def test_excess_risk_of_repetitions_stands_beside_that_of_the_run() -> None:
    recipe: dict[str, Any] = {
        "seed": 3,
        "data": {"type": "gauss_auc", "examples": 50, "test": 20, "dim": 4},
        "model": {"type": "linear", "num_outputs": 1, "bias": False, "zero_init": True},
        "task": {"type": "auc_saddle"},
        "optimizer": {"type": "sgda", "lr": 1.0, "schedule": "theory"},
        "train": {"epochs": 2, "batch_size": 1},
    }
    data = build(recipe["data"], "data")
    splits, task = data.load(3), build(recipe["task"], "tasks")
    saddle = task.trained(build(recipe["model"], "models", facts=data.facts), splits)
    run = Trained(recipe=recipe, splits=splits, facts=data.facts, model=saddle, task=task, seed=3)
    alone = make("measures/excess_primal_risk", seeds=1).measure(run).values
    found = make("measures/excess_primal_risk", seeds=4, points=3).measure(run)
    start, best = task.population(saddle, data.facts)
    assert alone == {"excess": pytest.approx(start - best)}
    assert found.values["mean_excess"] < alone["excess"] and found.values["standard_error"] > 0
    with pytest.raises(Skipped, match="the law of these data"):
        run.facts = {}
        make("measures/excess_primal_risk").measure(run)


def test_inner_solutions_respect_bounds() -> None:
    inside = lambda x: x.clamp(-1, 1)  # noqa: E731
    target = torch.tensor([3.0, 0.5], dtype=torch.float64)
    scale = torch.tensor([1.0, 100.0], dtype=torch.float64)
    found = minimize(lambda x: (scale * (x - target).square()).sum(), torch.zeros(2, dtype=torch.float64), inside)
    torch.testing.assert_close(found, torch.tensor([1.0, 0.5], dtype=torch.float64))


def test_bias_of_clipping_is_that_of_the_distribution() -> None:
    """v's gradient is -y: 10 for one example of ten, else 0, clipped at 2: mean 0.2 instead of 1."""
    y = torch.tensor([[-10.0]] + [[0.0]] * 9)
    splits = {"train": TensorSplit({"x": torch.zeros(10, 1), "y": y})}
    task = make("tasks/bilinear", matrix=[[0.0]])
    saddle = task.trained(make("models/point", dim=1, start=0.0), splits)
    optimizer = {"type": "clipped_sgda", "tau": 2.0, "lr": 0.1}
    run = Trained(recipe={"optimizer": optimizer, "train": {"batch_size": 1}}, splits=splits, model=saddle, task=task)
    found = make("measures/estimator_bias", draws=4000).measure(run).values
    assert found["bias_v"] == pytest.approx(0.8, abs=3 * found["bias_floor"]) and found["bias_w"] == 0
    assert found["second_moment_ratio"] == pytest.approx(0.04) and found["clip_fraction"] == pytest.approx(
        0.05, abs=0.01
    )
    assert found["lipschitz_ratio"] == pytest.approx(0, abs=1e-9)  # the gradient does not depend on the point


def test_second_moment_of_zeroth_order_is_one_plus_d_over_k() -> None:
    run, _ = quadratic({"type": "zo_sgda", "points": 2, "lr": 0.1})
    found = make("measures/estimator_bias", draws=3000).measure(run).values
    assert found["second_moment_ratio"] == pytest.approx(1 + 4 / 2, rel=0.15)
    assert found["bias"] < 3 * found["bias_floor"]


def test_auc_equals_scikit_learn_s_with_ties() -> None:
    generator = np.random.default_rng(0)
    scores, positive = generator.integers(0, 8, size=300), generator.random(300) < 0.3
    wanted = roc_auc_score(positive, scores)
    assert auc(torch.from_numpy(scores), torch.from_numpy(positive)) == pytest.approx(wanted, abs=1e-12)
