"""Posteriors against closed forms and against each other."""

from __future__ import annotations

import numpy as np
import pytest

from raycipe.components.calibrations import _rates as rates
from raycipe.components.losses._rows import Huber, Quadratic
from raycipe.components.priors._densities import Normal, Whitened
from raycipe.framework.contracts import Evidence, GeneralizedPosterior, RowLoss
from raycipe.framework.registry import make

PHI = np.array([1.0, 2.0, 3.0, 4.0])


def scalar(sd: float, omega: float = 0.6, mean: float = 0.0, loss: RowLoss | None = None) -> GeneralizedPosterior:
    rows = Quadratic(np.ones(4), PHI) if loss is None else loss
    return GeneralizedPosterior(rows, np.ones((4, 1)), np.zeros(4), Normal(1, mean, sd), omega)


def evidence(problem: GeneralizedPosterior) -> Evidence:
    return Evidence(problem, problem.density.size > 1, True, None, 0, 0.95, 1.0, lambda w, a: problem.loss.weighted(w))


def regression(p: int = 6, n: int = 300) -> GeneralizedPosterior:
    generator = np.random.default_rng(3)
    basis = generator.normal(size=(n, p))
    w = generator.uniform(0.5, 1.5, n)
    phi = basis @ generator.normal(size=p) + generator.normal(size=n)
    return GeneralizedPosterior(Quadratic(w, w * phi), basis, np.zeros(n), Whitened(p, lambda z: z), 0.7)


def test_the_sandwich_rate_is_one_over_the_variance() -> None:
    assert make("calibrations/sandwich").rate(evidence(scalar(1.0))).omega == pytest.approx(0.6)


@pytest.mark.parametrize("sd, mean, variance", [(1.0, 1.764706, 0.294118), (1e6, 2.5, 0.416667)])
def test_the_scalar_posterior_is_that_by_hand(sd: float, mean: float, variance: float) -> None:
    found = make("posteriors/conjugate").solve(scalar(sd), 100, 0)
    assert found.covariance is not None
    assert found.mean[0] == pytest.approx(mean, abs=1e-6) and found.covariance[0, 0] == pytest.approx(
        variance, abs=1e-6
    )


def test_a_firm_prior_stays_where_it_is() -> None:
    assert make("posteriors/conjugate").solve(scalar(1e-6, mean=7.0), 100, 0).mean[0] == pytest.approx(7.0, abs=1e-6)


def test_a_grid_agrees_with_the_closed_form() -> None:
    exact, found = (make(f"posteriors/{type_}").solve(scalar(1.0), 20000, 0) for type_ in ("conjugate", "grid"))
    assert exact.covariance is not None
    assert found.mean[0] == pytest.approx(exact.mean[0], abs=1e-6)
    assert found.draws.var() == pytest.approx(exact.covariance[0, 0], rel=1e-3)


def test_laplaces_approximation_is_exact_for_a_normal_posterior() -> None:
    problem = regression()
    exact, found = (make(f"posteriors/{type_}").solve(problem, 100, 0) for type_ in ("conjugate", "laplace"))
    np.testing.assert_allclose(found.mean, exact.mean, atol=1e-10)
    np.testing.assert_allclose(found.covariance, exact.covariance, atol=1e-10)


def test_the_mode_of_a_huber_loss_has_no_gradient() -> None:
    generator = np.random.default_rng(0)
    phi = generator.standard_t(2, size=200)
    problem = GeneralizedPosterior(Huber(phi, 1.0), np.ones((200, 1)), np.zeros(200), Normal(1, 0.0, 10.0), 0.5)
    found = make("posteriors/laplace").solve(problem, 100, 0)
    assert abs(problem.gradient(found.mean)[0]) < 1e-6
    on_grid = make("posteriors/grid").solve(problem, 5000, 0)
    assert found.mean[0] == pytest.approx(on_grid.mean[0], abs=0.02)


def test_no_closed_form_says_what_to_take() -> None:
    with pytest.raises(ValueError, match=r"posterior: .*not quadratic: take grid, laplace or nuts"):
        make("posteriors/conjugate").solve(scalar(1.0, loss=Huber(PHI, 1.0)), 100, 0)


def test_a_spike_gets_the_mass_that_bayes_gives_it() -> None:
    """phi_bar ~ N(theta, 1 / (n omega)): the two marginal densities at it are normal."""
    from scipy import stats

    density = make("priors/spike_slab", w0=0.3, sd=2.0).bind(np.ones((4, 1)), PHI, 0)
    phi = PHI - 2.0
    problem = GeneralizedPosterior(Quadratic(np.ones(4), phi), np.ones((4, 1)), np.zeros(4), density, 0.6)
    found = make("posteriors/grid").solve(problem, 10000, 0)
    variance = 1 / (4 * 0.6)
    nothing = 0.3 * stats.norm.pdf(phi.mean(), 0, np.sqrt(variance))
    something = 0.7 * stats.norm.pdf(phi.mean(), 0, np.sqrt(variance + 4.0))
    spike = nothing / (nothing + something)
    assert found.diagnostics["spike"] == pytest.approx(spike, abs=1e-6)
    assert (found.draws == 0).mean() == pytest.approx(spike, abs=1e-3)
    assert found.mean[0] == pytest.approx((1 - spike) * phi.mean() * 4 / (4 + variance), abs=1e-6)


def test_the_robust_covariance_is_the_plain_one_where_the_noise_is_equal_everywhere() -> None:
    generator = np.random.default_rng(1)
    basis = generator.normal(size=(5000, 4))
    phi = basis @ np.ones(4) + generator.normal(size=5000)
    loss = Quadratic(np.ones(5000), phi)
    problem = GeneralizedPosterior(loss, basis, np.zeros(5000), Whitened(4, lambda z: z))
    omega = rates.residual_rate(evidence(problem)).omega
    _, S, robust = rates.robust_covariance(problem.at(omega), None)
    np.testing.assert_allclose(np.diag(robust) / np.diag(S), 1.0, atol=0.15)
    doubled = rates.robust_covariance(problem.at(omega), np.arange(5000) // 2)[2]  # clusters of independent rows
    np.testing.assert_allclose(np.diag(doubled) / np.diag(S), 1.0, atol=0.15)


def test_the_bootstrap_of_a_kept_loss_agrees_with_the_sandwich() -> None:
    generator = np.random.default_rng(2)
    phi = generator.normal(size=400)
    problem = GeneralizedPosterior(
        Quadratic(np.ones(400), phi), np.ones((400, 1)), np.zeros(400), Normal(1, 0.0, 100.0)
    )
    exact = make("calibrations/sandwich").rate(evidence(problem)).omega
    found = make("calibrations/bootstrap", replicates=400).rate(evidence(problem)).omega
    assert found == pytest.approx(exact, rel=0.2)


def test_a_loss_without_variance_is_told() -> None:
    problem = scalar(1.0, loss=Quadratic(np.ones(4), np.ones(4)))
    found = make("calibrations/sandwich").rate(evidence(problem))
    assert "take calibration: bootstrap" in found.warning and np.isfinite(found.omega)


@pytest.mark.parametrize(
    "name, arguments, error, spread",
    [
        ("nuts", {"warmup": 150}, 0.15, 0.1),
        pytest.param("hmc", {"warmup": 150}, 0.15, 0.1, marks=pytest.mark.slow),
        pytest.param("pcn", {"warmup": 500, "thin": 20}, 0.25, 0.15, marks=pytest.mark.slow),
        pytest.param("sgld", {"steps": 8000, "batch_size": 300}, 0.35, 0.2, marks=pytest.mark.slow),
        ("vi", {"steps": 600}, 0.01, 0.15),
    ],
)
def test_samplers_agree_with_the_closed_form(name: str, arguments: dict[str, int], error: float, spread: float) -> None:
    problem = regression(3, 200)
    exact, found = make("posteriors/conjugate").solve(problem, 100, 0), make(f"posteriors/{name}", **arguments)
    seen = found.solve(problem, 1000, 0)
    assert exact.covariance is not None and seen.draws.shape == (1000, 3)
    sd = np.sqrt(np.diag(exact.covariance))
    assert (np.abs(seen.mean - exact.mean) / sd).max() < error
    np.testing.assert_allclose(seen.draws.std(axis=0) / sd, 1.0, atol=spread)
    again = make(f"posteriors/{name}", **arguments).solve(problem, 1000, 0)
    np.testing.assert_array_equal(again.draws, seen.draws)


def test_the_bootstrap_spreads_as_the_sandwich_says() -> None:
    problem = regression(3, 300)
    found = make("posteriors/bootstrap").solve(problem, 1000, 0)
    _, _, robust = rates.robust_covariance(problem, None)
    np.testing.assert_allclose(found.draws.std(axis=0) / np.sqrt(np.diag(robust)), 1.0, atol=0.15)


def test_mixing_is_judged_as_it_is() -> None:
    from raycipe.components.posteriors._chains import mixing

    generator = np.random.default_rng(0)
    independent = generator.normal(size=(4, 500, 1))
    good = mixing(independent)
    assert good["r_hat"] < 1.01 and good["ess_bulk"] > 1500
    apart = independent + np.arange(4)[:, None, None]
    assert mixing(apart)["r_hat"] > 1.5
    walk = np.zeros((4, 4000, 1))
    for step in range(1, 4000):  # autocorrelation .9: 19 draws are worth one
        walk[:, step] = 0.9 * walk[:, step - 1] + np.sqrt(0.19) * generator.normal(size=(4, 1))
    assert mixing(walk)["ess_bulk"] == pytest.approx(16000 / 19, rel=0.3)
