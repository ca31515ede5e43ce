"""The spectrum, the true weights and the noise are as told."""

from __future__ import annotations

import pytest
import torch

from raycipe.framework.registry import make


def test_moments_are_the_facts() -> None:
    data = make("data/powerlaw_regression", examples=100_000, test=10, features=8, eig_decay=1.0, noise=0.5)
    splits = data.load(3)
    x, y = (splits["train"].tensors[name].double() for name in ("x", "y"))
    variances, weights = torch.tensor(data.facts["feature_variances"]), torch.tensor(data.facts["true_weights"])
    assert float(variances.sum()) == pytest.approx(1) and float(weights.norm()) == pytest.approx(1)
    assert float(variances[0] / variances[3]) == pytest.approx(4)
    assert float(weights[0] / weights[3]) == pytest.approx(4**0.55)
    torch.testing.assert_close(x.square().mean(0), variances.double(), rtol=0.03, atol=0)
    assert float((y[:, 0] - x @ weights.double()).square().mean()) == pytest.approx(0.25, rel=0.03)
    assert len(splits["test"]) == 10 and set(data.load(3)) == {"train", "test"}


def test_a_negative_test_split_is_refused() -> None:
    with pytest.raises(ValueError, match="test: must be >= 0, not -1"):
        make("data/powerlaw_regression", test=-1)
