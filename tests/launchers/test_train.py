"""The train launcher: in this process, on Ray, stopped, killed, refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from raycipe.framework import plugins
from raycipe.framework.errors import NotStarted, RecipeError, RunError
from raycipe.launchers import cluster, demand, ray_session, train
from raycipe.launchers.progress import Follower


def recipe(num_workers: Any = 0, **changes: Any) -> dict[str, Any]:
    return {
        "recipe": 1,
        "name": "toy",
        "seed": 1,
        "data": {"type": "digits"},
        "model": {"type": "mlp", "hidden": [16]},
        "task": {"type": "classification"},
        "optimizer": {"type": "sgd", "lr": 0.1, "momentum": 0.9},
        "train": {"epochs": 2, "batch_size": 64, "log_every": 10},
        "measures": [{"type": "parameter_count"}],
        "resources": {"num_workers": num_workers},
        **changes,
    }


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "toy" / "2026-01-01-000000-aaaa"
    for name in ("checkpoints", "artifacts"):
        (folder / name).mkdir(parents=True)
    return folder


def launch(plain: dict[str, Any], folder: Path, resume: bool = False, **given: Any) -> dict[str, Any]:
    return train.run(plain, str(folder), resume=resume, **given)


def weights(folder: Path) -> bytes:
    newest = max((folder / "checkpoints").glob("step-*"))
    return (newest / "model.safetensors").read_bytes()


def metrics(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name not in ("seconds", "attempt")} for row in lines]


def test_a_run_in_this_process_gives_results_rows_and_measures(run_dir: Path) -> None:
    told: list[dict[str, Any]] = []
    prepared: list[str] = []
    result = launch(recipe(), run_dir, progress=told.append, prepare=lambda: prepared.append("yes"))
    assert result["status"] == "done" and result["error"] is None and prepared == ["yes"]
    assert result["steps"] == told[-1]["step"] == told[-1]["total_steps"] == 38
    assert result["final"]["measure/parameter_count/total"] == 64 * 16 + 16 + 16 * 10 + 10
    assert 0.5 < result["final"]["test/accuracy"] <= 1
    assert [entry["path"] for entry in result["checkpoints"]] == [
        "checkpoints/step-00000019",
        "checkpoints/step-00000038",
    ]


def test_mistakes_found_while_preparing_pass_through(run_dir: Path) -> None:
    def prepare() -> None:
        raise RecipeError([])

    with pytest.raises(RecipeError):
        launch(recipe(), run_dir, prepare=prepare)


def test_a_failed_run_tells_why_and_what_is_left(run_dir: Path) -> None:
    plain = recipe(optimizer={"type": "sgd", "lr": 1e30}, train={"epochs": 2, "batch_size": 64, "log_every": 1})
    result = launch(plain, run_dir)
    assert result["status"] == "failed"
    assert result["error"]["type"] == "nonfinite" and result["error"]["where"] == "optimizer"
    assert "the loss became" in result["error"]["message"] and result["error"]["step"] >= 2
    assert result["final"]["train/loss"] > 0 and result["steps"] >= 1


def test_an_exception_of_a_component_is_told_with_its_place_and_a_traceback_in_the_log(
    run_dir: Path, monkeypatch: Any
) -> None:
    from raycipe.framework.registry import get

    def broken(self: Any, model: Any, batch: Any) -> Any:
        raise KeyError("my mistake")

    monkeypatch.setattr(get("tasks", "classification"), "loss", broken)
    result = launch(recipe(), run_dir)
    assert result["error"]["type"] == "KeyError"
    assert "'my mistake'" in result["error"]["message"] and "test_train.py" in result["error"]["message"]
    assert "Traceback" in (run_dir / "log.txt").read_text()


def test_ctrl_c_saves_and_resuming_gives_the_unbroken_result(run_dir: Path, tmp_path: Path) -> None:
    plain = recipe(train={"epochs": 400, "batch_size": 64, "eval_every": 400, "checkpoint_every": 400})
    said: list[str] = []

    def interrupt(row: dict[str, Any]) -> None:
        if 0 < row["step"] < row["total_steps"] and not said:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    result = launch(plain, run_dir, progress=interrupt, on_info=said.append)
    assert signal.getsignal(signal.SIGINT) is before
    assert said == ["saving a checkpoint before stopping (press Ctrl-C again to stop at once)"]
    assert result["status"] == "interrupted" and result["stopped"] == "user"
    assert 0 < result["steps"] < 7600 and result["checkpoints"][-1]["step"] == result["steps"]
    assert launch(plain, run_dir, resume=True)["status"] == "done"
    other = tmp_path / "other"
    (other / "checkpoints").mkdir(parents=True)
    launch(plain, other)
    assert weights(run_dir) == weights(other)
    assert metrics(run_dir) == metrics(other)


def test_a_second_signal_ends_at_once_and_the_older_checkpoint_stays(run_dir: Path) -> None:
    plain = recipe(train={"epochs": 100000, "batch_size": 64, "eval_every": 100000, "checkpoint_every": 1})

    def interrupt(row: dict[str, Any]) -> None:
        if row["step"] > 19 and not interrupted:
            interrupted.append(1)
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, signal.SIGTERM)
            signal.pthread_kill(main, signal.SIGTERM)
            time.sleep(0.05)
            signal.pthread_kill(main, signal.SIGTERM)

    interrupted: list[int] = []
    result = launch(plain, run_dir, progress=interrupt)
    assert result["status"] == "interrupted" and result["checkpoints"]


def test_a_demand_beyond_the_machine_is_refused_before_anything_starts(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_session, "ray_runs", lambda: False)  # other tests share a Ray in this process
    has = demand.local_resources()["CPU"]
    many = int(has) + 3
    with pytest.raises(NotStarted) as caught:
        launch(recipe(many), run_dir)
    assert caught.value.where == "resources.num_workers"
    assert str(caught.value) == (
        f"{many} workers with 1 CPU each ask for {many}; this machine has {has:g}\n"
        f"    set resources.num_workers={int(has)} (0 workers train in the launching process, without Ray)"
    )


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"memory_per_worker": "500TB"},
            "2 workers with 500,000 GB of memory each ask for 1,000,000; this machine has ",
        ),
        ({"gpus_per_worker": 2}, "2 workers with 2 GPUs each ask for 4; this machine has 1"),
    ],
)
def test_memory_and_gpus_that_are_not_there_are_refused_before_ray_starts(
    asked: dict[str, Any], message: str, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_session, "ray_runs", lambda: False)
    monkeypatch.setattr(ray_session, "start_ray", lambda *words: pytest.fail("Ray was started"))
    monkeypatch.setattr(demand, "local_gpus", lambda: 1.0)
    plain = recipe(2)
    plain["resources"] = {"num_workers": 2, "cpus_per_worker": 0.5, **asked}
    with pytest.raises(NotStarted, match="lower resources|num_workers") as caught:
        launch(plain, run_dir)
    assert str(caught.value).startswith(message)


def test_this_machine_has_the_gpus_of_torch_and_its_memory() -> None:
    assert demand.local_gpus() == torch.cuda.device_count()
    assert 1e8 < demand.local_resources()["memory"] < 1e15
    demand.refuse_if_too_large({"resources": {"num_workers": 1, "custom": {"fpga": 1}}}, {"CPU": 1.0}, "this machine")


def test_every_resource_is_compared_with_what_the_cluster_has() -> None:
    there = {"CPU": 8.0, "memory": 16e9}

    def refusal(**resources: Any) -> str:
        with pytest.raises(RunError) as caught:
            demand.refuse_if_too_large({"resources": resources}, there, "the Ray cluster")
        return str(caught.value)

    assert "2 workers with 1 GPU each ask for 2; the Ray cluster has 0" in refusal(num_workers=2, gpus_per_worker=1)
    assert "lower resources.gpus_per_worker" in refusal(num_workers=2, gpus_per_worker=1)
    assert "2 workers with 10 GB of memory each ask for 20" in refusal(num_workers=2, memory_per_worker="10GB")
    assert "3 workers with 2 fpga each ask for 6" in refusal(num_workers=[3, 4], custom={"fpga": 2})
    demand.refuse_if_too_large({"resources": {"num_workers": 16, "cpus_per_worker": 0.5}}, there, "the Ray cluster")


def test_ray_without_authentication_is_refused_unless_asked_for(monkeypatch: Any) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(RunError, match="RAY_AUTH_MODE=disabled: anyone who reaches this machine"):
        ray_session.set_environment(insecure=False, dashboard=False)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    ray_session.set_environment(insecure=False, dashboard=False)
    assert os.environ["RAY_AUTH_MODE"] == "token" and os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


def test_a_ray_that_starts_too_slowly_is_tried_again(monkeypatch: Any) -> None:
    calls: list[int] = []

    def slow(*_: Any) -> str:
        calls.append(1)
        if len(calls) < ray_session.MAX_STARTS:
            raise Exception("The current node timed out during startup.")
        return "here"

    said: list[str] = []
    monkeypatch.setattr(ray_session, "_init", slow)
    monkeypatch.setattr(ray_session, "stop_ray", lambda: None)
    assert ray_session.start_ray({}, False, False, said.append) == "here"
    assert said == ["Ray did not start within its 30 s: trying again"] * (ray_session.MAX_STARTS - 1)
    monkeypatch.setattr(ray_session, "MAX_STARTS", 1)
    calls.clear()
    monkeypatch.setattr(ray_session, "_init", lambda *_: (_ for _ in ()).throw(Exception("timed out")))
    with pytest.raises(RunError, match="Ray did not start in 1 tries"):
        ray_session.start_ray({}, False, False, said.append)


def test_the_cause_of_a_failure_is_told_before_its_consequences() -> None:
    class WorkerHealthCheckFailedError(Exception):
        pass

    lost, dead = RuntimeError("[gloo] Connection closed by peer"), WorkerHealthCheckFailedError("killed")
    cause = ValueError("mine")
    assert cluster.primary({0: lost, 1: cause}) is cause
    assert str(cluster.primary({0: lost, 1: dead})) == "worker 1 died"
    assert str(cluster.primary({0: lost})) == "worker 0 lost the connection to another one"
    told = RunError("nonfinite", "the loss")
    assert cluster.primary({0: cause, 1: told}) is told


def test_scaling_follows_the_resources_section() -> None:
    found = cluster.scaling(
        {"resources": {"num_workers": [1, 3], "cpus_per_worker": 2, "placement": "spread", "memory_per_worker": "1GB"}}
    )
    assert found.num_workers == (1, 3) and not found.use_gpu and found.placement_strategy == "SPREAD"
    assert found.resources_per_worker == {"CPU": 2.0, "memory": 1e9}


def test_progress_has_rate_and_rest_and_follows_rows_that_were_cut(run_dir: Path) -> None:
    told: list[dict[str, Any]] = []
    said: list[str] = []
    follower = Follower(str(run_dir), told.append, said.append)
    follower.poll()
    assert told == []

    def news(step: int, at: float, warnings: list[str]) -> None:
        entry = {"step": step, "total_steps": 100, "epoch": step / 50, "examples": 8 * step, "time": at}
        (run_dir / "progress.json").write_text(json.dumps({**entry, "warnings": warnings}))
        follower.poll()

    rows = run_dir / "metrics.jsonl"
    rows.write_text('{"step":10,"train/loss":2.0}\n{"step":2')
    news(10, 100.0, [])
    news(30, 102.0, ["resumed"])
    head = {"total_steps": 100, "unit": "examples"}
    assert told[0] == {**head, "step": 10, "epoch": 0.2, "train/loss": 2.0}
    assert told[1] == {**head, "step": 30, "epoch": 0.6, "examples_per_s": 80.0, "eta_s": 7.0}
    rows.write_text('{"step":5,"val/loss":"NaN"}\n')
    news(5, 103.0, ["resumed", "again"])
    assert told[2]["step"] == 5 and "examples_per_s" not in told[2] and told[2]["val/loss"] != told[2]["val/loss"]
    assert said == ["warning: resumed", "warning: again"]


def test_a_gpu_that_is_not_there_is_told(run_dir: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    plain = recipe(resources={"num_workers": 0, "gpus_per_worker": 1})
    with pytest.raises(NotStarted, match="asks for GPUs .1 per worker., and torch sees none here"):
        launch(plain, run_dir)


# ------------------------------------------------------------------------------------------------ Ray


@pytest.mark.ray
def test_one_worker_on_ray_gives_the_bits_of_none(ray_session: Any, run_dir: Path, tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    result = launch(recipe(1), run_dir, progress=told.append)
    assert result["error"] is None and result["status"] == "done"
    assert result["ray"]["version"] == ray_session.__version__ and result["ray"]["nodes"] == 1
    assert told[-1]["step"] == 38 and "test/accuracy" in {name for row in told for name in row}
    assert not (run_dir / ".ray").exists()
    alone = tmp_path / "alone"
    (alone / "checkpoints").mkdir(parents=True)
    assert launch(recipe(0), alone)["final"] == result["final"]
    assert weights(run_dir) == weights(alone) and metrics(run_dir) == metrics(alone)


def worker_pids() -> list[int]:
    """The processes of Ray Train's workers."""
    pids = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                command = (path / "cmdline").read_bytes()
            except OSError:  # it ended meanwhile
                continue
            if command.startswith(b"ray::RayTrainWorker") or b"_RayTrainWorker__execute" in command:
                pids.append(int(path.name))
    return sorted(pids)


@pytest.mark.ray
@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_the_result_is_that_of_an_unbroken_run(
    ray_session: Any, run_dir: Path, tmp_path: Path
) -> None:
    train_section = {"epochs": 60, "batch_size": 64, "log_every": 10, "eval_every": 10, "checkpoint_every": 1}
    plain = recipe(2, train=train_section)
    said: list[str] = []
    killed: list[int] = []

    def kill(row: dict[str, Any]) -> None:
        if row["step"] > 40 and not killed:
            killed.append(worker_pids()[-1])
            os.kill(killed[0], signal.SIGKILL)

    result = launch(plain, run_dir, progress=kill, on_info=said.append)
    assert result["error"] is None and killed
    assert any("starting again from the newest checkpoint (1 of 2)" in line for line in said)
    unbroken = tmp_path / "unbroken"
    (unbroken / "checkpoints").mkdir(parents=True)
    two_processes(plain, unbroken)
    assert weights(run_dir) == weights(unbroken) and metrics(run_dir) == metrics(unbroken)


RANK = """
import json, sys
import torch
torch.distributed.init_process_group("gloo", init_method=sys.argv[1], rank=int(sys.argv[2]), world_size=2)
from raycipe.framework.comm import TorchComm
from raycipe.launchers.train import work
work(json.loads(sys.argv[3]), TorchComm(), "cpu")
"""


def two_processes(plain: dict[str, Any], folder: Path) -> None:
    """The same run in two processes without Ray."""
    config = {"recipe": plain, "run_dir": str(folder), "resume": False, "start_dir": None, "roots": []}
    command = [sys.executable, "-c", RANK, f"file://{folder}/meeting"]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [subprocess.Popen([*command, str(rank), json.dumps(config)], env=environment) for rank in range(2)]
    assert [process.wait(120) for process in ranks] == [0, 0]


@pytest.mark.ray
@pytest.mark.slow
def test_an_elastic_run_takes_the_workers_that_fit(ray_session: Any, run_dir: Path) -> None:
    result = launch(recipe([1, 2]), run_dir)
    assert result["error"] is None and result["steps"] == 38


@pytest.mark.ray
@pytest.mark.slow
def test_an_exception_in_one_worker_is_told_once_without_another_try(
    ray_session: Any, run_dir: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "only_here"
    (folder / "tasks").mkdir(parents=True)
    (folder / "tasks" / "moody.py").write_text(MOODY)
    root = plugins.add_folder(str(folder))
    try:
        said: list[str] = []
        result = launch(recipe(2, task={"type": "moody"}), run_dir, roots=[root], on_info=said.append)
    finally:
        plugins._added.remove(root)
    assert result["status"] == "failed" and result["error"]["type"] == "ValueError"
    assert "I will not do example" in result["error"]["message"]
    assert not any("starting again" in line or "example 1" in line for line in said)


MOODY = """
from raycipe.framework.contracts import Loss, Task
from raycipe.framework.registry import register
import torch

@register
class Moody(Task):
    \"\"\"Fails on one rank.\"\"\"

    def loss(self, model, batch):
        if torch.distributed.get_rank() == 1:
            raise ValueError("I will not do example 1")
        outputs = model(batch["x"])
        return Loss(torch.nn.functional.cross_entropy(outputs, batch["y"]), outputs)
"""
