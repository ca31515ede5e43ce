"""QSGD."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from raycipe.components.compressors.qsgd import quantize
from raycipe.framework.contracts import Draw
from raycipe.framework.registry import build, make


@pytest.mark.parametrize(
    ("levels", "variance", "bound"), [(1, 30.6228, 31.62), (2, 14.8114, 15.81), (4, 6.9057, 7.906), (16, 0.9764, 1.976)]
)
def test_variance_on_equal_entries(levels: int, variance: float, bound: float, send: Any) -> None:
    """Exactly (N/s)² sum f (1 - f) / |v|², here for d = 1000 ones in one block; the closed-form bound lies above."""
    vector = torch.ones(1000, dtype=torch.float64)
    norm = math.sqrt(1000)
    f = levels / norm % 1
    assert (norm / levels) ** 2 * f * (1 - f) == pytest.approx(variance, abs=1e-4)
    recipe = {"type": "qsgd", "levels": levels, "block": 1000, "scaled": False}
    compressor = build(recipe, "compressors")
    assert compressor.omega(compressor.plan(1000)) == pytest.approx(bound, rel=1e-3)
    draws = torch.stack([send(recipe, vector, Draw(1, step=step))[1].square().mean() for step in range(300)])
    assert abs(draws.mean() - variance) < 3 * draws.std() / 300**0.5


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("levels", [1, 7, 127])
def test_rounding_is_right_on_average(norm: str, levels: int, send: Any) -> None:
    vector = torch.linspace(-1, 1, 101, dtype=torch.float64)
    recipe = {"type": "qsgd", "levels": levels, "norm": norm, "block": 512, "scaled": False}
    draws = torch.stack([send(recipe, vector, Draw(2, step=step))[0] for step in range(300)])
    unit = float(vector.norm() if norm == "l2" else vector.abs().max()) / levels
    error, f = draws.mean(0) - vector, (vector.abs() / unit) % 1
    assert (error.abs() <= unit * (4 * (f * (1 - f) / 300).sqrt() + 1e-3)).all()
    assert error.mean().abs() < 3 * unit / 2 / math.sqrt(300 * 101)


def test_codes_by_hand() -> None:
    """N = 2, s = 2: 1.5 lies between levels 1 and 2; a chance below one half rounds down."""
    block, norm = torch.tensor([[1.5, -1.5, 0.0, 2.0, -2.0]]), torch.tensor([2.0])
    low = quantize(block, norm, 2, torch.zeros(5, dtype=torch.int16))
    high = quantize(block, norm, 2, torch.full((5,), 32767, dtype=torch.int16))
    assert low.tolist() == [[3, 0, 2, 4, 0]] and high.tolist() == [[4, 1, 2, 4, 0]]


def test_zero_and_extreme_blocks_give_no_nan(send: Any) -> None:
    vector = torch.cat([torch.zeros(512), torch.full((512,), 1e-42), torch.full((512,), 3e38), torch.ones(3)])
    out, residual, _ = send({"type": "qsgd"}, vector)
    assert torch.isfinite(out).all() and torch.isfinite(residual).all()
    assert (out[:512] == 0).all()


@pytest.mark.parametrize(("levels", "bits"), [(1, 2), (3, 3), (7, 4), (15, 5), (127, 8)])
def test_bits_an_entry(levels: int, bits: int) -> None:
    assert make("compressors/qsgd", levels=levels).plan(4096).body_bytes == 4096 * bits // 8 + 4 * 8


@pytest.mark.parametrize(("d", "floor"), [(64, 0.111), (31, 0.152)])
def test_matching_goes_below_what_one_block_can(d: int, floor: float) -> None:
    coarsest = make("compressors/qsgd", levels=1, block=d)
    assert coarsest.alpha(coarsest.plan(d)) == pytest.approx(floor, abs=5e-4)
    for alpha in (floor / 2, 0.3, 0.9):
        compressor = build(make("compressors/qsgd").match(alpha, d), "compressors")
        assert compressor.alpha(compressor.plan(d)) == pytest.approx(alpha)
    with pytest.raises(ValueError, match=r"^match: compressors/qsgd reaches"):
        make("compressors/qsgd").match(0.9999, 10**6)
