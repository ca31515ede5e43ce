"""What a Ray Train worker decides before its loop."""

from __future__ import annotations

from pathlib import Path

from raycipe.framework.comm import Comm, SimulatedWorld
from raycipe.launchers.worker import is_regrouped


def test_a_group_that_ray_starts_anew_goes_on_from_the_checkpoint_on_every_rank(tmp_path: Path) -> None:
    def group(comm: Comm) -> bool:
        return is_regrouped(str(tmp_path), comm)

    assert SimulatedWorld(1).run(group) == [False]
    assert SimulatedWorld(3).run(group) == [True, True, True]
