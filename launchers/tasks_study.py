"""A study: every variation of the recipe as a run of its own, and what they say together.

A training with several workers runs in a Ray task that takes next to nothing: its workers are Ray Train's, beside it.
Only as many variations run at a time as their workers fit, so that none waits for a place that another one holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raycipe.framework.errors import Problem, RecipeError, RunError, counted
from raycipe.framework.words import listed
from raycipe.launchers.outcome import describe

if TYPE_CHECKING:
    from raycipe.framework.contracts import Ended, Study, Variation
    from raycipe.framework.recipe import Recipe
    from raycipe.framework.runs import Run
    from raycipe.launchers.tasks import Job
    from raycipe.launchers.trial import Base

STOPPING = "stopping: each run saves a checkpoint (press Ctrl-C again to stop at once)"
WATCHING_CPUS = 0.0  # of a task whose workers are elsewhere: they may need every CPU there is
POLL_S = 0.1
SHOWN = 3  # names of runs in one line


def run_study(job: Job, flags: Mapping[str, bool]) -> dict[str, Any]:
    """Run every variation that is still open, then conclude."""
    from raycipe.framework.registry import build

    study: Study = build(job.recipe.nodes.value["study"], "studies", "study")
    variations = checked_variations(job.recipe, study)
    if not (job.resources.get("num_workers", 1) or job.resources.get("num_env_runners")):
        job.prepare()
        return _run_all(job, study, variations)
    from raycipe.launchers.ray_session import a_ray, ray_facts

    config = {"recipe": job.plain, "run_dir": str(job.run), "roots": job.roots}
    size = Size(job.plain)
    with a_ray(config, job.prepare, size.require, job.on_info, **flags) as url:
        job.places = size.places()
        return {**_run_all(job, study, variations), "ray": ray_facts(url)}


def checked_variations(recipe: Recipe, study: Study) -> list[Variation]:
    """The study's variations. Raises RecipeError, at the study's place, if one is no recipe or can't be built."""
    from raycipe.framework import catalogue
    from raycipe.framework.registry import build
    from raycipe.framework.variation import vary
    from raycipe.launchers.tune import files_under

    node = recipe.nodes.value["study"]
    schema, root = catalogue.load(), files_under(recipe)
    problems: dict[str, Problem] = {}
    try:
        variations = study.variations(recipe.plain)
    except ValueError as error:  # the study's word on its arguments
        raise RecipeError([Problem("out-of-range", node.at, "study", str(error))]) from error
    for variation in variations:
        try:
            found = vary(recipe, variation.changes, schema=schema, data_root=root)
            if "estimator" in found.plain:  # its own rules are asked, too
                build(found.nodes.value["estimator"], "estimators", "estimator", {"seed": found.plain["seed"]})
        except RecipeError as error:
            for problem in error.problems:
                words = f"{problem.path}: {problem.message}" if problem.path else problem.message
                told = f"run {variation.name}: {words}"
                problems.setdefault(words, Problem("section", node.at, "study", told, problem.hint))
    if problems:
        raise RecipeError(list(problems.values()))
    names = [variation.name for variation in variations]
    assert len(set(names)) == len(names), "a study names each of its runs differently"
    return variations


class Size:
    """What one variation takes of the cluster, the largest where the number of workers varies."""

    def __init__(self, recipe: Mapping[str, Any]) -> None:
        from raycipe.launchers.demand import demand
        from raycipe.launchers.launch import launcher_of

        self.recipe = {name: value for name, value in recipe.items() if name != "study"}
        self.resources = recipe.get("resources") or {}
        launcher = launcher_of(self.recipe)
        workers, each = demand({"resources": {**self.resources}})
        self.each = each
        if launcher == "rllib":
            self.workers = 1 + sum(int(self.resources.get(key, 0)) for key in ("num_env_runners", "num_learners"))
        else:
            trains = "task" in recipe
            self.workers = max(1, workers) if trains else 1
        self.is_nested = self.workers > 1

    def require(self, there: Mapping[str, float], where: str) -> None:
        """Raise NotStarted at once if not even one variation can be placed."""
        from raycipe.launchers.demand import refuse_agents_demand, refuse_if_too_large

        if "agent" in self.recipe:
            refuse_agents_demand(self.recipe, there, where)
        else:
            refuse_if_too_large({"resources": {**self.resources, "num_workers": self.workers}}, there, where)

    def places(self) -> Any:
        """How many variations run at a time: as many as fit."""
        import ray

        from raycipe.launchers.fan_out import Places
        from raycipe.launchers.tasks import task_options

        there = ray.cluster_resources()
        total = {name: self.workers * amount for name, amount in self.each.items() if amount}
        count = max(1, min(int(there.get(name, 0.0) / amount + 1e-9) for name, amount in total.items()))
        if not self.is_nested:
            return Places(count, task_options(self.each, self.resources))
        # The process ends with its run: Ray Train's actors, and the CPUs that they hold, belong to it.
        return Places(count, {**task_options({"CPU": WATCHING_CPUS}, self.resources), "max_calls": 1})


def _run_all(job: Job, study: Study, variations: Sequence[Variation]) -> dict[str, Any]:
    from raycipe.framework.runs import TRIALS, Run
    from raycipe.launchers.fan_out import Tally, fan_out
    from raycipe.launchers.stopping import graceful
    from raycipe.launchers.trial import Base, not_run
    from raycipe.launchers.tune import files_under

    if "data" in job.plain:
        from raycipe.framework.training.loading import load_data

        job.keep_to_data(load_data(job.plain)[1])  # runs that have ended stay as they are
    base = Base(str(job.run), job.roots, files_under(job.recipe))
    results = {each.name: _result_of(job, Run(job.run.path / TRIALS / each.name)) for each in variations}
    left = [each for each in variations if results[each.name].get("status") != "done"]
    at_a_time = f", {job.places.at_a_time} at a time" if job.places.at_a_time > 1 else ""
    job.on_info(f"{len(left)} of {counted(len(variations), 'run')} to do{at_a_time}")
    tally = Tally("run", len(variations), len(variations) - len(left), job.progress)

    def ended(number: int, result: dict[str, Any]) -> None:
        name = left[number].name
        results[name] = result
        if result["status"] == "failed":
            job.on_info(f"warning: run {name} failed: {(result.get('error') or {}).get('message')}")
        tally.end(result["status"] == "failed")

    def lost(number: int, what: str) -> dict[str, Any]:
        error = {
            "type": "worker",
            "message": f"its process was lost: {what}",
            "where": None,
            "step": None,
            "trial": None,
        }
        return not_run(base, left[number].name, left[number].changes, error)

    with graceful(str(job.run), job.on_info, STOPPING):
        items = [(each.name, dict(each.changes)) for each in left]
        fan_out(run_variation, base, items, job.places, on_end=ended, on_lost=lost, is_stopped=job.stop.exists)
    if any(result.get("status") == "interrupted" for result in results.values()):
        raise KeyboardInterrupt
    return conclude(job, study, variations, results)


def _result_of(job: Job, run: Run) -> dict[str, Any]:
    """A run's result, if it has one; a folder whose account is damaged is set right by running it again."""
    try:
        run.read("provenance.json")
        return run.read("result.json")
    except RunError as error:
        if error.kind != "storage" or error.hint:  # whole, but written by a newer Raycipe
            raise
        job.on_info(f"warning: {error.message}; this run is run again")
    for file in ("provenance.json", "result.json"):
        if (run.path / file).exists():
            (run.path / file).rename(run.path / f"damaged-{file}")
    return {}


def run_variation(base: Base, item: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """One variation, in a thread, so that Ctrl-C and a wish to stop the study reach it; runs in whatever process."""
    import time

    from raycipe.framework.training.signals import stop_file
    from raycipe.launchers.background import Background
    from raycipe.launchers.trial import Base, not_run, run_trial

    base, (name, changes) = Base(*base), item
    folder = Path(base.run_dir) / "trials" / name
    results: list[dict[str, Any]] = []
    whole, own = stop_file(base.run_dir), stop_file(folder)
    running = Background(lambda: results.append(run_trial(base, name, changes)))
    while not running.done:
        if whole.exists() and folder.is_dir() and not own.exists():
            own.touch()
        time.sleep(POLL_S)
    if running.error is None:
        return results[0]
    if not isinstance(running.error, Exception):
        raise running.error
    folder.mkdir(parents=True, exist_ok=True)
    return not_run(base, name, changes, describe(running.error, str(folder)))


def _require_told(job: Job, study: Study, done: Sequence[Ended]) -> None:
    """Tell runs without a number for the study's metric; where no run has one, nothing was found: the study failed."""
    metric = vars(study).get("metric")
    silent = [run for run in done if not math.isfinite(run.final.get(str(metric), math.nan))]
    if metric is None or not silent:
        return
    names = ", ".join(run.variation.name for run in silent[:SHOWN]) + (", ..." if len(silent) > SHOWN else "")
    if len(silent) < len(done):
        job.on_info(f"warning: {counted(len(silent), 'run')} ended without a number for {metric}: {names}")
        return
    known = [name for name, value in done[0].final.items() if math.isfinite(value)]
    message = f"no run reports {metric}"
    error = RunError("recipe", message, f"{done[0].variation.name} reports {listed(known)}", "study.metric")
    job.outcome.update(status="failed", error=describe(error, str(job.run)))


def conclude(
    job: Job, study: Study, variations: Sequence[Variation], results: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """What the study found. A failed run makes it failed, with the finding of the others: `--resume` tries again."""
    from raycipe.framework.contracts import Ended
    from raycipe.framework.measuring import write
    from raycipe.framework.runs import TRIALS

    type_ = job.plain["study"]["type"]
    runs = [Ended(each, job.run.path / TRIALS / each.name, results[each.name]) for each in variations]
    failed = [run for run in runs if not run.is_done]
    if len(failed) < len(runs):
        found = study.conclude(job.plain, runs)
        values = {f"study/{type_}/{name}": value for name, value in found.values.items()}
        job.find(values, write(found, type_, job.run.path, parquet=True))
        job._record()
        _require_told(job, study, [run for run in runs if run.is_done])
    if failed:
        first = failed[0]
        said = (first.result.get("error") or {}).get("message")
        message = f"{len(failed)} of {counted(len(runs), 'run')} failed; {first.variation.name}: {said}"
        error = {"type": "trial", "message": message, "where": None, "step": None, "trial": first.variation.name}
        job.outcome.update(status="failed", error=error)
    return job.outcome
