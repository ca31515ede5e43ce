"""Training on Ray: starts it, compares the demand with what there is, runs a TorchTrainer, and tells failures in words.

A worker that dies takes its group with it; the group is started again from the newest checkpoint, up to
`resources.max_failures` times. An exception of a component ends the run at once: trying again would repeat it.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from raycipe.framework.errors import RunError
from raycipe.launchers.progress import Follower
from raycipe.launchers.stopping import graceful

Say = Callable[[str], None]
ENVIRONMENT = {
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",  # the default, 2 s, delays every report and the end of the run
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # paths and prints of components mean the same as in the driver
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # on this machine nobody preempts
}
WORDS = {
    "CPU": ("cpus_per_worker", "CPUs"),
    "GPU": ("gpus_per_worker", "GPUs"),
    "memory": ("memory_per_worker", "bytes of memory"),
}
SIZES = {"MB": 10**6, "GB": 10**9, "TB": 10**12}


def run_on_ray(
    config: Mapping[str, Any],
    prepare: Callable[[], None],
    follower: Follower,
    on_info: Say,
    insecure: bool,
    verbose: bool,
    dashboard: bool,
) -> dict[str, Any]:
    """Train with Ray Train. Raises RunError for failures that a user can act on."""
    recipe = config["recipe"]
    set_environment(insecure, dashboard)
    with output_to_log(config["run_dir"], verbose):
        ours = not _ray_runs()
        if ours:
            refuse_if_too_large(recipe, local_resources(), "this machine")
        # Ray starts in the main thread: its processes die with the thread that made them.
        preparing = Background(prepare)
        try:
            url = start_ray(config, verbose, dashboard) if ours else None
            preparing.wait()
            import ray

            refuse_if_too_large(recipe, ray.cluster_resources(), "the Ray cluster")
            if url:
                on_info(f"dashboard: {url}")
            with graceful(config["run_dir"], on_info):
                summary = fit_until_done(config, follower, on_info)
            return {**summary, "ray": ray_facts(url)}
        finally:
            if ours:
                stop_ray()


# ---------------------------------------------------------------------------------------------- Ray itself


def set_environment(insecure: bool, dashboard: bool) -> None:
    """Must run before Ray is imported. Raises RunError if somebody turned authentication off."""
    if insecure:
        os.environ["RAY_AUTH_MODE"] = "disabled"
    elif os.environ.get("RAY_AUTH_MODE", "token") != "token":
        raise RunError(
            "security",
            f"RAY_AUTH_MODE={os.environ['RAY_AUTH_MODE']}: anyone who reaches this machine could run code in this Ray",
            "unset it; Raycipe uses token authentication",
        )
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if dashboard:
        os.environ.setdefault("RAY_TRAIN_ENABLE_STATE_TRACKING", "1")


def _ray_runs() -> bool:
    """Whether this process is connected to a Ray that somebody else started (a notebook, a test, a Ray job)."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def start_ray(config: Mapping[str, Any], verbose: bool, dashboard: bool) -> str | None:
    """A Ray of our own, on this machine alone; gives the dashboard's address."""
    import logging

    import ray
    from ray.job_config import JobConfig

    context = ray.init(
        address="local",
        include_dashboard=dashboard,
        log_to_driver=True,
        logging_level=logging.INFO if verbose else logging.WARNING,
        job_config=JobConfig(metadata=metadata(config["recipe"], config["run_dir"])),
    )
    return f"http://{context.dashboard_url}" if context.dashboard_url else None


def stop_ray() -> None:
    import ray

    ray.shutdown()


def metadata(recipe: Mapping[str, Any], run_dir: str) -> dict[str, str]:
    """What Ray shows of a job: the recipe's name and hash."""
    from raycipe.framework.runs import Run

    digest = Run(run_dir).read("provenance.json").get("recipe_hash") or ""
    return {"recipe": str(recipe.get("name", "")), "recipe_hash": digest[:12]}


def ray_facts(dashboard_url: str | None) -> dict[str, Any]:
    """For provenance: version, nodes, resources, the dashboard's address."""
    import ray

    resources = {
        name: amount
        for name, amount in ray.cluster_resources().items()
        if not name.startswith(("node:", "accelerator_type:"))
    }
    return {
        "version": ray.__version__,
        "nodes": len([node for node in ray.nodes() if node["Alive"]]),
        "resources": resources,
        "dashboard_url": dashboard_url,
    }


class Background:
    """Work in a thread; `wait` gives its failure."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again by `wait`
            self.error = error

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def finish(self) -> None:
        self._thread.join()

    def wait(self) -> None:
        self.finish()
        if self.error is not None:
            raise self.error


@contextmanager
def output_to_log(run_dir: str, verbose: bool) -> Iterator[None]:
    """Inside, all output of this process and of what it starts goes to log.txt; the display has its own terminal."""
    if verbose:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    log = os.open(Path(run_dir) / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    kept = [os.dup(1), os.dup(2)]
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, old in zip((1, 2), kept, strict=True):
            os.dup2(old, number)
            os.close(old)
        os.close(log)


# ---------------------------------------------------------------------------------------------- resources


def demand(recipe: Mapping[str, Any]) -> tuple[int, dict[str, float]]:
    """(fewest workers, what each takes by Ray's resource names)."""
    resources = recipe.get("resources") or {}
    workers = resources.get("num_workers", 1)
    each = {"CPU": float(resources.get("cpus_per_worker", 1)), "GPU": float(resources.get("gpus_per_worker") or 0)}
    memory = resources.get("memory_per_worker")
    if memory:
        each["memory"] = float(memory[:-2]) * SIZES[memory[-2:]]
    each.update({name: float(amount) for name, amount in (resources.get("custom") or {}).items()})
    fewest = workers[0] if isinstance(workers, (list, tuple)) else workers
    return int(fewest), {name: amount for name, amount in each.items() if amount}


def local_resources() -> dict[str, float]:
    """What Ray will find on this machine, as far as that is known before it starts."""
    return {"CPU": float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)}


def refuse_if_too_large(recipe: Mapping[str, Any], there: Mapping[str, float], where: str) -> None:
    """Raise RunError at once instead of waiting for ever; resources that `there` does not speak of are left alone."""
    workers, each = demand(recipe)
    known = {**there, **({} if where == "this machine" else dict.fromkeys(each.keys() - there.keys(), 0.0))}
    for name, amount in each.items():
        if name in known and workers * amount > known[name] + 1e-9:
            key, unit = WORDS.get(name, ("custom", name))
            most = int(known[name] // amount)
            hint = f"set resources.num_workers={most}" if most else f"lower resources.{key}"
            asked = f"{workers} workers with {amount:g} {unit} each ask for {workers * amount:g}"
            raise RunError(
                "resources",
                f"{asked}; {where} has {known[name]:g}",
                f"{hint} (0 workers train in the launching process, without Ray)",
                "resources",
            )


# ---------------------------------------------------------------------------------------------- training


def fit_until_done(config: Mapping[str, Any], follower: Follower, on_info: Say) -> dict[str, Any]:
    """Fit, and again after a worker's death while the recipe allows it."""
    allowed = int((config["recipe"].get("resources") or {}).get("max_failures", 2))
    for failures in range(allowed + 1):
        attempt = {**config, "resume": config["resume"] or failures > 0}
        try:
            return fit(attempt, follower)
        except WorkerDied as death:
            if failures == allowed:
                raise RunError("worker", f"{death} (restarted {failures} times before)", HINT_DIED) from death
            on_info(f"{death}: starting again from the newest checkpoint ({failures + 1} of {allowed})")
    raise AssertionError("the loop above always ends by itself")


HINT_DIED = "a worker is ended from outside when memory runs out: see log.txt; resources.max_failures allows more tries"


class WorkerDied(Exception):
    """A worker's process ended without an exception of its own."""


def fit(config: Mapping[str, Any], follower: Follower) -> dict[str, Any]:
    """One TorchTrainer. Raises what rank's own exception was, or WorkerDied."""
    import ray.train
    from ray.train.torch import TorchTrainer

    from raycipe.launchers.worker import loop

    home = Path(config["run_dir"]) / ".ray"
    trainer = TorchTrainer(
        loop,
        train_loop_config={**config, "metadata": metadata(config["recipe"], config["run_dir"])},
        scaling_config=scaling(config["recipe"]),
        run_config=ray.train.RunConfig(
            name=f"attempt-{time.time_ns()}",  # a name that was there before would make Ray resume silently
            storage_path=str(home),
            worker_runtime_env={"env_vars": {"RAY_CHDIR_TO_TRIAL_DIR": "0", "OMP_NUM_THREADS": "1"}},
        ),
    )
    results: list[Any] = []
    fitting = Background(lambda: results.append(trainer.fit()))
    try:
        follower.wait(lambda: fitting.done)
        fitting.wait()
    except ray.train.WorkerGroupError as error:
        raise primary(error.worker_failures) from error
    finally:
        shutil.rmtree(home, ignore_errors=True)
    summary: dict[str, Any] = results[0].return_value
    return summary


def scaling(recipe: Mapping[str, Any]) -> Any:
    from ray.train import ScalingConfig

    resources = recipe.get("resources") or {}
    workers = resources.get("num_workers", 1)
    _, each = demand(recipe)
    return ScalingConfig(
        num_workers=tuple(workers) if isinstance(workers, (list, tuple)) else workers,  # Ray refuses a list
        use_gpu="GPU" in each,
        resources_per_worker=each,
        placement_strategy=str(resources.get("placement", "pack")).upper(),
    )


CONNECTION = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "connectFullMesh", "Gloo")


def primary(failures: Mapping[int, BaseException]) -> BaseException:
    """The failure that caused the others: not the one of a rank that lost its connection to it."""

    def order(rank: int) -> tuple[int, int]:
        error = failures[rank]
        if isinstance(error, RunError):
            return 0, rank
        if type(error).__name__ == "WorkerHealthCheckFailedError":
            return 2, rank
        return (3 if any(word in str(error) for word in CONNECTION) else 1), rank

    rank = min(failures, key=order)
    if order(rank)[0] == 2:
        return WorkerDied(f"worker {rank} died")
    if order(rank)[0] == 3:
        return WorkerDied(f"worker {rank} lost the connection to another one")
    return failures[rank]
