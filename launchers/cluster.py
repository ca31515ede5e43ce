"""Training on Ray: starts it, compares the demand with what there is, runs a TorchTrainer, and tells failures in words.

A worker that dies takes its group with it; the group is started again from the newest checkpoint, up to
`resources.max_failures` times. An exception of a component ends the run at once: trying again would repeat it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from raycipe.framework.errors import RunError
from raycipe.launchers.background import Background
from raycipe.launchers.demand import demand, refuse_if_too_large
from raycipe.launchers.progress import Follower
from raycipe.launchers.ray_session import a_ray, metadata, ray_facts
from raycipe.launchers.stopping import graceful

Say = Callable[[str], None]


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

    def fits(resources: Mapping[str, float], where: str) -> None:
        refuse_if_too_large(recipe, resources, where)

    with a_ray(config, prepare, fits, on_info, insecure=insecure, verbose=verbose, dashboard=dashboard) as url:
        on_info("starting the workers ...")
        with graceful(config["run_dir"], on_info):
            summary = fit_until_done(config, follower, on_info)
        return {**summary, "ray": ray_facts(url)}


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
