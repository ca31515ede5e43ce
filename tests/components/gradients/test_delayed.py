"""delayed: the point is old, the batch is not."""

from __future__ import annotations

from typing import Any

import torch

from raycipe.components.gradients.delayed import Delayed


def test_gradients_are_those_of_an_earlier_point(problem: Any) -> None:
    found = problem("quadratic_game", {}, dim=3)
    w, v = found.point()
    points = [(w + number, v - number) for number in range(5)]
    wanted = [found.gradients(*point)[0] for point in points]
    estimator = Delayed(delay=2)
    got = [estimator.estimate(found, *point).w for point in points[:3]]
    later = Delayed(delay=2)
    later.load(estimator.state())
    got += [later.estimate(found, *point).w for point in points[3:]]
    for mine, number in zip(got, (0, 0, 0, 1, 2), strict=True):
        torch.testing.assert_close(mine, wanted[number])
