"""Runs a recipe with `env` and `agent` on RLlib's new API stack.

The algorithm lives in this process; its env runners and learners are Ray actors, or live here too where `resources`
says 0. RLlib itself needs a Ray even then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from raycipe.launchers.demand import refuse_agents_demand
from raycipe.launchers.outcome import Progress, Say, outcome_with_rows


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

    follower = Follower(run_dir, progress, on_info)
    config = {"recipe": dict(recipe), "run_dir": run_dir, "resume": resume, "roots": [tuple(root) for root in roots]}

    def body() -> Mapping[str, Any]:
        return _on_ray(config, prepare, follower, on_info, insecure, verbose, dashboard)

    return outcome_with_rows(run_dir, body, follower.last)


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
