"""The loop with one worker: what it reports, when it stops, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from raycipe.framework.errors import RunError
from raycipe.framework.training.due import Due
from raycipe.framework.training.judge import check_targets
from raycipe.framework.training.plan import Length, Settings, TrainPlan
from raycipe.framework.training.saved import read
from raycipe.framework.training.session import train
from raycipe.framework.training.state import digest


def rows(folder: Path, with_metric: str = "") -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [row for row in lines if not with_metric or with_metric in row]


def weights(folder: Path) -> str:
    newest = read(max((folder / "checkpoints").glob("step-*")))
    tensors = newest.tensors("model.safetensors")
    return digest([tensors[name] for name in sorted(tensors)])


def folder(path: Path) -> Path:
    (path / "checkpoints").mkdir(parents=True)
    return path


def test_rows_tell_training_validation_and_test_metrics(toy: Any, fit: Any, run_dir: Path) -> None:
    summary = fit(toy(train_clip_norm=1.0), run_dir)
    assert (summary.status, summary.steps, summary.epochs, summary.examples) == ("done", 75, 5.0, 1500)
    assert [row["step"] for row in rows(run_dir, "train/loss")] == [10, 20, 30, 40, 50, 60, 70, 75]
    assert [row["step"] for row in rows(run_dir, "val/loss")] == [15, 30, 45, 60, 75]
    assert [row["step"] for row in rows(run_dir, "test/loss")] == [75]
    first = rows(run_dir)[0]
    assert set(first) == {
        "step", "epoch", "seconds", "attempt", "train/loss", "train/accuracy", "train/lr", "train/grad_norm",
    }  # fmt: skip
    assert first["epoch"] == pytest.approx(10 / 15) and first["attempt"] == 0
    assert summary.final["test/accuracy"] > 0.9
    assert summary.final == {k: v for row in rows(run_dir) for k, v in row.items() if "/" in k}
    assert [entry["step"] for entry in summary.checkpoints] == [60, 75]


def test_cadences_hooks_and_threads_of_the_watch_leave_the_weights_alone(toy: Any, fit: Any, tmp_path: Path) -> None:
    seen: list[str] = []
    plain, busy = folder(tmp_path / "plain"), folder(tmp_path / "busy")
    fit(toy(), plain)
    recipe = toy(train_log_every=3, train_eval_batch_size=7, train_async_checkpoint=True)
    fit(recipe, busy, hooks=[lambda session, event: seen.append(event)])
    assert weights(plain) == weights(busy)
    assert {"start", "log", "evaluate", "checkpoint", "end"} == set(seen)


def test_the_same_seed_repeats_and_another_one_does_not(toy: Any, fit: Any, tmp_path: Path) -> None:
    ends = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        fit(toy(seed=seed, train_epochs=1), folder(tmp_path / name))
        ends.append(weights(tmp_path / name))
    assert ends[0] == ends[1] != ends[2]


def test_accumulation_gives_the_result_of_the_whole_batch(toy: Any, fit: Any, tmp_path: Path) -> None:
    model = {"type": "net", "dropout": 0.0, "norm": False}
    finals = []
    for accumulate in (1, 3):
        recipe = toy(model=model, train_accumulate=accumulate, train_drop_last=False, train_batch_size=23)
        recipe["optimizer"] = {"type": "sgd", "lr": 0.1}
        finals.append(fit(recipe, folder(tmp_path / str(accumulate))).final)
    assert finals[0] == pytest.approx(finals[1], abs=1e-5)


def test_the_average_of_the_weights_is_evaluated_where_asked(toy: Any, fit: Any, tmp_path: Path) -> None:
    model = fit(toy(), folder(tmp_path / "model")).final
    average = fit(toy(train_evaluate_weights="ema"), folder(tmp_path / "ema")).final
    assert model["train/loss"] == average["train/loss"] and model["val/loss"] != average["val/loss"]
    newest = read(max((tmp_path / "ema" / "checkpoints").glob("step-*")))
    assert newest.has("ema.safetensors")
    with pytest.raises(RunError, match="`evaluate_weights: ema` needs `train.ema`"):
        fit(toy(train_ema=None, train_evaluate_weights="ema"), folder(tmp_path / "none"))


def test_the_average_follows_its_formula(toy: Any, fit: Any, run_dir: Path) -> None:
    averages: list[torch.Tensor] = []
    seen: list[torch.Tensor] = []

    def look(session: Any, event: str) -> None:
        if event in ("start", "log"):
            seen.append(session.model.first.weight.detach().clone())
            averages.append(session.average.model.first.weight.clone())

    fit(toy(train_ema=0.25, train_steps=4, train_log_every=1), run_dir, hooks=[look])
    wanted = averages[0]
    for step in range(1, 5):
        decay = min(0.25, step / (step + 9))  # (1 + t) / (10 + t) after t = step - 1 updates: 1/10, 2/11, 3/12, 4/13
        wanted = decay * wanted + (1 - decay) * seen[step]
        torch.testing.assert_close(averages[step], wanted)


def test_the_average_of_a_short_run_is_near_the_weights(toy: Any, fit: Any, tmp_path: Path) -> None:
    short = {"train_steps": 13, "train_eval_every": 13}
    final = fit(toy(train_ema=0.999, train_evaluate_weights="ema", **short), folder(tmp_path / "ema")).final
    plain = fit(toy(train_ema=None, **short), folder(tmp_path / "plain")).final
    assert final["val/loss"] == pytest.approx(plain["val/loss"], abs=0.1)


def test_the_schedule_moves_the_rate_from_step_to_step(toy: Any, fit: Any, run_dir: Path) -> None:
    from raycipe.framework.registry import build

    fit(toy(train_log_every=1), run_dir)
    schedule = build({"type": "cosine"}, "schedules")
    for row in rows(run_dir, "train/lr"):
        assert row["train/lr"] == 0.01 * schedule.factor(row["step"] - 1, 75)


def test_best_checkpoints_stay_and_are_told(toy: Any, fit: Any, run_dir: Path) -> None:
    keep = {"metric": "val/loss", "mode": "max", "count": 2}  # the worst ones come first
    summary = fit(toy(train_keep_best=keep, train_keep=1), run_dir)
    values = [row["val/loss"] for row in rows(run_dir, "val/loss")]
    first, second = sorted(values, reverse=True)[:2]
    assert summary.best["val/loss"] == {"value": first, "step": 15 * (values.index(first) + 1)}
    steps = {15 * (values.index(value) + 1) for value in (first, second)}
    assert {entry["step"] for entry in summary.checkpoints} == steps | {75}
    assert {entry["step"] for entry in summary.checkpoints if entry["best"]} == steps


def test_training_stops_when_nothing_improves(toy: Any, fit: Any, run_dir: Path) -> None:
    stop = {"metric": "val/accuracy", "mode": "max", "patience": 2, "min_delta": 2.0}
    summary = fit(toy(train_early_stop=stop), run_dir)
    assert (summary.status, summary.stopped, summary.steps) == ("done", "early_stop", 45)
    assert "test/loss" in summary.final
    again = fit(toy(train_early_stop=stop), run_dir, True)
    assert (again.stopped, again.steps) == ("early_stop", 45)


def test_a_metric_that_nobody_reports_is_told_with_those_that_are(toy: Any, fit: Any, run_dir: Path) -> None:
    with pytest.raises(
        RunError, match=r"nothing had reported val/acuracy by step 15\n    this run reports train/accuracy, .*val/acc"
    ):
        task = {"type": "poisoned", "example": -1}  # it leaves open what it reports
        fit(toy(task=task, train_early_stop={"metric": "val/acuracy", "mode": "max"}), run_dir)


@pytest.mark.parametrize("key", ["keep_best", "early_stop"])
@pytest.mark.parametrize(
    ("metric", "val", "words"),
    [
        ("val/acuracy", 9, r"nothing reports val/acuracy\n    this run reports val/loss, val/accuracy\Z"),
        ("val/f1", 9, r"nothing reports val/f1\n    this run reports val/loss, val/accuracy\Z"),
        ("train/grad_norm", 9, r"nothing reports train/grad_norm\n .*train/loss, train/accuracy, train/lr\Z"),
        (
            "test/accuracy",
            9,
            r"test/accuracy is only known at the end of the run\n    choose a metric of an evaluation",
        ),
        ("val/loss", 0, r"nothing reports val/loss: the data has no `val` split\n"),
    ],
)
def test_a_metric_to_judge_by_that_no_evaluation_reports_is_refused_at_the_start(
    toy: Any, key: str, metric: str, val: int, words: str
) -> None:
    from raycipe.framework.registry import build

    recipe = toy(**{f"train_{key}": {"metric": metric, "mode": "min"}})
    data = build({"type": "blobs"}, "data")
    splits = data.load(0)
    if not val:
        del splits["val"]
    task = build("classification", "tasks", facts=data.facts)
    with pytest.raises(RunError, match=words) as caught:
        check_targets(recipe, splits, task)
    assert caught.value.where == f"train.{key}.metric"


def test_metrics_that_do_not_add_up_are_judged_on_val_only(toy: Any) -> None:
    from raycipe.framework.registry import build

    data = build({"type": "blobs"}, "data")
    splits = data.load(0)
    task = build({"type": "classification", "metrics": ["f1"]}, "tasks", facts=data.facts)
    check_targets(toy(train_keep_best={"metric": "val/f1", "mode": "max"}), splits, task)
    with pytest.raises(RunError, match="nothing reports train/f1"):
        check_targets(toy(train_keep_best={"metric": "train/f1", "mode": "max"}), splits, task)
    check_targets(toy(train_clip_norm=1.0, train_early_stop={"metric": "train/grad_norm", "mode": "min"}), splits, task)


def test_a_run_that_judges_by_an_unknown_metric_does_not_start(toy: Any, fit: Any, run_dir: Path) -> None:
    with pytest.raises(RunError, match="nothing reports val/f1"):
        fit(toy(train_keep_best={"metric": "val/f1", "mode": "max"}), run_dir)
    assert not (run_dir / "metrics.jsonl").exists()


def test_the_minutes_of_a_run_end_it_with_a_checkpoint(toy: Any, fit: Any, run_dir: Path) -> None:
    summary = fit(toy(train_minutes=1e-9), run_dir)
    assert (summary.status, summary.stopped, summary.steps) == ("done", "minutes", 1)
    assert summary.checkpoints[-1]["step"] == 1 and "test/loss" in summary.final


def test_a_nan_loss_names_step_worker_and_examples_and_keeps_the_last_good_checkpoint(
    toy: Any, fit: Any, run_dir: Path
) -> None:
    recipe = toy(task={"type": "poisoned", "example": 7}, train_shuffle=False, train_batch_size=2, train_log_every=50)
    recipe["train"].update(steps=100, checkpoint_every=1, eval_every=50)
    recipe["train"].pop("epochs")
    with pytest.raises(RunError) as caught:
        fit(recipe, run_dir)
    assert caught.value.step == 4 and caught.value.kind == "nonfinite"
    assert "the loss became nan at step 4 on worker 0 (examples 6, 7; lr 0.00998)" in str(caught.value)
    assert "the last good checkpoint is of step 3" in str(caught.value)
    assert read(max((run_dir / "checkpoints").glob("step-*"))).step == 3


@pytest.mark.parametrize("exchange", ["flat", "ddp", "drift"])
def test_a_nan_on_one_of_two_workers_is_found_before_the_next_checkpoint(
    toy: Any, fit: Any, world: Any, run_dir: Path, exchange: str
) -> None:
    recipe = toy(
        task={"type": "poisoned", "example": 147}, train_shuffle=False, train_batch_size=4, train_log_every=50,
        model={"type": "net", "norm": False},
    )  # fmt: skip
    recipe["train"].update(steps=100, checkpoint_every=6, eval_every=50, parallel="ddp" if exchange == "ddp" else None)
    recipe["train"].pop("epochs")
    if exchange == "drift":
        recipe["optimizer"] = {"type": "drift", "lr": 0.1, "every": 10}
    errors = world(2, lambda rank: fit(recipe, run_dir)).errors()
    assert set(errors) == {0, 1}
    for kind, text, _ in errors.values():
        assert kind == "RunError"
        assert "the loss became nan at step 37 on worker 1 (examples 146, 147;" in text
        assert "the last good checkpoint is of step 36" in text


def test_single_bad_batches_can_be_left_out(toy: Any, fit: Any, run_dir: Path) -> None:
    summary = fit(toy(task={"type": "poisoned", "example": 7}, train_on_nonfinite="skip", train_epochs=2), run_dir)
    assert summary.steps == 30
    assert summary.warnings[0].endswith("was left out: its loss is not finite") and len(summary.warnings) == 2
    assert all(isinstance(row["train/loss"], float) for row in rows(run_dir, "train/loss"))


@pytest.mark.parametrize("parallel", [None, "ddp"])
def test_two_workers_leave_out_the_same_step(
    toy: Any, fit: Any, world: Any, run_dir: Path, parallel: str | None
) -> None:
    recipe = toy(task={"type": "poisoned", "example": 7}, train_on_nonfinite="skip", train_parallel=parallel)
    first, second = world(2, lambda rank: fit(recipe, run_dir)).gather()
    assert first.warnings == second.warnings and len(first.warnings) == 5
    assert first.final == second.final and first.final["test/accuracy"] > 0.9


def test_eleven_bad_batches_in_a_row_end_the_run(toy: Any, fit: Any, run_dir: Path) -> None:
    model = {"type": "net", "dropout": 0.0}

    def spoil(session: Any, event: str) -> None:
        if event == "start":
            session.splits["train"].tensors["x"].fill_(float("inf"))
            session.feed._source.tensors["x"].fill_(float("inf"))

    with pytest.raises(RunError, match="the loss became nan at step 11 "):
        fit(toy(model=model, train_on_nonfinite="skip"), run_dir, hooks=[spoil])


def test_weights_that_became_nan_are_not_saved(toy: Any, fit: Any, run_dir: Path) -> None:
    def spoil(session: Any, event: str) -> None:
        if event == "log" and session.step == 30:
            with torch.no_grad():
                session.model.last.bias.fill_(float("nan"))

    with pytest.raises(RunError, match="the weights became NaN or infinite by step 30"):
        fit(toy(), run_dir, hooks=[spoil])
    assert read(max((run_dir / "checkpoints").glob("step-*"))).step == 15


def test_a_shortage_of_memory_is_told_with_sizes_and_advice(toy: Any, fit: Any, run_dir: Path) -> None:
    def grab(session: Any, event: str) -> None:
        if event == "start":
            torch.empty(2**60)

    with pytest.raises(RunError) as caught:
        fit(toy(), run_dir, hooks=[grab])
    assert caught.value.kind == "memory" and "batches of 20 examples per worker" in str(caught.value)
    assert "set train.accumulate=2" in str(caught.value)
    with pytest.raises(
        RunError, match=r"(?s)batches of 1 example per worker .* 1 worker\).*\n    make the model smaller\Z"
    ):
        fit(toy(train_batch_size=2, train_accumulate=2), run_dir, hooks=[grab])


def test_a_model_too_large_to_build_is_told_with_its_sizes(toy: Any, fit: Any, run_dir: Path) -> None:
    with pytest.raises(RunError) as caught:
        fit(toy(model={"type": "net", "width": 2**28}), run_dir)
    text = str(caught.value)
    assert (caught.value.kind, caught.value.where) == ("memory", "model")
    assert text.startswith("out of memory while the model was built: its 72,057,5")
    assert "parameters take 288230393.3 GB, with their gradients 576460786.7 GB, with two moments" in text
    assert "in each worker: tried to allocate " in text and "alloc_cpu" not in text and "make the model smaller" in text


def test_bf16_trains_and_fp16_on_a_cpu_is_refused(toy: Any, fit: Any, tmp_path: Path) -> None:
    summary = fit(toy(train_precision="bf16"), folder(tmp_path / "bf16"))
    assert summary.final["test/accuracy"] > 0.9
    with pytest.raises(RunError, match="fp16 is for GPUs") as caught:
        fit(toy(train_precision="fp16"), folder(tmp_path / "fp16"))
    assert caught.value.where == "train.precision"


@pytest.mark.slow
def test_a_compiled_model_trains_to_the_same_numbers(toy: Any, fit: Any, tmp_path: Path) -> None:
    model = {"type": "net", "dropout": 0.0}
    finals = [
        fit(toy(model=model, train_compile=compiled, train_epochs=1), folder(tmp_path / str(compiled))).final
        for compiled in (False, True)
    ]
    assert finals[0] == pytest.approx(finals[1], abs=1e-3)
    tensors = read(max((tmp_path / "True" / "checkpoints").glob("step-*"))).tensors("model.safetensors")
    assert "first.weight" in tensors


def test_training_starts_from_the_weights_of_an_earlier_run(toy: Any, tmp_path: Path) -> None:
    keep = {"metric": "val/loss", "mode": "max"}
    first, second = folder(tmp_path / "first"), folder(tmp_path / "second")
    train(TrainPlan(toy(train_keep_best=keep), str(first)))
    for which, step in (("last", 75), ("best", 15), (60, 60)):
        recipe = toy(start={"run": str(first), "checkpoint": which}, train_ema=None)
        seen: list[dict[str, torch.Tensor]] = []

        def look(session: Any, event: str, seen: list[Any] = seen) -> None:
            if event == "start":
                seen.append({name: value.clone() for name, value in session.model.state_dict().items()})

        train(TrainPlan(recipe, str(second), start_dir=str(first)), hooks=[look])
        wanted = read(first / "checkpoints" / f"step-{step:08d}").tensors("model.safetensors")
        assert all(torch.equal(seen[0][name], value) for name, value in wanted.items())
    for which, words in (
        (7, "has no checkpoint of step 7\n    it has: 15, 60, 75"),
        ("last", "does not fit the model"),
    ):
        recipe = toy(start={"run": str(first), "checkpoint": which}, model={"type": "net", "width": 9})
        with pytest.raises(RunError, match=words):
            train(TrainPlan(recipe, str(second), start_dir=str(first)))


def test_labels_out_of_range_are_refused_before_training(toy: Any, fit: Any, run_dir: Path, monkeypatch: Any) -> None:
    from raycipe.framework.registry import get

    blobs: Any = get("data", "blobs")
    load = blobs.load

    def wrong(self: Any, seed: int) -> Any:
        splits = load(self, seed)
        splits["val"].tensors["y"][5] = 3
        return splits

    monkeypatch.setattr(blobs, "load", wrong)
    with pytest.raises(RunError, match=r"(?s)val.*5.*3"):
        fit(toy(), run_dir)


def test_an_empty_split_is_told(toy: Any, fit: Any, run_dir: Path) -> None:
    with pytest.raises(RunError, match="the `val` split is empty"):
        fit(toy(data={"type": "blobs", "val": 0}), run_dir)


def test_due_names_what_falls_on_a_step() -> None:
    due = Due({"log": 4, "evaluate": 6}, 0, 15)
    assert due.next == 4 and due.at(4) == {"log"}
    assert due.next == 6 and due.at(6) == {"evaluate"}
    assert due.next == 8
    assert due.at(12) == {"log", "evaluate"} and due.next == 15
    assert due.at(15) == {"log", "evaluate"}


def test_lengths_and_cadences_come_in_epochs_or_steps() -> None:
    def length(**train: Any) -> tuple[int, int, int]:
        found = Length.of(Settings.of({"train": train}), 20)
        return found.total_steps, found.eval_every, found.checkpoint_every

    assert length() == (200, 20, 20)
    assert length(epochs=3, eval_every=2, checkpoint_every=1) == (60, 40, 20)
    assert length(steps=50, eval_every=5) == (50, 5, 20)


def test_global_settings_of_torch_are_given_back(toy: Any, fit: Any, run_dir: Path) -> None:
    seen: list[Any] = []
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(False)  # RLlib leaves them on
    try:
        fit(toy(train_epochs=1), run_dir, hooks=[lambda session, event: seen.append(torch.get_num_threads())])
        assert set(seen) == {1} and torch.get_num_threads() == 2
        assert not torch.are_deterministic_algorithms_enabled()
    finally:
        torch.set_num_threads(1)
