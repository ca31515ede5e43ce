"""exact: the gradient of the batch's mean."""

from __future__ import annotations

from typing import Any

import torch

from raycipe.components.gradients.exact import Exact


def test_gradients_are_those_of_the_mean(problem: Any) -> None:
    found = problem("bilinear", {"mu_w": 0.5}, dim=3)
    w, v = found.point()
    batch = found.session.batch
    estimate = Exact().estimate(found, w, v)
    torch.testing.assert_close(estimate.w, 0.5 * w + v + batch["x"].double().mean(0), rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(estimate.v, w - batch["y"].double().mean(0), rtol=1e-6, atol=1e-7)
