"""A run that was killed, interrupted or moved ends where an unbroken one ends."""

from __future__ import annotations

import json
import queue
import random
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from raycipe.framework.training.signals import stop_file

BATTERY = {"train_batch_size": 20, "train_keep_best": {"metric": "val/loss", "mode": "min"}}


def rows(folder: Path) -> list[dict[str, Any]]:
    """The rows without what may differ between attempts."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in ("seconds", "attempt")} for line in lines]


def fresh(folder: Path) -> Path:
    (folder / "checkpoints").mkdir(parents=True)
    return folder


def kill_until_done(world: Any, world_size: int, work: Any, rng: random.Random, span_s: float, max_kills: int) -> Any:
    """Start, kill one or all ranks at a random time, start again; after `max_kills` kills let it end."""
    kills = 0
    while True:
        running = world(world_size, work)
        try:
            if kills >= max_kills:
                return running.gather(), kills
            first = running.results.get(timeout=rng.uniform(0.0, span_s))
        except queue.Empty:
            victims = range(world_size) if rng.random() < 0.5 else [rng.randrange(world_size)]
            for rank in victims:
                running.kill(rank)
            running.end()
            kills += 1
            continue
        running.results.put(first)
        return running.gather(), kills


def battery(toy: Any, end_of: Any, world: Any, tmp_path: Path, world_size: int, trials: int) -> None:
    recipe = toy(data={"type": "blobs", "source": "map"}, train_checkpoint_every=5, **BATTERY)
    recipe["train"].update(steps=75, eval_every=15)
    recipe["train"].pop("epochs")
    unbroken = fresh(tmp_path / "unbroken")
    started = time.monotonic()
    wanted = world(world_size, lambda rank: end_of(recipe, unbroken)).gather()
    span_s = time.monotonic() - started
    rng, kills, resumed = random.Random(7), 0, 0
    for trial in range(trials):
        folder = fresh(tmp_path / f"killed-{trial}")
        found, count = kill_until_done(
            world, world_size, lambda rank, folder=folder: end_of(recipe, folder, True), rng, span_s, 4
        )
        kills += count
        resumed += sum(1 for row in (folder / "metrics.jsonl").read_text().splitlines() if json.loads(row)["attempt"])
        assert found == wanted
        assert rows(folder) == rows(unbroken)
        assert not list((folder / "checkpoints").glob(".*"))
    assert kills and resumed, "the battery must kill, and runs must have gone on from a checkpoint"


def test_a_killed_run_ends_at_the_unbroken_result_bit_for_bit(
    toy: Any, end_of: Any, world: Any, tmp_path: Path
) -> None:
    battery(toy, end_of, world, tmp_path, world_size=1, trials=3)


def test_two_killed_workers_end_at_the_unbroken_result(toy: Any, end_of: Any, world: Any, tmp_path: Path) -> None:
    battery(toy, end_of, world, tmp_path, world_size=2, trials=2)


@pytest.mark.slow
@pytest.mark.parametrize("world_size", [1, 2])
def test_thirty_killed_runs_end_at_the_unbroken_result(
    toy: Any, end_of: Any, world: Any, tmp_path: Path, world_size: int
) -> None:
    battery(toy, end_of, world, tmp_path, world_size, trials=30)


def test_a_stop_request_saves_and_resuming_gives_the_unbroken_result(
    toy: Any, fit: Any, end_of: Any, run_dir: Path, tmp_path: Path
) -> None:
    recipe = toy()
    wanted = end_of(recipe, fresh(tmp_path / "unbroken"))

    def ask(session: Any, event: str) -> None:
        if event == "log" and session.step == 30:
            stop_file(run_dir).touch()
            session.watch.requested = True

    summary = fit(recipe, run_dir, hooks=[ask])
    assert (summary.status, summary.stopped, summary.steps) == ("interrupted", "user", 31)
    assert "test/loss" not in summary.final
    stop_file(run_dir).unlink()
    assert end_of(recipe, run_dir, True) == wanted
    assert rows(run_dir) == rows(tmp_path / "unbroken")


def test_fewer_workers_go_on_with_the_same_batches(toy: Any, fit: Any, world: Any, tmp_path: Path) -> None:
    recipe = toy(model={"type": "net", "dropout": 0.0, "norm": False}, train_log_every=1)
    unbroken, moved = fresh(tmp_path / "unbroken"), fresh(tmp_path / "moved")
    fit(recipe, unbroken)

    def half(rank: int) -> Any:
        def stop(session: Any, event: str) -> None:
            session.watch.requested = session.step >= 50

        return fit(recipe, moved, hooks=[stop]).steps

    assert world(2, half).gather() == [51, 51]
    summary = fit(recipe, moved, True)
    assert summary.warnings == [
        "resumed with 1 workers instead of 2: the result is not bit for bit that of an unbroken run"
    ]
    for row, other in zip(rows(moved), rows(unbroken), strict=True):
        assert row["step"] == other["step"]
        for name, value in row.items():
            assert value == pytest.approx(other[name], abs=2e-6), name


@pytest.mark.parametrize("late", [0, 3])
def test_an_optimizer_with_local_weights_resumes_in_mid_round(
    toy: Any, fit: Any, end_of: Any, world: Any, tmp_path: Path, late: int
) -> None:
    model = {"type": "net", "norm": False}  # BatchNorm statistics stay private to a rank
    recipe = toy(optimizer={"type": "drift", "lr": 0.05, "every": 5, "late": late}, model=model, train_log_every=3)
    wanted = world(2, lambda rank: end_of(recipe, fresh_once(tmp_path / "unbroken", rank))).gather()
    broken = fresh(tmp_path / "broken")

    def first(rank: int) -> Any:
        def stop(session: Any, event: str) -> None:
            session.watch.requested = session.step >= 23  # in the middle of a round, or of an exchange

        return fit(recipe, broken, hooks=[stop]).steps

    assert world(2, first).gather() == [27, 27]
    assert world(2, lambda rank: end_of(recipe, broken, True)).gather() == wanted
    assert wanted[0]["weights"] == wanted[1]["weights"]
    assert rows(broken) == rows(tmp_path / "unbroken")


def fresh_once(folder: Path, rank: int) -> Path:
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    return folder


def test_a_changed_recipe_is_refused_by_name(toy: Any, fit: Any, run_dir: Path) -> None:
    fit(toy(), run_dir)
    other = toy(optimizer={"type": "adamw", "lr": 0.02, "schedule": {"type": "cosine"}})
    with pytest.raises(Exception, match=r"can't resume with another recipe: optimizer\.lr changed"):
        fit(other, run_dir, True)


def test_a_resumed_run_refuses_other_data(toy: Any, fit: Any, run_dir: Path, monkeypatch: Any) -> None:
    fit(toy(), run_dir)
    monkeypatch.setattr(torch, "randperm", lambda n, generator: torch.arange(n))
    with pytest.raises(Exception, match="the order of the training examples has changed"):
        fit(toy(), run_dir, True)
