"""Every minimax task: automatic differentiation agrees with differences of its values along the axes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("bilinear", {"mu_w": 0.5, "mu_v": 0.2}, {"targets": "noise"}),
    ("quadratic_game", {}, {"targets": "noise"}),
    ("auc_saddle", {}, {}),
    ("robust_regression", {"budget": 0.5}, {"targets": "number"}),
    ("robust_regression", {"loss": "huber", "v_scope": "sample"}, {"targets": "number"}),
    ("adversarial_logistic", {"v_scope": "sample", "epsilon": 0.5}, {}),
    ("adversarial_logistic", {"norm": "linf"}, {}),
    ("dro", {}, {"outputs": 2}),
    ("dro", {"groups": "y", "divergence": "kl"}, {"outputs": 2}),
    ("poisoning", {"fraction": 0.3}, {"outputs": 2}),
]


@pytest.mark.parametrize(("name", "arguments", "kind"), CASES)
def test_gradients_equal_central_differences(
    name: str, arguments: dict[str, Any], kind: dict[str, Any], game: Any
) -> None:
    found = game(name, arguments, **kind)
    w, v = found.flat.read()
    exact = torch.func.grad(found.mean_at, argnums=(0, 1))(w, v)
    step = 1e-5
    for player, (gradient, point) in enumerate(zip(exact, (w, v), strict=True)):
        axes = step * torch.eye(len(point), dtype=point.dtype)
        for sign, rows in ((1, point + axes), (-1, point - axes)):
            points = (rows, v.unsqueeze(0)) if player == 0 else (w.unsqueeze(0), rows)
            means = found.flat.values(*points, found.batch).mean(1)
            gradient = gradient - sign * means / (2 * step)
        assert float(gradient.abs().max()) < 1e-6
    assert float(exact[0].abs().max()) > 1e-3 and float(exact[1].abs().max()) > 1e-4  # both players have a say


@pytest.mark.parametrize(("name", "arguments", "kind"), CASES)
def test_gradients_of_examples_average_to_the_gradient(
    name: str, arguments: dict[str, Any], kind: dict[str, Any], game: Any
) -> None:
    found = game(name, arguments, **kind)
    w, v = found.flat.read()
    exact = torch.func.grad(found.mean_at, argnums=(0, 1))(w, v)
    for whole, each in zip(exact, found.flat.sample_gradients(w, v, found.batch), strict=True):
        torch.testing.assert_close(each.mean(0), whole, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "arguments", "kind"),
    [
        ("quadratic_game", {}, {"targets": "noise"}),
        ("auc_saddle", {}, {}),
        ("robust_regression", {"budget": 0.4, "radius_w": 2.0}, {"targets": "number"}),
        ("robust_regression", {"budget": 0.4, "reg_v": 9.0, "v_scope": "sample"}, {"targets": "number"}),
        ("robust_regression", {"loss": "huber", "reg_v": 4.0, "v_scope": "sample"}, {"targets": "number"}),
        ("adversarial_logistic", {"v_scope": "sample", "epsilon": 0.5, "reg_v": 0.5}, {}),
        ("adversarial_logistic", {"v_scope": "sample", "epsilon": 0.5, "reg_v": 0.0}, {}),
        ("adversarial_logistic", {"v_scope": "sample", "epsilon": 0.5, "norm": "linf", "reg_v": 0.5}, {}),
        ("adversarial_logistic", {"v_scope": "sample", "epsilon": 0.5, "norm": "linf", "reg_v": 0.0}, {}),
        ("dro", {}, {"outputs": 2}),
        ("dro", {"groups": "y"}, {"outputs": 2}),
        ("dro", {"groups": "y", "divergence": "kl"}, {"outputs": 2}),
    ],
)
def test_no_other_allowed_v_is_worse_than_the_best_response(
    name: str, arguments: dict[str, Any], kind: dict[str, Any], game: Any
) -> None:
    found = game(name, arguments, **kind)
    w, _ = found.flat.read()
    best = found.task.best_response(found.saddle, found.batch)
    torch.testing.assert_close(found.task.project(found.saddle, w, best)[1], best, rtol=1e-9, atol=1e-11)
    value = float(found.mean_at(w, best))
    generator = torch.Generator().manual_seed(0)
    for size in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(25):
            other = best + size * torch.randn(best.shape, dtype=best.dtype, generator=generator)
            assert float(found.mean_at(w, found.task.project(found.saddle, w, other)[1])) <= value + 1e-10
