"""Runs estimators, editors, measures, predictions and studies: as Ray tasks, or in this process.

The sections run in one order: what is trained or fitted (`task`, `estimator`, or `start`), `editor`, `measures`,
`predict`. With `study` the recipe itself is not run but its variations, each of which is a run of its own.

Parts that run at the same time are bounded by `resources`: 0 workers run everything in the launching process. What has
ended is recorded in the run folder, and a resume does not run it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raycipe.framework.errors import RunError
from raycipe.launchers.outcome import Progress, Say, empty_outcome, outcome_of

if TYPE_CHECKING:
    from raycipe.framework.recipe import Recipe

STOPPING = "stopping when the parts that run have ended (press Ctrl-C again to stop at once)"


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
    """The launcher's part of result.json; the arguments are those of `launchers.train.run`, the recipe whole."""
    job = Job(recipe, run_dir, resume, roots, progress, on_info, prepare)
    flags = {"insecure": insecure, "verbose": verbose, "dashboard": dashboard}
    return outcome_of(run_dir, lambda: job.go(flags))


class Job:
    """One attempt, and what its stages share."""

    def __init__(
        self,
        recipe: Recipe,
        run_dir: str,
        resume: bool,
        roots: Sequence[Any],
        progress: Progress,
        on_info: Say,
        prepare: Callable[[], None],
    ) -> None:
        from raycipe.framework.runs import Run
        from raycipe.framework.training.loading import with_start
        from raycipe.framework.training.signals import stop_file
        from raycipe.launchers.fan_out import Places
        from raycipe.launchers.tasks_start import check_start
        from raycipe.launchers.train import find_start_dir

        self.recipe, self.run, self.resume = recipe, Run(run_dir), resume
        self.roots, self.progress, self.on_info, self.prepare = (
            [tuple(root) for root in roots],
            progress,
            on_info,
            prepare,
        )
        self.start_dir = find_start_dir(recipe.plain, run_dir)
        self.plain = with_start(recipe.plain, self.start_dir)
        check_start(recipe.plain, self.plain, self.start_dir)
        self.seed = int(self.plain.get("seed") or 0)
        self.stop = stop_file(run_dir)
        self.places = Places(0)
        self.outcome = empty_outcome()
        self.values: dict[str, float] = {}  # of the stages, for one row of metrics at the end

    @property
    def resources(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.plain.get("resources") or {}
        return found

    @property
    def is_trial(self) -> bool:
        """Whether it is a part of a sweep or study, which has its own processes: then nothing fans out."""
        return self.run.parent is not None

    def go(self, flags: Mapping[str, bool]) -> dict[str, Any]:
        if "predict" in self.recipe.plain and self.start_dir is not None and "data" not in self.recipe.plain:
            from raycipe.launchers.tasks_start import check_prediction

            check_prediction(self.recipe.plain, self.plain)
        if "study" in self.plain:
            from raycipe.launchers.tasks_study import run_study

            return run_study(self, flags)
        if not self._needs_ray():
            return self._stages(flags, None)
        from raycipe.launchers.demand import refuse_if_too_large
        from raycipe.launchers.ray_session import a_ray, ray_facts

        config = {"recipe": self.plain, "run_dir": str(self.run), "roots": self.roots}

        def fits(there: Mapping[str, float], where: str) -> None:
            refuse_if_too_large(self.plain, there, where)

        with a_ray(config, self.prepare, fits, self.on_info, **flags) as url:
            self.prepare = lambda: None
            return {**self._stages(flags, self._options()), "ray": ray_facts(url)}

    def _needs_ray(self) -> bool:
        """One part at a time runs in this process, with the same numbers."""
        workers = self.resources.get("num_workers", 1)
        if self.is_trial:
            return False
        if "task" in self.plain and "task" in self.recipe.plain:
            return bool(workers)
        return isinstance(workers, list) or workers > 1

    def _options(self) -> Any:
        """What Ray reserves for each part that fans out after the training, and how often it tries a lost one again."""
        from raycipe.launchers.demand import demand
        from raycipe.launchers.fan_out import Places

        workers = self.resources.get("num_workers", 1)
        _, each = demand(self.plain)
        most = workers[-1] if isinstance(workers, (list, tuple)) else workers
        return Places(max(1, int(most)), task_options(each, self.resources))

    def _stages(self, flags: Mapping[str, bool], places: Any) -> dict[str, Any]:
        from raycipe.launchers.stopping import graceful

        if "task" in self.recipe.plain:
            self.outcome = self._train(flags)
            if self.outcome["status"] != "done":
                return self.outcome
        else:
            self.prepare()
        if places is not None:
            self.places = places
        with graceful(str(self.run), self.on_info, STOPPING):
            self._afterwards()
        self._record()
        return self.outcome

    def _train(self, flags: Mapping[str, bool]) -> dict[str, Any]:
        from raycipe.launchers import train
        from raycipe.launchers.trial import IN_PROCESS

        left_out = ["editor", "predict", *(["measures"] if "editor" in self.plain else [])]
        recipe = {name: value for name, value in self.recipe.plain.items() if name not in left_out}
        if self.is_trial and self.resources.get("num_workers", 1) in IN_PROCESS:
            return train.run_in_process(recipe, str(self.run), resume=self.resume, roots=self.roots, hooks=())
        return train.run(
            recipe,
            str(self.run),
            resume=self.resume,
            roots=self.roots,
            progress=self.progress,
            on_info=self.on_info,
            prepare=self.prepare,
            **flags,
        )

    def _afterwards(self) -> None:
        """Every stage after the training."""
        from raycipe.launchers import tasks_stages as stages

        recipe, trained = self.recipe.plain, None
        if "estimator" in self.plain and "task" not in self.plain:
            from raycipe.launchers.tasks_estimator import fit

            trained = fit(self)
        elif "editor" in recipe:
            trained = stages.edit(self)
        if "measures" in recipe and ("editor" in recipe or "task" not in recipe):
            if trained is None and stages.all_checkpoints(recipe):
                stages.measure_checkpoints(self)
            else:
                stages.measure(self, trained or stages.trained_of(self))
        if "predict" in recipe:
            from raycipe.launchers.tasks_predict import predict

            predict(self, trained or stages.trained_of(self))

    def _record(self) -> None:
        """One row with what the stages found, at the training's last step."""
        from raycipe.framework.training.rows import Rows

        if not self.values:
            return
        self.outcome["final"].update(self.values)
        rows = Rows(self.run.path / "metrics.jsonl")
        head = {"step": self.outcome["steps"] or 0, "epoch": self.outcome["epochs"], "seconds": 0.0}
        rows.add({**head, "attempt": max(0, rows.last_attempt()), **self.values})
        rows.close()

    def find(self, values: Mapping[str, float], artifacts: Sequence[Mapping[str, str]] = ()) -> None:
        """What a stage found: figures for the result, and files."""
        self.values.update({name: float(value) for name, value in values.items()})
        self.outcome["artifacts"].extend(artifacts)

    def log(self, text: str) -> None:
        with (self.run.path / "log.txt").open("a", encoding="utf-8") as log:
            log.write(text.rstrip() + "\n")

    def unit(self, name: str) -> Path:
        """The file in which a part's result is recorded as it ends."""
        folder = self.run.path / "units"
        folder.mkdir(exist_ok=True)
        return folder / f"{name}.json"

    def recorded(self, file: Path, is_sound: Callable[[Any], bool]) -> Any:
        """What a part's file holds; None where it has not ended, or where its file is damaged: then it runs again."""
        if not file.exists():
            return None
        content = _sound(file, is_sound)
        if content is None:
            self.on_info(f"warning: {file}: damaged; what it held is computed again")
        return content

    def keep_to_data(self, splits: Mapping[str, Any]) -> None:
        """Remember the data of parts that are recorded. Raises RunError in a resume whose data is not what it was."""
        from raycipe.framework.files import to_json, write_atomic
        from raycipe.framework.recorded import mapped, text
        from raycipe.framework.splits import digests
        from raycipe.framework.training.resumable import check_data

        file, found = self.unit("data"), {name: digests(split) for name, split in splits.items()}
        if self.resume and file.exists():
            before = _sound(file, mapped(mapped(text)))
            if before is None:
                message = f"{file}: damaged, so it can't be told whether the data has changed since"
                raise RunError("storage", message, "launch a new run")
            check_data(before, found)
        write_atomic(file, to_json(found))


def _sound(file: Path, is_sound: Callable[[Any], bool]) -> Any:
    """The content of a JSON file; None if it is damaged."""
    import json

    with suppress(ValueError, RecursionError):
        content = json.loads(file.read_text(encoding="utf-8"))
        if is_sound(content):
            return content
    return None


def task_options(each: Mapping[str, float], resources: Mapping[str, Any]) -> dict[str, Any]:
    """Ray's options of a task that takes what one worker takes."""
    special = {name: amount for name, amount in each.items() if name not in ("CPU", "GPU", "memory")}
    found = {
        "num_cpus": each.get("CPU", 0),
        "num_gpus": each.get("GPU", 0),
        "resources": special,
        "max_retries": int(resources.get("max_failures", 2)),
        "retry_exceptions": False,
    }
    return {**found, "memory": each["memory"]} if each.get("memory") else found
