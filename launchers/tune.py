"""Runs a recipe's sweep with Ray Tune: many trials, each a run folder of its own in the sweep's `trials`.

Those folders are the truth: a resumed sweep reads them, and Tune's own state, which is pickles, is thrown away.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raycipe.launchers.background import Background
from raycipe.launchers.outcome import Progress, Say, outcome_of
from raycipe.launchers.tune_check import check_trials
from raycipe.launchers.tune_slots import Slots, refuse_trial

if TYPE_CHECKING:
    from raycipe.framework.recipe import Recipe

EVERY_S = 0.25  # between looks at the board
KEPT_CHECKPOINTS = 4  # of Tune's own copies for population based training


def run(
    recipe: Recipe,
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
    """Run every trial that is still open; gives the launcher's part of result.json, whose `final` is the best trial's.

    The arguments are those of `raycipe.launchers.train.run`, the recipe whole: its trials are variations of it.
    `progress` gets the live table.
    """
    from raycipe.launchers.ray_session import set_environment

    set_environment(insecure, dashboard)  # before anything imports Ray
    sweep = _Sweep(recipe, run_dir, roots, progress, on_info)
    flags = {"insecure": insecure, "verbose": verbose, "dashboard": dashboard}
    return outcome_of(run_dir, lambda: sweep.on_ray(prepare, flags))


class _Sweep:
    """One attempt at a sweep."""

    def __init__(self, recipe: Recipe, run_dir: str, roots: Sequence[Any], progress: Progress, on_info: Say) -> None:
        from raycipe.framework.runs import Run
        from raycipe.framework.training.signals import stop_file
        from raycipe.launchers.trial import Base
        from raycipe.launchers.tune_schedulers import settings
        from raycipe.launchers.tune_search import Plan, import_optuna

        self.recipe, self.run = recipe, Run(run_dir)
        self.progress, self.on_info = progress, on_info
        self.sweep: dict[str, Any] = recipe.plain["sweep"]
        if self.sweep["search"] == "optuna":
            import_optuna()
        self.scheduler = settings(self.sweep, recipe.plain.get("train") or {})
        self.slots = Slots(recipe.plain, self.scheduler["type"])
        self.plan = Plan(self.run, self.sweep, recipe.plain["seed"])
        self.base = Base(run_dir, [tuple(root) for root in roots], files_under(recipe))
        self.stop = stop_file(run_dir)
        check_trials(recipe, files_under(recipe))

    def on_ray(self, prepare: Callable[[], None], flags: Mapping[str, bool]) -> dict[str, Any]:
        import ray

        from raycipe.launchers.ray_session import a_ray, ray_facts
        from raycipe.launchers.stopping import graceful
        from raycipe.launchers.tune_end import conclude_sweep

        config = {"recipe": self.recipe.plain, "run_dir": str(self.run), "roots": self.base.roots}

        def fits(there: Mapping[str, float], where: str) -> None:
            refuse_trial(self.slots, there, where)

        with a_ray(config, prepare, fits, self.on_info, **flags) as url:
            places = self.slots.places(ray.cluster_resources(), self.sweep.get("concurrent"))
            shown = f"{places} at a time" if places > 1 else "one at a time"
            left = len(self.plan.open)
            self.on_info(f"{left} of {self.plan.count} trials to run, {shown}")
            with graceful(str(self.run), self.on_info, STOPPING):
                self._fit(places)
            facts = ray_facts(url)
        outcome = conclude_sweep(self.recipe, self.run, self.plan, self.on_info)
        if self.stop.exists():
            outcome["status"], outcome["error"] = "interrupted", None
        elif self.plan.out_of_time:
            outcome["stopped"] = "minutes"
        return {**outcome, "ray": facts}

    def _fit(self, places: int) -> None:
        from raycipe.launchers.tune_board import Board

        board = Board(self.plan, self.base, self.on_info)
        home = self.run.path / ".ray"
        tuner = self._tuner(board, home, places)
        fitting = Background(lambda: tuner.fit() and None)
        try:
            while not fitting.done:
                time.sleep(EVERY_S)
                self.progress({"line": board.head(), "table": board.table})
            fitting.wait()
        finally:
            shutil.rmtree(home, ignore_errors=True)

    def _tuner(self, board: Any, home: Path, places: int) -> Any:
        from ray import tune

        from raycipe.framework.streams import numpy_generator
        from raycipe.launchers.tune_schedulers import build, replay
        from raycipe.launchers.tune_search import Proposer
        from raycipe.launchers.tune_trial import TrialActor

        set_tune_environment()
        resources = self.recipe.plain.get("resources") or {}
        metric, mode = next(iter(self.plan.objectives.items()))
        config = {
            "base": tuple(self.base),
            "goal": (metric, mode),
            "scheduler": self.scheduler,
            "max_failures": self.sweep["max_failures"],
        }
        scheduler = build(self.scheduler, self.sweep, numpy_generator(self.recipe.plain["seed"], "sweep/pbt"))
        replay(scheduler, self.scheduler["type"], earlier_curves(self.plan, metric, mode))
        population = self.scheduler["type"] == "pbt"
        proposer = None if population else Proposer(self.plan, config, self.stop.exists)
        limit = places if self.slots.is_nested else None
        return tune.Tuner(
            tune.with_resources(TrialActor, self.slots.request(places)),
            param_space=_population(config, self.plan) if population else {},
            tune_config=tune.TuneConfig(
                search_alg=proposer,
                scheduler=scheduler,
                num_samples=1 if population else max(1, len(self.plan.open)),
                max_concurrent_trials=limit,
                reuse_actors=True,
                trial_name_creator=lambda trial: f"trial-{trial.trial_id}",
                trial_dirname_creator=lambda trial: f"trial-{trial.trial_id}",
            ),
            run_config=tune.RunConfig(
                name="tune",
                storage_path=str(home),
                verbose=0,
                callbacks=[board],
                stop=_stopper(self.stop.exists),
                failure_config=tune.FailureConfig(max_failures=int(resources.get("max_failures", 2))),
                checkpoint_config=tune.CheckpointConfig(num_to_keep=KEPT_CHECKPOINTS, checkpoint_at_end=False),
            ),
        )


STOPPING = "stopping: each running trial saves a checkpoint (press Ctrl-C again to stop at once)"


def _population(config: Mapping[str, Any], plan: Any) -> dict[str, Any]:
    """The configs of trials that all exist from the start, which population based training asks for."""
    from ray import tune

    by_number = {number: plan.changes(number) for number in plan.open}
    return {
        **config,
        "number": tune.grid_search(list(by_number)),
        "changes": tune.sample_from(lambda config: by_number[config["number"]]),
    }


def _stopper(wanted: Callable[[], bool]) -> Any:
    """Tells Tune to end when somebody wishes so."""
    from ray.tune import Stopper
    from ray.tune.stopper import NoopStopper

    class OnRequest(Stopper):  # type: ignore[misc]
        def __call__(self, trial_id: str, result: Any) -> bool:
            return False

        def stop_all(self) -> bool:
            return wanted()

        def __reduce__(self) -> Any:
            return NoopStopper, ()

    return OnRequest()


def set_tune_environment() -> None:
    """Tune leaves signals to the launcher, and writes none of the files that our run folders hold."""
    for name, value in {
        "TUNE_DISABLE_SIGINT_HANDLER": "1",
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
        "TUNE_WARN_THRESHOLD_S": "60",
        "RAY_AIR_NEW_OUTPUT": "0",
    }.items():
        os.environ.setdefault(name, value)
    # it looks for those files at the end, and would tell of each that it misses
    logging.getLogger("ray.tune.analysis.experiment_analysis").setLevel(logging.ERROR)


def earlier_curves(plan: Any, metric: str, mode: str) -> dict[str, list[tuple[int, float]]]:
    """The trials that an earlier attempt has ended, as the scheduler saw them: [(evaluations, score)]."""
    from raycipe.launchers.tune_schedulers import score

    found = {}
    for number in sorted(plan.done):
        folder = plan.folder(number)
        values = [row[metric] for row in folder.rows() if metric in row]
        found[folder.path.name] = [(count, score(value, mode)) for count, value in enumerate(values, 1)]
    return found


def files_under(recipe: Recipe) -> str | None:
    """The folder that holds every file which the checked recipe reads: its trials may read them too."""
    folders = [str(Path(file).parent) for file in recipe.files]
    return os.path.commonpath(folders) if folders else None
