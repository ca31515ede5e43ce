"""Pseudo-outcomes by hand, and which losses forgive errors of their nuisances."""

from __future__ import annotations

import numpy as np
import pytest

from raycipe.components.losses._rows import Huber, Quadratic, Ratio
from raycipe.framework.contracts import RowLoss, Sample
from raycipe.framework.registry import make

SAMPLE = Sample(X=np.zeros((2, 1)), y=np.array([3.0, 0.0]), treatment=np.array([1.0, 0.0]))
ETA = {"e": np.full(2, 0.25), "m0": np.ones(2), "m1": np.full(2, 2.0)}


@pytest.mark.parametrize(
    "loss, w, w_phi",
    [
        ({"type": "dr"}, [1, 1], [5.0, 7 / 3]),
        ({"type": "ipw"}, [1, 1], [12.0, 0.0]),
        ({"type": "ra"}, [1, 1], [1.0, 1.0]),
        ({"type": "ra", "variant": "imputed"}, [1, 1], [2.0, 2.0]),
        ({"type": "r"}, [0.5625, 0.0625], [1.3125, 0.3125]),
        ({"type": "u"}, [1, 1], [7 / 3, 5.0]),
    ],
)
def test_pseudo_outcomes_are_those_by_hand(loss: dict[str, str], w: list[float], w_phi: list[float]) -> None:
    """e = .25, m0 = 1, m1 = 2, so E[Y|x] = 1.25; rows (A=1, Y=3) and (A=0, Y=0)."""
    arguments = {name: value for name, value in loss.items() if name != "type"}
    rows = make(f"losses/{loss['type']}", **arguments).row_loss(SAMPLE, ETA)
    np.testing.assert_allclose(rows.w, w, atol=1e-12)
    np.testing.assert_allclose(rows.w_phi, w_phi, atol=1e-12)


def test_normalized_ipw_is_the_difference_of_weighted_means() -> None:
    sample = Sample(np.zeros((4, 1)), np.array([1.0, 2.0, 3.0, 5.0]), np.array([1.0, 0.0, 1.0, 0.0]))
    eta = {"e": np.array([0.2, 0.3, 0.6, 0.5])}
    rows = make("losses/ipw", normalize=True).row_loss(sample, eta)
    treated = (1 / 0.2 * 1 + 1 / 0.6 * 3) / (1 / 0.2 + 1 / 0.6)
    control = (2 / 0.7 + 5 / 0.5) / (1 / 0.7 + 1 / 0.5)
    assert rows.w_phi.mean() == pytest.approx(treated - control)
    shifted = Sample(sample.X, sample.y + 100.0, sample.treatment)
    again = make("losses/ipw", normalize=True).row_loss(shifted, eta)
    np.testing.assert_allclose(again.w_phi, rows.w_phi, atol=1e-9)


@pytest.mark.parametrize(
    "loss",
    [
        Quadratic(np.array([0.5, 2.0, 1.0]), np.array([1.0, -1.0, 0.3])),
        Huber(np.array([0.5, 4.0, -3.0]), 1.2),
        Ratio(np.array([1.0, 0.2, 3.0]), np.array([2.0, 1.0, 0.1])),
    ],
    ids=["quadratic", "huber", "ratio"],
)
def test_slopes_and_curvatures_are_derivatives(loss: RowLoss) -> None:
    g, h = np.array([0.3, -0.2, 0.1]), 1e-5
    np.testing.assert_allclose(loss.slope(g), (loss.value(g + h) - loss.value(g - h)) / (2 * h), rtol=1e-6)
    np.testing.assert_allclose(loss.curvature(g), (loss.slope(g + h) - loss.slope(g - h)) / (2 * h), atol=1e-6)
    weights = np.array([2.0, 0.0, 1.0])
    np.testing.assert_allclose(loss.weighted(weights).value(g), weights * loss.value(g))


# ---------------------------------------------------------------------------------------------- orthogonality


def _moments(t: float, loss: str, direction: str) -> float:
    """E[phi] (of `r`: E[r_A (r_Y - tau r_A)]) in dgp2 with one nuisance moved by t, by 80 x 80 quadrature over x.

    The score is linear in Y given A, so its expectation is that with Y's conditional mean.
    """
    from raycipe.components.data import _dgps as dgps

    world = dgps.WORLDS["dgp2"]
    x, weight = dgps.nodes(world)
    e, m0, tau = world.e(x), world.f(x), world.tau(x)
    m1 = m0 + tau
    logit = np.log(e / (1 - e)) + (t * (x[:, 0] + 0.5) if direction == "e" else 0.0)
    eta = {
        "e": 1 / (1 + np.exp(-logit)),
        "m0": m0 + (t * (1 + x[:, 0]) if direction == "m0" else 0.0),
        "m1": m1 + (t * (x[:, 1] - 0.5) if direction == "m1" else 0.0),
    }
    total = 0.0
    for a, mean, share in ((1.0, m1, e), (0.0, m0, 1 - e)):
        arm = np.full(len(x), a)
        if loss == "r":
            m = e * m1 + (1 - e) * m0 + (t * (1 + x[:, 0]) if direction == "m" else 0.0)
            r_a = arm - eta["e"]
            value = r_a * ((mean - m) - tau * r_a)
        else:
            name, _, variant = loss.partition(" ")
            made = make(f"losses/{name}", **({"variant": variant} if variant else {}))
            value = made.row_loss(Sample(x, mean, arm), eta).w_phi
        total += float((weight * share) @ value)
    return total


@pytest.mark.parametrize(
    "loss, direction, wanted",
    [
        *[("dr", direction, 0.0) for direction in ("e", "m0", "m1")],
        *[("r", direction, 0.0) for direction in ("e", "m")],
        ("ipw", "e", -1.3428),
        ("ra plugin", "m0", -1.0),
        ("ra plugin", "m1", -0.5),
        ("ra imputed", "m0", -0.6123),
        ("ra imputed", "m1", -0.1377),
    ],
)
def test_orthogonal_losses_do_not_feel_small_errors_of_their_nuisances(
    loss: str, direction: str, wanted: float
) -> None:
    h = 1e-4
    slope = (_moments(h, loss, direction) - _moments(-h, loss, direction)) / (2 * h)
    assert slope == pytest.approx(wanted, abs=1e-7 if wanted == 0 else 1e-3)
