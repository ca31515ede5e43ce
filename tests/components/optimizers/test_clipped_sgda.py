"""clipped_sgda: short for sgda with clipped gradients."""

from __future__ import annotations

from typing import Any

import torch


def test_it_is_sgda_with_clipped_gradients_and_logs_their_shares(play: Any) -> None:
    short = play({"type": "clipped_sgda", "lr": 0.1, "tau": 0.5}, steps=20)
    long = play({"type": "sgda", "lr": 0.1, "gradients": {"type": "clipped", "tau": 0.5}}, steps=20)
    assert torch.equal(short.w, long.w) and torch.equal(short.v, long.v)
    assert short.summary.final["train/clip_w"] == 1.0
    steps = torch.stack(short.path).diff(dim=0)
    assert float(steps.abs().max()) <= 0.1 * 0.5 * (1 + 1e-12)
