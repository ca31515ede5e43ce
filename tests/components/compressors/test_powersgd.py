"""PowerSGD."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from raycipe.framework.contracts import Draw
from raycipe.framework.registry import make


def test_a_matrix_of_rank_one_is_exact_in_one_pass(send: Any) -> None:
    matrix = torch.outer(torch.arange(1.0, 101), torch.linspace(-1, 1, 50))
    out, residual, count = send({"type": "powersgd", "rank": 1, "min_numel": 1}, matrix.view(-1), None, [(100, 50)])
    torch.testing.assert_close(out, matrix.view(-1), rtol=1e-5, atol=1e-4)
    assert residual.abs().max() < 1e-4 and count == 24 + 4 * 150


def test_passes_come_nearer_to_the_singular_vectors() -> None:
    """A Gaussian 100 x 100 matrix, rank 4: the share of the squares kept rises towards that of the best four."""
    matrix = torch.randn(100, 100, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    compressor, state, shares = make("compressors/powersgd", rank=4), {}, []
    plan = compressor.plan(10_000, [(100, 100)])
    for step in range(6):
        residual = matrix.view(-1).clone()
        compressor.compress_(residual, plan, Draw(0, step=step), state)
        shares.append(1 - float(residual.square().sum() / matrix.square().sum()))
    best = float(torch.linalg.svdvals(matrix)[:4].square().sum() / matrix.square().sum())
    assert shares == sorted(shares) and 0.06 < shares[0] < 0.1 and 0.12 < shares[-1] < best
    assert best == pytest.approx(0.1376, abs=0.01)


def test_small_ones_and_vectors_are_sent_as_they_are(send: Any) -> None:
    vector = torch.arange(1.0, 58)
    out, _, count = send({"type": "powersgd"}, vector, None, [(8, 5), (17,)])
    assert torch.equal(out, vector) and count == 24 + 4 * 57


def test_a_rank_without_gain_is_told_and_sent_whole(send: Any) -> None:
    with pytest.warns(UserWarning, match="powersgd sends a 5 x 40 matrix whole: rank 5 has no gain"):
        out, _, _ = send({"type": "powersgd", "rank": 5, "min_numel": 1}, torch.ones(200), None, [(5, 40)])
    assert torch.equal(out, torch.ones(200))


def test_sums_give_the_mean_and_each_worker_its_own_residual() -> None:
    """mean_m (p_m - e_m) is exactly what all decode, although the mean of factors is not the factor of the mean."""
    compressor = make("compressors/powersgd", rank=2, min_numel=1)
    plan = compressor.plan(630, [(30, 20), (30,)])
    vectors = [torch.randn(630, generator=torch.Generator().manual_seed(r), dtype=torch.float64) for r in range(3)]
    left, states = [vector.clone() for vector in vectors], [{}, {}, {}]
    outs = [torch.zeros(630, dtype=torch.float64) for _ in vectors]
    for part in range(2):
        parts = [compressor.summand(left[r], plan, Draw(0, r), states[r], part) for r in range(3)]
        mean = sum(parts) / 3
        for r in range(3):
            compressor.absorb_(mean, left[r], plan, Draw(0, r), states[r], outs[r], part)
    assert all(torch.equal(out, outs[0]) for out in outs)
    torch.testing.assert_close(outs[0], sum(vectors) / 3 - sum(left) / 3, rtol=0, atol=1e-12)
    assert all(torch.equal(state["right0"], states[0]["right0"]) and "left0" not in state for state in states)
    for vector, residual in zip(vectors, left, strict=True):
        assert residual.square().sum() < vector.square().sum()


def test_without_a_warm_start_every_step_begins_anew() -> None:
    matrix = torch.randn(400, generator=torch.Generator().manual_seed(0))
    for warm in (True, False):
        compressor, state = make("compressors/powersgd", rank=1, min_numel=1, warm_start=warm), {}
        plan = compressor.plan(400, [(20, 20)])
        starts = []
        for step in range(2):
            starts.append(compressor._start(plan.layout[0], Draw(0, step=step), state, matrix).clone())
            compressor.compress_(matrix.clone(), plan, Draw(0, step=step), state)
        assert not torch.equal(*starts)
        torch.testing.assert_close(torch.equal(starts[1], state["right0"]), False)
