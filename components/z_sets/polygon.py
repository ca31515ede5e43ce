"""A convex polygon."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from raycipe.components.z_sets import _geometry as geometry
from raycipe.framework.arguments import Length
from raycipe.framework.contracts import ZSet
from raycipe.framework.registry import register


@register
class Polygon(ZSet):
    """The convex hull of some pairs (FP, FN), cut to the unit square; one pair is a point, two are a segment.

    Args:
        vertices: pairs [FP, FN] in any order

    Recipe:
        data: breast_cancer
        estimator: {type: zboost, z: {type: polygon, vertices: [[0, 0], [0.3, 0], [0, 0.2]]}, rounds: 20}
    """

    def __init__(self, vertices: Annotated[list[Annotated[list[float], Length(2, 2)]], Length(1, 10_000)]) -> None:
        if not np.isfinite(np.asarray(vertices, dtype=float)).all():
            raise ValueError("vertices: must be finite")
        self.vertices = vertices
        self.pieces()  # refuses an empty set

    def pieces(self) -> list[np.ndarray]:
        return geometry.non_empty([geometry.in_square(geometry.hull(np.asarray(self.vertices)))], "vertices")
