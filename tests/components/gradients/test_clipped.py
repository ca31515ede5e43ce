"""clipped: lengths, biases, and what is not finite."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from raycipe.components.gradients._clip import clip, clip_together
from raycipe.components.gradients.clipped import Clipped
from raycipe.components.gradients.exact import Exact
from raycipe.framework.registry import make


def test_long_gradients_keep_their_direction_and_short_ones_stay() -> None:
    g = torch.tensor([3.0, 4.0], dtype=torch.float64)
    short, was_cut = clip(g, 2.0)
    torch.testing.assert_close(short, g * 0.4)
    assert bool(was_cut) and torch.equal(clip(g / 5, 2.0)[0], g / 5) and torch.equal(clip(0 * g, 2.0)[0], 0 * g)


def test_clipping_never_moves_two_gradients_apart() -> None:
    a, b = (4 * torch.randn(10_000, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(s)) for s in (0, 1))
    assert bool(((clip(a, 2.0)[0] - clip(b, 2.0)[0]).norm(dim=1) <= (a - b).norm(dim=1) + 1e-12).all())


def test_bias_on_rare_large_gradients_obeys_its_bound() -> None:
    """g = 10 with probability 0.1, else 0: E clip(g) = 0.2, bias 0.8 <= sigma² / (4 tau) = 1.25."""
    g = torch.tensor([10.0] + [0.0] * 9, dtype=torch.float64).unsqueeze(1)
    mean = float(clip(g, 2.0)[0].mean())
    assert mean == pytest.approx(0.2) and 1.0 - mean <= float(g.square().mean()) / (4 * 2.0)


def test_infinity_becomes_no_unit_vector() -> None:
    assert bool(clip(torch.tensor([float("inf"), 1.0]), 2.0)[0].isnan().any())


def test_joint_clipping_shrinks_the_small_player_with_the_large_one() -> None:
    _, v, cut = clip_together(torch.tensor([30.0, 40.0]), torch.tensor([1.0]), 5.0)
    assert float(v) == pytest.approx(0.1, rel=1e-3) and bool(cut)


def test_each_example_is_cut_before_the_mean(problem: Any) -> None:
    found = problem("bilinear", {}, dim=3, noise=5.0)
    w, v = found.point()
    per_w, per_v = found.sample_gradients(w, v)
    estimate = Clipped(tau=1.0, scope="sample", base=Exact()).estimate(found, w, v)
    torch.testing.assert_close(estimate.w, clip(per_w, 1.0)[0].mean(0))
    torch.testing.assert_close(estimate.v, clip(per_v, 1.0)[0].mean(0))
    assert float(estimate.info["clip_w"]) == pytest.approx(float(clip(per_w, 1.0)[1].double().mean()))
    player = Clipped(tau=1.0, base=Exact()).estimate(found, w, v)
    assert not torch.allclose(player.w, estimate.w)  # clip after averaging is another estimator


def test_automatic_tau_is_the_root_of_the_second_moment_times_root_n(problem: Any) -> None:
    found = problem("bilinear", {}, dim=3)
    estimator = Clipped(tau_c=0.5, base=Exact())
    estimator.prepare(found)
    both = torch.cat(found.sample_gradients(*found.point()), dim=1)
    assert float(estimator.limit) == pytest.approx(0.5 * float(both.square().sum(1).mean()) ** 0.5 * 10**0.5)
    other = Clipped(base=Exact())
    other.load(estimator.state())
    assert torch.equal(other.limit, estimator.limit)
    fixed = Clipped(sigma=2.0, base=Exact())
    fixed.prepare(found)
    assert fixed.limit == pytest.approx(2 * 10**0.5)


def test_clipping_each_example_takes_exact_gradients_only() -> None:
    with pytest.raises(ValueError, match="scope: sample clips each example's exact gradient"):
        make("gradients/clipped", scope="sample", base={"type": "zeroth_order"})
