"""Now and then."""

from __future__ import annotations

import pytest
import torch

from raycipe.framework.contracts import Draw
from raycipe.framework.registry import make


def test_all_ranks_toss_one_coin_and_a_skipped_round_is_empty() -> None:
    compressor = make("compressors/lazy", inner="identity", p=0.3)
    sent = [compressor.sends(Draw(1, step=step)) for step in range(2000)]
    assert sent == [compressor.sends(Draw(1, rank=5, step=step)) for step in range(2000)]
    assert sum(sent) / 2000 == pytest.approx(0.3, abs=3 * (0.21 / 2000) ** 0.5)
    skipped = Draw(1, step=sent.index(False))
    vector = torch.ones(8)
    residual = vector.clone()
    plan = compressor.plan(8)
    payload = compressor.compress_(residual, plan, skipped)
    out = torch.zeros(8)
    compressor.add_decoded_(payload, plan, out)
    assert payload.numel() == 0 and torch.equal(residual, vector) and not out.any()


def test_factor_and_bytes_are_those_of_the_inner_one_times_p() -> None:
    compressor = make("compressors/lazy", inner={"type": "topk", "ratio": 0.1}, p=0.5)
    plan = compressor.plan(1000)
    assert compressor.alpha(plan) == 0.05
    assert compressor.expected_bytes(plan) == plan.payload_bytes / 2
