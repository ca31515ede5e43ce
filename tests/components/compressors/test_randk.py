"""Random-k."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from raycipe.framework.contracts import Draw
from raycipe.framework.registry import build, make


def test_one_of_each_block_is_kept_and_its_place_is_a_seed(send: Any) -> None:
    vector = torch.arange(1.0, 1001)
    out, residual, count = send({"type": "randk", "ratio": 0.1, "value_dtype": "fp32"}, vector)
    assert ((out != 0).view(100, 10).sum(1) == 1).all()
    assert torch.equal(out + residual, vector) and ((out == 0) | (out == vector)).all()
    assert count == 24 + 8 + 4 * 100


def test_the_residual_of_equal_entries_is_exact(send: Any) -> None:
    _, residual, _ = send({"type": "randk", "ratio": 0.1}, torch.ones(1000))
    assert residual.square().sum().item() == 900


def test_scaled_it_is_unbiased_also_in_the_short_last_block(send: Any) -> None:
    vector = torch.linspace(1, 2, 25, dtype=torch.float64)
    recipe = {"type": "randk", "ratio": 0.1, "scaled": True, "value_dtype": "fp32"}
    draws = torch.stack([send(recipe, vector, Draw(3, step=step))[0] for step in range(300)])
    error = (draws.mean(0) - vector) / (draws.std(0) / 300**0.5)
    assert error.abs().max() < 3.5, "within three and a half errors, the largest of 25"
    assert (draws[:, 20:].amax(1) <= 5 * 2.0).all()


def test_shared_draws_are_equal_on_all_ranks_and_others_are_not(send: Any) -> None:
    vector = torch.arange(1.0, 1001)
    for shared in (True, False):
        recipe = {"type": "randk", "ratio": 0.1, "shared": shared}
        a, b = (send(recipe, vector, Draw(3, rank=rank, step=5))[0] for rank in (0, 1))
        assert torch.equal(a, b) == shared


@pytest.mark.parametrize(("ratio", "size"), [(0.3, 3), (0.7, 1), (0.01, 100)])
def test_ratios_move_to_the_nearest_share_with_a_warning(ratio: float, size: int) -> None:
    compressor = make("compressors/randk", ratio=ratio)
    if ratio == 0.01:
        plan = compressor.plan(1000)
    else:
        with pytest.warns(UserWarning, match=f"randk keeps one of {size} entries, a share of"):
            plan = compressor.plan(1000)
    assert plan.layout.size == size


def test_factors_of_contraction() -> None:
    plain, scaled = make("compressors/randk", ratio=0.1), make("compressors/randk", ratio=0.1, scaled=True)
    assert (plain.alpha(plain.plan(1000)), plain.omega(plain.plan(1000))) == (0.1, None)
    assert (scaled.alpha(scaled.plan(1000)), scaled.omega(scaled.plan(1000))) == (None, 9)


@pytest.mark.parametrize("alpha", [0.5, 0.3, 0.15, 1.0])
def test_matching_reaches_any_factor(alpha: float) -> None:
    compressor = build(make("compressors/randk").match(alpha, 1200), "compressors")
    assert compressor.alpha(compressor.plan(1200)) == pytest.approx(alpha)
