"""Speed against bandwidth, from run folders as launches write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from raycipe.components.studies.bandwidth import step_seconds
from raycipe.framework.contracts import Ended
from raycipe.framework.registry import make

STEPS, WORKERS, STEP_S = 40, 2, 0.1


def ended(variation: Any, folder: Path, *, every: int, num_bytes: float, overlap: int = 0) -> Ended:
    """A run of `STEPS` steps with an exchange each `every` steps, which were waited for half a second each."""
    run = folder / variation.name
    run.mkdir()
    recipe = {
        "optimizer": {"type": "diloco", "overlap_steps": overlap},
        "train": {"batch_size": 64},
        "resources": {"num_workers": WORKERS},
    }
    (run / "resolved.yaml").write_text(json.dumps(recipe))
    rows = []
    for step in range(0, STEPS + 1, 10):
        waited = 0.5 * step / every
        rows.append({"step": step, "seconds": 1 + STEP_S * step + waited, "comm/wait_seconds": waited})
        rows.append({"step": step, "seconds": 500.0, "val/loss": 1.0})
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    exchanges = STEPS / every
    final = {
        "comm/exchanges": exchanges,
        "comm/hops": 2 * exchanges,
        "comm/bytes": WORKERS * num_bytes * exchanges,
    }
    return Ended(variation, run, {"status": "done", "final": final, "steps": STEPS})


def test_curves_of_three_ways(tmp_path: Path) -> None:
    ways = {"dense": {"optimizer.H": 1}, "rare": {"optimizer.H": 10}, "hidden": {"optimizer.overlap_steps": 4}}
    study = make("studies/bandwidth", ways=ways, mbps=[8.0], latency_ms=50, tokens=3)
    dense, rare, hidden = study.variations({})
    assert dense.changes == {"optimizer.H": 1, "optimizer.link": {"type": "ideal"}}
    runs = [
        ended(dense, tmp_path, every=1, num_bytes=1e5),
        ended(rare, tmp_path, every=10, num_bytes=1e5),
        ended(hidden, tmp_path, every=10, num_bytes=1e5, overlap=4),
    ]
    found = study.conclude({}, runs)
    travels = 2 * 0.05 + 0.1  # two messages, 8e5 bits at 8 Mbit/s
    values = found.values
    assert values["dense/8_mbps/share"] == pytest.approx(STEP_S / (STEP_S + travels))
    assert values["rare/8_mbps/share"] == pytest.approx(1 / (1 + travels))
    assert values["hidden/8_mbps/share"] == pytest.approx(1.0)
    assert values["rare/8_mbps/rate"] == pytest.approx(64 * 3 * 10 / (1 + travels))
    assert values["rare/bytes"] == pytest.approx(1e4) and values["missing"] == 0
    assert [row["way"] for row in found.tables["rates"]] == ["dense", "rare", "hidden"]


def test_a_way_that_costs_computing_pays_below_some_bandwidth(tmp_path: Path) -> None:
    ways = {"dense": {"optimizer.H": 1}, "packed": {"optimizer.compressor": "topk"}}
    study = make("studies/bandwidth", ways=ways)
    first, second = study.variations({})
    runs = [
        ended(first, tmp_path, every=1, num_bytes=1e6),
        ended(second, tmp_path, every=1, num_bytes=1e4),
    ]
    text = (runs[1].folder / "metrics.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    rows = [{**row, "seconds": row["seconds"] + 0.02 * row["step"]} for row in rows]
    (runs[1].folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    mbps = study.conclude({}, runs).values["packed/ahead_below"]
    assert mbps == pytest.approx(8 * (1e6 - 1e4) / 1e6 / 0.02, rel=1e-6)


def test_computing_time_leaves_out_waiting_and_the_odd_interval() -> None:
    rows: list[dict[str, Any]] = [
        {"step": 10 * i, "seconds": i + (5 if i > 3 else 0), "comm/wait_seconds": 0.2 * i} for i in range(6)
    ]
    assert step_seconds(rows) == pytest.approx(0.08)
    assert step_seconds(rows[:1]) is None


def test_runs_that_exchange_nothing_are_told_as_missing(tmp_path: Path) -> None:
    study = make("studies/bandwidth", ways={"plain": {"optimizer.lr": 0.1}}, mbps=[1.0])
    (one,) = study.variations({})
    found = study.conclude({}, [Ended(one, tmp_path, {"status": "done", "final": {"test/loss": 1.0}, "steps": 4})])
    assert found.values == {"missing": 1.0} and not found.tables["rates"]
