"""Runs a recipe with `env` and `agent` on RLlib's new API stack.

The algorithm lives in this process; its env runners and learners are Ray actors, or live here too where `resources`
says 0. RLlib itself needs a Ray even then.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from raycipe.framework.errors import NotStarted, RecipeError
from raycipe.launchers.demand import refuse_agents_demand
from raycipe.launchers.train import clear_signals, describe, empty_outcome, fill_from_folder, left_by_component

Progress = Callable[[dict[str, Any]], None]
Say = Callable[[str], None]


def run(
    recipe: Mapping[str, Any],
    run_dir: str,
    *,
    resume: bool,
    roots: Sequence[Any] = (),
    progress: Progress = lambda row: None,
    on_info: Say = lambda text: None,
    prepare: Callable[[], None] = lambda: None,
    insecure: bool = False,
    verbose: bool = False,
    dashboard: bool = False,
) -> dict[str, Any]:
    """Train an agent and evaluate it; gives the launcher's part of result.json, whose `error` tells of a failed run.

    The arguments are those of `raycipe.launchers.train.run`; `step` in rows and progress counts environment steps.
    """
    from raycipe.launchers.progress import Follower

    clear_signals(run_dir)
    outcome = empty_outcome()
    follower = Follower(run_dir, progress, on_info)
    config = {"recipe": dict(recipe), "run_dir": run_dir, "resume": resume, "roots": [tuple(root) for root in roots]}
    try:
        outcome.update(_on_ray(config, prepare, follower, on_info, insecure, verbose, dashboard))
    except (RecipeError, NotStarted):
        raise
    except KeyboardInterrupt:
        outcome["status"] = "interrupted"
    except SystemExit as error:
        if error.code == signal.SIGTERM:  # Ray's own handler, while it starts
            outcome["status"] = "interrupted"
        else:
            outcome.update(status="failed", error=describe(left_by_component(error), run_dir))
    except Exception as error:  # noqa: BLE001 - whatever failed: the run folder must tell it
        outcome.update(status="failed", error=describe(error, run_dir))
    follower.last()
    clear_signals(run_dir)
    if outcome["status"] != "done":
        fill_from_folder(outcome, run_dir)
    return outcome


def _on_ray(
    config: Mapping[str, Any],
    prepare: Callable[[], None],
    follower: Any,
    on_info: Say,
    insecure: bool,
    verbose: bool,
    dashboard: bool,
) -> dict[str, Any]:
    import threading

    from raycipe.launchers.ray_session import a_ray, ray_facts
    from raycipe.launchers.stopping import graceful

    def fits(there: Mapping[str, float], where: str) -> None:
        refuse_agents_demand(config["recipe"], there, where)

    flags = {"insecure": insecure, "verbose": verbose, "dashboard": dashboard}
    with a_ray(config, prepare, fits, on_info, **flags) as url:
        from raycipe.launchers.rllib_session import train  # imports RLlib: after Ray's settings are made

        ended = threading.Event()
        with graceful(config["run_dir"], on_info):
            thread = follower.follow(ended)
            try:
                summary = train(config)
            finally:
                ended.set()
                thread.join()
        return {**summary, "ray": ray_facts(url)}
