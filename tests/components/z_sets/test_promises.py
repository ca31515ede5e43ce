"""The sets that recipes can name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from raycipe.components.z_sets import _geometry as geometry
from raycipe.framework.errors import RunError
from raycipe.framework.registry import build


def pieces(type_: str, **arguments: Any) -> list[np.ndarray]:
    found: list[np.ndarray] = build({"type": type_, **arguments}, "z_sets").pieces()
    return found


def gamma(type_: str, **arguments: Any) -> float:
    return geometry.boostability(pieces(type_, **arguments)).gamma


def test_every_type_gives_the_set_that_it_names() -> None:
    assert gamma("box", fp=0.1, fn=0.3) == pytest.approx(0.253590, abs=1e-6)
    assert gamma("halfplane", weights=[1, 3], bound=0.7) == pytest.approx(1 / 15)
    assert gamma("weak", gamma=0.1) == pytest.approx(0.2)
    objectives = [{"weights": [1, 0], "bound": 0.1}, {"weights": [1, 2], "bound": 0.9}]
    assert gamma("multi_objective", objectives=objectives) == pytest.approx(0.1)
    assert gamma("polygon", vertices=[[0, 0.4], [0, 0], [0.4, 0]]) == pytest.approx(0.2)
    boxes = [{"type": "box", "fp": 0.5, "fn": 0.05}, {"type": "box", "fp": 0.05, "fn": 0.5}]
    assert gamma("union", of=boxes) == 0 and len(pieces("union", of=boxes)) == 2


@pytest.mark.parametrize(("fp", "fn", "corners"), [(0.0, 0.0, 1), (0.2, 0.0, 2), (0.0, 0.2, 2), (0.2, 0.2, 4)])
def test_a_flat_box_is_a_segment_or_a_point(fp: float, fn: float, corners: int) -> None:
    (piece,) = pieces("box", fp=fp, fn=fn)
    assert len(piece) == corners and piece.max(axis=0).tolist() == [fp, fn]


@pytest.mark.parametrize(
    ("type_", "arguments", "words"),
    [
        ("halfplane", {"weights": [1, 1], "bound": -0.1}, "bound: the set is empty"),
        ("polygon", {"vertices": [[1.5, 0.2]]}, "vertices: the set is empty"),
        ("polygon", {"vertices": [[float("nan"), 0.2]]}, "vertices: must be finite"),
        ("halfplane", {"weights": [0, 0], "bound": 0.1}, "weights: must be finite and not both 0"),
        ("multi_objective", {"objectives": [{"weights": [1, 1], "bound": float("inf")}]}, "objectives: weights and"),
    ],
)
def test_what_is_no_set_is_refused_by_name(type_: str, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        pieces(type_, **arguments)


def test_what_was_observed_is_read_from_a_run(tmp_path: Path) -> None:
    path = tmp_path / "queries.csv"
    path.write_text("round,p,fp,fn\n0,0.5,0.1,0.1\n1,0.5,0.3,0.1\n2,0.5,0.1,0.2\n3,0.5,0.15,0.12\n")
    (hull,) = pieces("observed", path=str(path))
    assert sorted(hull.tolist()) == [[0.1, 0.1], [0.1, 0.2], [0.3, 0.1]]
    (padded,) = pieces("observed", path=str(path), pad=0.05)
    assert padded.min() == pytest.approx(0.05) and padded.max(axis=0) == pytest.approx([0.35, 0.25])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n", "has no column `fp`"),
        ("fp,fn\n", "has no rows"),
        ("fp,fn\nnan,0.1\n", "a pair is not finite"),
    ],
)
def test_a_file_that_holds_no_pairs_is_told(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "queries.csv").write_text(text)
    with pytest.raises(RunError, match=words):
        pieces("observed", path=str(tmp_path / "queries.csv"))
