"""The user's own study as a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from raycipe.framework.contracts import TensorSplit
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make
from raycipe.launchers import cli


@pytest.fixture
def study(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "id": np.arange(200),
            "age": generator.normal(50, 10, 200),
            "site": np.array(["north", "south"])[np.arange(200) % 2],
            "clinic": np.arange(200) // 10,
            "survey": generator.uniform(0.5, 2.0, 200),
            "drug": generator.integers(0, 2, 200),
        }
    )
    frame["weight"] = 2.0 * frame["drug"] + 0.1 * frame["age"] + generator.normal(size=200)
    frame.to_csv(tmp_path / "trial.csv", index=False)
    frame.to_parquet(tmp_path / "trial.parquet", index=False)
    return tmp_path


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_roles_come_from_their_columns(study: Path, format: str) -> None:
    data = make(
        "data/causal_table",
        path=str(study / f"trial.{format}"),
        outcome="weight",
        treatment="drug",
        weights="survey",
        groups="clinic",
        drop=["id"],
        one_hot=True,
    )
    split = data.load(0)["train"]
    assert isinstance(split, TensorSplit)
    frame = pd.read_csv(study / "trial.csv")
    assert data.facts["feature_names"] == ["age", "site=north", "site=south"]
    assert sorted(split.tensors) == ["groups", "treatment", "weights", "x", "y"]
    np.testing.assert_array_equal(split.tensors["treatment"].numpy(), frame["drug"])
    np.testing.assert_allclose(split.tensors["y"][:, 0].numpy(), frame["weight"], rtol=1e-6)
    np.testing.assert_allclose(split.tensors["weights"].numpy(), frame["survey"], rtol=1e-6)
    assert float(split.tensors["x"][:, 0].mean()) == pytest.approx(0.0, abs=1e-5)


def test_a_study_is_estimated_by_a_recipe(study: Path) -> None:
    (study / "mine.yaml").write_text(
        "recipe: 1\nname: mine\n"
        "data: {type: causal_table, path: trial.csv, outcome: weight, treatment: drug, covariates: [age]}\n"
        "estimator: gbayes_causal\nresources: {num_workers: 0}\n"
        "expect: {estimator/estimate: 1.5 .. 2.5}\n"
    )
    assert cli.launch([str(study / "mine.yaml"), "--storage", str(study / "runs"), "-q"]) == 0


def test_a_wrong_column_is_told_with_the_nearest(study: Path) -> None:
    data = make("data/causal_table", path=str(study / "trial.csv"), outcome="weight", treatment="drgu")
    with pytest.raises(RunError, match="has no column `drgu`") as error:
        data.load(0)
    assert "did you mean `drug`?" in str(error.value.hint)


def test_a_column_has_one_role(study: Path) -> None:
    data = make("data/causal_table", path=str(study / "trial.csv"), outcome="weight", treatment="weight")
    with pytest.raises(RunError, match="one column has two roles"):
        data.load(0)
