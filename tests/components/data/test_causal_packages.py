"""Causal data that lie in packages: the facts that everybody quotes."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from raycipe.components.data import ihdp
from raycipe.components.data._packages import package_file
from raycipe.framework.contracts import TensorSplit
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make


def train(name: str, **arguments: Any) -> tuple[Any, dict[str, np.ndarray]]:
    data = make(f"data/{name}", **arguments)
    split = data.load(0)["train"]
    assert isinstance(split, TensorSplit)
    return data, {key: values.numpy().astype(np.float64) for key, values in split.tensors.items()}


def raw_difference(rows: dict[str, np.ndarray]) -> float:
    y, a = rows["y"][:, 0], rows["treatment"]
    return float(y[a == 1].mean() - y[a == 0].mean())


@pytest.mark.parametrize("control, rows, difference", [("nsw", 445, 1794.34), ("cps", 16177, -8497.5)])
def test_lalonde(control: str, rows: int, difference: float) -> None:
    data, found = train("lalonde", control=control)
    assert len(found["x"]) == rows and found["treatment"].sum() == 185
    assert raw_difference(found) == pytest.approx(difference, abs=0.1)
    np.testing.assert_allclose(found["x"].std(axis=0), 1.0, atol=1e-3)
    assert len(data.facts["feature_names"]) == found["x"].shape[1] == 12


def test_nhefs() -> None:
    _, found = train("nhefs")
    assert len(found["x"]) == 1566 and found["treatment"].sum() == 403
    assert raw_difference(found) == pytest.approx(2.54, abs=0.01)  # Hernán and Robins, chapter 12


@pytest.mark.skipif(find_spec("causallib") is None, reason="pip install --no-deps causallib")
@pytest.mark.parametrize("instance, effect, share", [(1, 2.1281, 0.179), (4, 4.7960, 0.362), (10, 4.2234, 0.248)])
def test_acic16(instance: int, effect: float, share: float) -> None:
    data, found = train("acic16", instance=instance)
    assert found["x"].shape == (4802, 82)
    assert data.facts["true_ate"] == pytest.approx(effect, abs=1e-4)
    assert found["treatment"].mean() == pytest.approx(share, abs=1e-3)


@pytest.mark.skipif(find_spec("econml") is None, reason="pip install --no-deps econml")
def test_ihdp() -> None:
    data, found = train("ihdp", surface="B")
    assert found["x"].shape == (747, 25) and found["treatment"].sum() == 139
    assert data.facts["true_att"] == pytest.approx(4.0, abs=1e-9)
    again, _ = train("ihdp", surface="B", rep=1)
    assert again.facts["true_ate"] != data.facts["true_ate"]


@pytest.mark.parametrize("surface", ["A", "B"])
def test_the_surfaces_of_hill(surface: str) -> None:
    """Drawn on covariates of our own: the effect on the treated is 4, noise has deviation 1."""
    generator = np.random.default_rng(0)
    x, z = generator.normal(size=(2000, 5)), generator.integers(0, 2, 2000)
    y, truth = ihdp.outcomes(x, z, surface, generator)
    effect = truth[:, 1] - truth[:, 0]
    assert effect[z == 1].mean() == pytest.approx(4.0, abs=1e-9)
    assert (np.ptp(effect) < 1e-9) == (surface == "A")
    assert (y - truth[np.arange(2000), z]).std() == pytest.approx(1.0, abs=0.05)


def test_a_package_that_is_not_there_is_named_with_what_to_install() -> None:
    with pytest.raises(RunError, match="the package no_such_package is not installed") as error:
        package_file("no_such_package", "x.csv", "'raycipe[causal-data]'")
    assert error.value.hint == "pip install 'raycipe[causal-data]'"
