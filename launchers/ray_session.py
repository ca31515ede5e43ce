"""A Ray of our own on this machine: its settings, its start and end, its output in the run's log."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from raycipe.framework.errors import RunError

Say = Callable[[str], None]
MAX_STARTS = 3
ENVIRONMENT = {
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",  # the default, 2 s, delays every report and the end of the run
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # paths and prints of components mean the same as in the driver
    "RAY_COLOR_PREFIX": "0",  # its output goes to a file
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # on this machine nobody preempts
}


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


@contextmanager
def a_ray(
    config: Mapping[str, Any],
    prepare: Callable[[], None],
    fits: Callable[[Mapping[str, float], str], None],
    on_info: Say,
    *,
    insecure: bool,
    verbose: bool,
    dashboard: bool,
) -> Iterator[str | None]:
    """A Ray while the body runs: the one of this process, or one of our own; gives its dashboard's address.

    `fits` gets resources and the name of what has them, and raises if the recipe asks for more: it is asked before Ray
    starts and again when it runs. `prepare` runs while Ray starts. `config` is what `start_ray` takes.
    """
    from raycipe.framework.training.signals import stop_file
    from raycipe.launchers.background import Background
    from raycipe.launchers.demand import local_resources
    from raycipe.launchers.stopping import STARTING, graceful

    set_environment(insecure, dashboard)
    with output_to_log(config["run_dir"], verbose):
        ours = not ray_runs()
        if ours:
            fits(local_resources(), "this machine")
        else:
            fits(_cluster_resources(), "the Ray cluster")
        # Ray starts in the main thread: its processes die with the thread that made them.
        preparing = Background(prepare)
        try:
            on_info("starting Ray ..." if ours else "using the Ray that runs in this process")
            with graceful(config["run_dir"], on_info, STARTING):  # a Ray that is cut off leaves its address behind
                url = start_ray(config, verbose, dashboard, on_info) if ours else None
                preparing.wait()
            if stop_file(config["run_dir"]).exists():
                raise KeyboardInterrupt
            fits(_cluster_resources(), "the Ray cluster")
            if url:
                on_info(f"dashboard: {url}")
            yield url
        finally:
            if ours:
                stop_ray()


def _cluster_resources() -> dict[str, float]:
    import ray

    return dict(ray.cluster_resources())


def ray_runs() -> bool:
    """Whether this process is connected to a Ray that somebody else started (a notebook, a test, a Ray job)."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def start_ray(config: Mapping[str, Any], verbose: bool, dashboard: bool, on_info: Say) -> str | None:
    """A Ray of our own, on this machine alone; gives the dashboard's address. Raises RunError if it does not start."""
    for tries_left in reversed(range(MAX_STARTS)):
        try:
            return _init(config, verbose, dashboard)
        except Exception as error:
            if "timed out" not in str(error):  # Ray gives its processes 30 s, too few on a busy machine
                raise
            stop_ray()
            if not tries_left:
                hint = "the machine is very busy, or too small: see log.txt, or train with resources.num_workers=0"
                raise RunError("ray", f"Ray did not start in {MAX_STARTS} tries", hint) from error
            on_info("Ray did not start within its 30 s: trying again")
    raise AssertionError("the loop above always ends by itself")


def _init(config: Mapping[str, Any], verbose: bool, dashboard: bool) -> str | None:
    import logging

    import ray
    from ray.job_config import JobConfig

    folders = [folder for _, folder, origin in config["roots"] if origin == "--components"]
    with children_in_own_groups():
        context = ray.init(
            address="local",
            include_dashboard=dashboard,
            log_to_driver=True,
            logging_level=logging.INFO if verbose else logging.WARNING,
            job_config=JobConfig(metadata=metadata(config["recipe"], config["run_dir"])),
            runtime_env={"py_modules": folders} if folders else None,
        )
    return f"http://{context.dashboard_url}" if context.dashboard_url else None


_parting = threading.local()  # `.is_on` in a thread whose children leave our process group


def _leave_group() -> None:
    if getattr(_parting, "is_on", False):
        os.setpgrp()


os.register_at_fork(after_in_child=_leave_group)  # Ray forks its processes in a way that runs this; it can't be undone


@contextmanager
def children_in_own_groups() -> Iterator[None]:
    """Inside, processes that this thread starts leave our process group.

    A signal for the whole group (`timeout`, `kill %1`, a batch system) then reaches the launch alone, and Ray lives
    until the run is saved. Ray's processes end with ours all the same: the kernel sees to that.
    """
    _parting.is_on = True
    try:
        yield
    finally:
        _parting.is_on = False


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
