"""The coverage study: cells, blocks, and what is pooled from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from raycipe.components.measures.replications import coverage_interval
from raycipe.components.studies.coverage import pooled
from raycipe.framework.registry import make
from raycipe.launchers import cli

RECIPE = """
recipe: 1
name: covers
data: {type: causal_dgp, examples: 100, fresh: 50}
estimator: {type: gbayes_causal, nuisance: oracle}
study: {type: coverage, replicates: 6, block: 3, over: {estimator.loss: [dr]}}
resources: {num_workers: 0}
"""


def result(storage: Path) -> dict[str, Any]:
    (file,) = storage.glob("*/2*/result.json")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_blocks_of_replicates_add_up_to_the_cell(tmp_path: Path) -> None:
    """Two blocks of three are the same six replicates as one run of the measure counts."""
    (tmp_path / "covers.yaml").write_text(RECIPE)
    assert cli.launch([str(tmp_path / "covers.yaml"), "--storage", str(tmp_path / "runs"), "-q"]) == 0
    final = result(tmp_path / "runs")["final"]
    single = RECIPE.replace("study: {type: coverage, replicates: 6, block: 3, over: {estimator.loss: [dr]}}", "")
    (tmp_path / "alone.yaml").write_text(single + "measures: [{type: replications, replicates: 6}]\n")
    assert cli.launch([str(tmp_path / "alone.yaml"), "--storage", str(tmp_path / "alone"), "-q"]) == 0
    alone = result(tmp_path / "alone")["final"]
    for name in ("replicates", "coverage", "coverage_low", "coverage_high", "length", "bias", "rmse"):
        assert final[f"study/coverage/dr/{name}"] == pytest.approx(alone[f"measure/replications/{name}"]), name
    assert final["study/coverage/missing"] == 0


def test_the_interval_of_a_coverage_is_clopper_and_pearsons() -> None:
    """47 of 50: from .835 to .987, so that 50 replicates can't tell .92 from .97."""
    low, high = coverage_interval(0.94, 0.24, 50, 1.0)
    assert (round(low, 3), round(high, 3)) == (0.835, 0.987)
    assert coverage_interval(1.0, 0.0, 50, 1.0)[1] == 1.0 and coverage_interval(0.0, 0.0, 50, 1.0)[0] == 0.0


def test_pooled_figures_are_those_of_all_replicates() -> None:
    generator = np.random.default_rng(0)
    blocks = [generator.uniform(size=n) for n in (10, 30)]
    prefix = "measure/replications/"
    rows = [
        {
            prefix + name: value
            for name, value in {
                "replicates": float(len(block)),
                "points": 300.0,
                "coverage": float(block.mean()),
                "coverage_sd": float(block.std()),
                "length": float(block.mean()),
                "bias": float(block.mean()),
                "rmse": float(np.sqrt((block**2).mean())),
                "flagged": 0.0,
            }.items()
        }
        for block in blocks
    ]
    found, whole = pooled(rows), np.concatenate(blocks)
    assert found["coverage"] == pytest.approx(whole.mean())
    assert found["rmse"] == pytest.approx(np.sqrt((whole**2).mean()))
    half = found["coverage"] - found["coverage_low"]
    assert half == pytest.approx(2.0227 * whole.std() / np.sqrt(40), rel=1e-3)  # Student's t of 39 degrees


def test_too_many_runs_are_refused() -> None:
    with pytest.raises(ValueError, match="block: 1,000,000 runs are more than 100,000"):
        make("studies/coverage", replicates=1_000_000, block=1)
