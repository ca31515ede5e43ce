"""Slopes of power laws."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from raycipe.components.studies.rate_fit import fitted
from raycipe.framework.contracts import Ended
from raycipe.framework.registry import make

RECIPE = {"train": {"batch_size": 4, "steps": 10}, "optimizer": {"type": "diloco", "H": 2}}
POINTS = {"train.steps": [10, 40], "optimizer.H": [1, 2]}


def ended(variation: Any, value: float) -> Ended:
    return Ended(variation, Path("trials", variation.name), {"status": "done", "final": {"test/loss": value}})


def test_sizes_are_products_of_what_a_run_has() -> None:
    study = make("studies/rate_fit", points=POINTS, x=["train.batch_size", "train.steps"], metric="test/loss", seeds=2)
    found = study.variations(RECIPE)
    assert [variation.labels["x"] for variation in found] == [40, 40, 160, 160]
    assert found[2].changes == {"seed": 0, "train.steps": 40, "optimizer.H": 2}


def test_a_power_law_gives_its_exponent_for_each_curve() -> None:
    study = make(
        "studies/rate_fit",
        points={"train.steps": [10, 40, 90]},
        x=["train.steps"],
        metric="test/loss",
        curves={"optimizer.compressor": [{"type": "identity"}, {"type": "topk"}]},
    )
    powers = {"identity": -0.5, "topk": -0.75}
    runs = [ended(v, 3 * v.labels["x"] ** powers[v.labels["curve"]]) for v in study.variations(RECIPE)]
    values = study.conclude(RECIPE, runs).values
    assert values["identity/slope"] == pytest.approx(-0.5) and values["topk/slope"] == pytest.approx(-0.75)
    assert values["range"] == pytest.approx(0.25) and values["topk/r2"] == pytest.approx(1.0)
    assert "topk/slope_low" not in values  # one seed tells no interval


def test_seeds_give_an_interval_around_the_slope() -> None:
    points = [(10.0, [1.0, 1.2, 0.9]), (100.0, [0.11, 0.08, 0.1]), (1000.0, [0.012, 0.009, 0.0095])]
    found = fitted(points, 0.95)
    assert found is not None
    assert found["slope_low"] < found["slope"] < found["slope_high"]
    assert found["slope"] == pytest.approx(-1, abs=0.05) and found["slope_high"] - found["slope_low"] < 0.2
    assert fitted(points, 0.95) == found
    assert fitted(points[:1], 0.95) is None


def test_figures_that_are_not_positive_fit_no_line_and_are_told() -> None:
    study = make("studies/rate_fit", points=POINTS, x=["train.steps"], metric="test/loss")
    found = study.conclude(RECIPE, [ended(variation, -1.0) for variation in study.variations(RECIPE)])
    assert found.values == {"missing": 2.0}
    found.figures["rate"]().savefig(io.BytesIO(), format="svg")


def test_what_fits_no_line_is_refused() -> None:
    with pytest.raises(ValueError, match=r"points: need two or more"):
        make("studies/rate_fit", points={"train.steps": [1, 2], "seed": [1]}, x=["train.steps"], metric="test/loss")
    same = make("studies/rate_fit", points={"optimizer.H": [1, 2]}, x=["train.steps"], metric="test/loss")
    with pytest.raises(ValueError, match="x: all points have the same size"):
        same.variations(RECIPE)
    words = make("studies/rate_fit", points={"optimizer.H": [1, 2]}, x=["optimizer.type"], metric="test/loss")
    with pytest.raises(ValueError, match=r"x: optimizer\.type must be a positive number"):
        words.variations(RECIPE)
