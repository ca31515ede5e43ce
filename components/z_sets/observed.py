"""What a learner was seen to do."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from raycipe.components.z_sets import _geometry as geometry
from raycipe.framework.arguments import InputFile, Range
from raycipe.framework.contracts import ZSet
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register

COLUMNS = ("fp", "fn")


@register
class Observed(ZSet):
    """The convex hull of the pairs that a learner gave in an earlier run, read from the run's table `queries`.

    Args:
        path: a csv file with columns fp and fn, as zboost writes it: artifacts/estimator-queries.csv of a run
        pad: how far the learner may go beyond what was seen, in each coordinate

    Recipe:
        data: breast_cancer
        estimator: {type: zboost, z: {type: observed, path: queries.csv}, rounds: 20}
    """

    def __init__(
        self, path: Annotated[str, InputFile((".csv",))], pad: Annotated[float, Range(ge=0, le=1)] = 0.0
    ) -> None:
        self.path = path
        self.pad = pad

    def pieces(self) -> list[np.ndarray]:
        points = self._read()
        corners = np.array([[-self.pad, -self.pad], [self.pad, -self.pad], [self.pad, self.pad], [-self.pad, self.pad]])
        padded = (points[:, None, :] + corners).reshape(-1, 2) if self.pad else points
        return geometry.non_empty([geometry.in_square(geometry.hull(padded))], "path")

    def _read(self) -> np.ndarray:
        """(n, 2). Raises RunError naming the file and what it lacks."""
        from pyarrow import ArrowInvalid, csv

        try:
            table = csv.read_csv(self.path)
        except (ArrowInvalid, OSError) as error:
            raise RunError("data", f"{self.path}: {' '.join(str(error).split())[:200]}", where="estimator") from error
        missing = [name for name in COLUMNS if name not in table.column_names]
        if missing or not table.num_rows:
            what = f"has no column `{missing[0]}`" if missing else "has no rows"
            hint = "take artifacts/estimator-queries.csv of a run of zboost"
            raise RunError("data", f"{self.path}: {what}", hint, "estimator")
        points = np.column_stack([table.column(name).to_numpy().astype(float) for name in COLUMNS])
        if not np.isfinite(points).all():
            raise RunError("data", f"{self.path}: a pair is not finite", where="estimator")
        return points
