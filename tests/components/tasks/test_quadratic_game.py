"""quadratic_game: its matrices and saddles."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from raycipe.framework.registry import make


def test_curvatures_are_as_asked() -> None:
    a, b, c = make("tasks/quadratic_game", smoothness=2.0, strength=0.1).matrices(8)
    for symmetric in (a, c):
        values = torch.linalg.eigvalsh(symmetric)
        assert float(values[0]) == pytest.approx(0.1) and float(values[-1]) == pytest.approx(2.0)
    assert float(torch.linalg.matrix_norm(b, ord=2)) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="strength: the least curvature can't be above the largest"):
        make("tasks/quadratic_game", strength=3.0)


def test_no_player_has_a_gradient_at_the_empirical_saddle(game: Any) -> None:
    found = game("quadratic_game", {}, targets="noise")
    w, v = found.task.saddle_of(found.batch["x"], found.batch["y"])
    for gradient in torch.func.grad(found.mean_at, argnums=(0, 1))(w, v):
        assert float(gradient.abs().max()) < 1e-7  # the noise is float32


def test_primal_risk_of_the_population_is_the_value_at_the_best_response(game: Any) -> None:
    found = game("quadratic_game", {}, targets="noise")
    quiet = {key: values * 0 for key, values in found.batch.items()}
    w, _ = found.flat.read()
    best = found.task.best_response(found.saddle, quiet)
    risk, optimum = found.task.population(found.saddle, {})
    assert risk == pytest.approx(float(found.flat.value(w, best, quiet).mean())) and optimum == 0.0
