"""A run that was killed, interrupted or moved ends where an unbroken one ends."""

from __future__ import annotations

import json
import queue
import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from raycipe.framework.errors import RunError
from raycipe.framework.files import sha256_file
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
        "resumed with 1 worker instead of 2: the result is not bit for bit that of an unbroken run"
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


def spoil(folder: Path, harm: str) -> None:
    checkpoints = folder / "checkpoints"
    if harm == "all deleted":
        shutil.rmtree(checkpoints)
        return
    for path in checkpoints.glob("step-*"):
        if harm == "all damaged":
            with (path / "state.pt").open("ab") as file:
                file.write(b"x")
        else:
            shutil.rmtree(path)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        ("all damaged", r"\(2 damaged: step-00000075: state.pt differs from its manifest; step-00000060: state.pt"),
        ("all deleted", r"\(metrics.jsonl tells of 75 steps\)"),
        ("steps deleted", r"\(metrics.jsonl tells of 75 steps\)"),
    ],
)
def test_a_run_without_a_good_checkpoint_is_refused_every_time_and_left_as_it_is(
    toy: Any, fit: Any, run_dir: Path, harm: str, words: str
) -> None:
    fit(toy(), run_dir)
    spoil(run_dir, harm)
    there, metrics = sorted(run_dir.rglob("*")), (run_dir / "metrics.jsonl").read_bytes()
    for _ in range(2):
        with pytest.raises(RunError, match=rf"run: no checkpoint is left to resume from {words}") as caught:
            fit(toy(), run_dir, True)
        assert str(caught.value).endswith("launch it as a new run")
    assert sorted(run_dir.rglob("*")) == there and (run_dir / "metrics.jsonl").read_bytes() == metrics


def test_two_workers_refuse_a_run_without_its_checkpoints_together(
    toy: Any, fit: Any, world: Any, run_dir: Path
) -> None:
    fit(toy(train_epochs=2), run_dir)
    shutil.rmtree(run_dir / "checkpoints")
    errors = world(2, lambda rank: fit(toy(train_epochs=3), run_dir, True)).errors()
    assert [errors[rank][0] for rank in (0, 1)] == ["RunError", "RunError"]
    assert errors[0][1] == errors[1][1]


@pytest.mark.parametrize("beside", [False, True])
def test_a_run_killed_before_its_first_checkpoint_starts_again(
    toy: Any, fit: Any, end_of: Any, run_dir: Path, tmp_path: Path, beside: bool
) -> None:
    recipe = toy(train_checkpoint_every=2, train_async_checkpoint=beside)

    def die(session: Any, event: str) -> None:
        if event == "log" and session.step == (50 if beside else 30):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(recipe, run_dir, hooks=[die])
    shutil.rmtree(run_dir / "checkpoints")  # of a checkpoint in the making nothing counts
    seen: list[str] = []
    end = end_of(recipe, fresh(tmp_path / "unbroken"))
    summary = fit(recipe, run_dir, True, hooks=[lambda session, event: seen.append(event)])
    assert summary.warnings == ["the run had no checkpoint yet: it starts again from step 0"]
    assert rows(run_dir) == rows(tmp_path / "unbroken") and end and seen


@pytest.mark.parametrize(("split", "key"), [("train", "x"), ("val", "y"), ("test", "x")])
def test_changed_data_is_refused_with_its_split_and_tensor(
    toy: Any, fit: Any, run_dir: Path, monkeypatch: Any, split: str, key: str
) -> None:
    from raycipe.framework.registry import get

    fit(toy(train_epochs=1), run_dir)
    blobs: Any = get("data", "blobs")
    load = blobs.load

    def changed(self: Any, seed: int) -> Any:
        splits = load(self, seed)
        tensor = splits[split].tensors[key]
        tensor[7] = tensor[6] + 1 if key == "x" else (tensor[7] + 1) % 3
        return splits

    monkeypatch.setattr(blobs, "load", changed)
    with pytest.raises(RunError, match=rf"can't resume: the data has changed since \({split}: {key}\)"):
        fit(toy(train_epochs=2), run_dir, True)


def test_a_checkpoint_of_another_version_is_told(toy: Any, fit: Any, run_dir: Path) -> None:
    fit(toy(train_epochs=1), run_dir)
    (path,) = (run_dir / "checkpoints").glob("step-*")
    torch.save({"step": 15}, path / "state.pt")
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["files"]["state.pt"] = {
        "bytes": (path / "state.pt").stat().st_size, "sha256": sha256_file(path / "state.pt")
    }  # fmt: skip
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RunError, match=r"state.pt does not hold averaged, best, .*\n    another version of Raycipe"):
        fit(toy(train_epochs=2), run_dir, True)


@pytest.mark.parametrize("ema", [None, 0.9])
def test_buffers_outside_the_state_dict_resume_and_are_measured(
    toy: Any, fit: Any, end_of: Any, tmp_path: Path, ema: float | None
) -> None:
    from raycipe.framework.training.after import final_model

    recipe = toy(model={"type": "counting"}, train_steps=30, train_checkpoint_every=10, train_ema=ema)
    unbroken, broken, measured = fresh(tmp_path / "unbroken"), fresh(tmp_path / "broken"), []
    fit(recipe, unbroken, after=lambda session: measured.append(final_model(session)))
    assert float(measured[0].seen) == 30 and measured[0].mean is not None

    def stop(session: Any, event: str) -> None:
        if event == "checkpoint" and session.step == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(recipe, broken, hooks=[stop])
    assert end_of(recipe, broken, True) == end_of(recipe, unbroken, True)
    assert rows(broken) == rows(unbroken)


def test_a_length_that_has_been_passed_is_refused(toy: Any, fit: Any, run_dir: Path) -> None:
    fit(toy(train_steps=30), run_dir)
    with pytest.raises(RunError, match="is at step 30 already, and train.steps asks for 20 steps"):
        fit(toy(train_steps=20), run_dir, True)
    assert fit(toy(train_steps=30), run_dir, True).steps == 30


def test_an_optimizer_that_exchanges_closes_again_after_training_on(
    toy: Any, fit: Any, end_of: Any, tmp_path: Path
) -> None:
    changes = {"optimizer": {"type": "diloco", "inner": {"type": "sgd", "lr": 0.05}, "H": 7}}
    folder = fresh(tmp_path / "run")
    fit(toy(train_steps=20, train_ema=None, **changes), folder)
    closed: list[int] = []

    def look(session: Any, event: str) -> None:
        if event == "end":
            closed.append(session.optimizer.synced_at)

    fit(toy(train_steps=33, train_ema=None, **changes), folder, True, hooks=[look])
    assert closed == [33]
