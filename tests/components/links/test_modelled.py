"""How long exchanges and rounds take: the figures of a model of 150 million weights among eight workers."""

from __future__ import annotations

import pytest

from raycipe.components.links._network import Round, crossover, dense_bytes, transfer_seconds
from raycipe.framework.registry import make

MBPS, WORKERS, WEIGHTS, STEP_S = 100.0, 8, 150_000_000, 0.5
DENSE = dense_bytes(WORKERS, WEIGHTS)
TOPK = (WORKERS - 1) * 28 / 8 * 0.01 * WEIGHTS  # 28 bits for each of the 1 % that are kept


def test_an_exchange_takes_latency_and_bandwidth() -> None:
    link = make("links/modelled", bandwidth_mbps=MBPS, latency_ms=20, jitter_ms=10)
    assert link.seconds(12_500_000, 1) == pytest.approx(1.02)
    assert link.seconds(12_500_000, 14, 0.5) == pytest.approx(1 + 14 * 0.025)
    assert make("links/ideal").seconds(1e9, 14, 0.5) == 0
    assert transfer_seconds(DENSE, 14, MBPS, 0) == pytest.approx(84.0)


@pytest.mark.parametrize(
    ("round_", "share"),
    [
        (Round(1, STEP_S, DENSE, 14), 0.0059),
        (Round(30, STEP_S, DENSE, 14), 0.152),
        (Round(30, STEP_S, TOPK, 7), 0.836),
        (Round(30, STEP_S, TOPK, 7, overlap=6), 1.0),
    ],
    ids=["dense", "diloco", "diloco topk", "overlapped"],
)
def test_the_share_of_the_ideal_speed(round_: Round, share: float) -> None:
    assert round_.share(MBPS) == pytest.approx(share, rel=5e-3)


def test_codecs_cost_time() -> None:
    assert Round(10, 0.1, 0, 0, codec_s=0.5).seconds(1) == pytest.approx(1.5)


def test_more_bytes_win_above_the_crossing_of_two_curves() -> None:
    dense, packed = Round(1, 0.5, 1e8, 2), Round(1, 0.6, 1e6, 1)  # packing costs 0.1 s
    mbps = crossover(dense, packed)
    assert mbps is not None
    assert 8 * (1e8 - 1e6) / (1e6 * mbps) == pytest.approx(0.1, rel=1e-6)
    assert crossover(dense, Round(1, 0.5, 1e6, 1)) is None  # packing for nothing: ahead everywhere
    assert crossover(Round(1, 0.5, 1e6, 1), Round(1, 0.6, 1e8, 2)) == 0.0  # behind everywhere
