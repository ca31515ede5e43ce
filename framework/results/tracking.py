"""Trackers: each reported row also goes to TensorBoard, MLflow or Weights & Biases, through their own libraries.

Where a tracker's server is and who may write to it belongs to the machine (the library's own variables and
configuration), never to the recipe. A tracker that fails must not lose a run: it is switched off, with one warning.
"""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from raycipe.framework.errors import RunError
from raycipe.framework.files import Follower
from raycipe.framework.results.compare import leaves
from raycipe.framework.results.curves import NOT_METRICS
from raycipe.framework.runs import Run, final_values

Options = Mapping[str, Any]  # project, experiment, tags


class Tracker(ABC):
    """One destination."""

    @abstractmethod
    def log(self, step: int, metrics: Mapping[str, float]) -> None: ...

    @abstractmethod
    def close(self, result: Mapping[str, Any]) -> None: ...


_quiet_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
_shown_before = threading.excepthook


def _hook(arguments: threading.ExceptHookArgs) -> None:
    """TensorBoard's thread hands its failure to the next call, which tells it: no traceback on the terminal."""
    if arguments.thread not in _quiet_threads:
        _shown_before(arguments)


threading.excepthook = _hook


class TensorBoard(Tracker):
    """Event files under `<run>/tensorboard`: `tensorboard --logdir runs` shows them."""

    def __init__(self, run: Run, recipe: Mapping[str, Any], options: Options, start_step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        before = {thread.ident for thread in threading.enumerate()}
        self.writer = SummaryWriter(str(run.path / "tensorboard"), purge_step=start_step or None)
        _quiet_threads.update(thread for thread in threading.enumerate() if thread.ident not in before)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self.writer.add_scalar(name, value, step)

    def close(self, result: Mapping[str, Any]) -> None:
        self.log(result.get("steps") or 0, final_values(dict(result)))
        self.writer.close()


class MLflow(Tracker):
    """A run in MLflow: parameters are the resolved recipe's leaves. The server is MLFLOW_TRACKING_URI's."""

    def __init__(self, run: Run, recipe: Mapping[str, Any], options: Options, start_step: int) -> None:
        import mlflow

        self.client = mlflow.MlflowClient()
        name = options.get("experiment") or recipe["name"]
        known = self.client.get_experiment_by_name(name)
        experiment = known.experiment_id if known else self.client.create_experiment(name)
        tags = {str(key): str(value) for key, value in tags_of(options).items()} | {"raycipe.run": run.id}
        found = self.client.search_runs([experiment], f"tags.`raycipe.run` = '{run.id}'", max_results=1)
        if found:  # a resumed run goes on in its own record
            self.run_id = found[0].info.run_id
            return
        self.run_id = self.client.create_run(experiment, run_name=run.id, tags=tags).info.run_id
        for key, value in leaves(recipe).items():
            self.client.log_param(self.run_id, key, str(value)[:500])

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        rows = [Metric(name, value, 0, step) for name, value in metrics.items()]
        self.client.log_batch(self.run_id, metrics=rows)

    def close(self, result: Mapping[str, Any]) -> None:
        self.log(result.get("steps") or 0, final_values(dict(result)))
        self.client.set_terminated(self.run_id, "FINISHED" if result.get("status") == "done" else "FAILED")


class WeightsAndBiases(Tracker):
    """A run in Weights & Biases; `wandb login` and WANDB_MODE say where it goes."""

    def __init__(self, run: Run, recipe: Mapping[str, Any], options: Options, start_step: int) -> None:
        import wandb

        self.run = wandb.init(
            project=options.get("project") or recipe["name"],
            id=run.id,
            resume="allow",
            dir=str(run.path),
            config=dict(recipe),
            tags=[f"{key}={value}" for key, value in tags_of(options).items()],
            settings=wandb.Settings(silent=True),
        )

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.run.log(dict(metrics), step=step)

    def close(self, result: Mapping[str, Any]) -> None:
        self.run.summary.update(final_values(dict(result)))
        self.run.finish(exit_code=0 if result.get("status") == "done" else 1)


TRACKERS: dict[str, Callable[[Run, Mapping[str, Any], Options, int], Tracker]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WeightsAndBiases,
}


def tags_of(options: Options) -> Mapping[str, Any]:
    tags = options.get("tags") or {}
    return tags if isinstance(tags, Mapping) else {str(tag): "true" for tag in tags}


class Tracking:
    """All trackers that a recipe's `track:` names. They open at the first row, so that a launch waits for none."""

    def __init__(self, run: Run, recipe: Mapping[str, Any], warn: Callable[[str], None], start_step: int = 0) -> None:
        wanted = recipe.get("track", ["tensorboard"]) or {}
        self.options: dict[str, Options] = (
            {name: options or {} for name, options in wanted.items()}
            if isinstance(wanted, Mapping)
            else {name: {} for name in wanted}
        )
        self.run, self.recipe, self.warn, self.start_step = run, recipe, warn, start_step
        self.follower = Follower(run.path / "metrics.jsonl")
        self.open: dict[str, Tracker] | None = None

    def require(self) -> None:
        """Refuse before the run starts if a tracker's library is missing."""
        from importlib.util import find_spec

        for name in self.options:
            if name != "tensorboard" and find_spec(name) is None:
                raise RunError(
                    "track", f"track: {name} is not installed", f'pip install "raycipe[{name}]"', where="track"
                )

    def poll(self) -> None:
        """Pass on the rows that have come since the last call."""
        if not self.options:
            return
        for row in self.follower.rows():
            if self.open is None:
                self.open = {}
                for name, options in self.options.items():
                    self._guard(name, lambda name=name, options=options: self._start(name, options))  # type: ignore[misc]
            step = int(row["step"])
            metrics = {
                key: float(value)
                for key, value in row.items()
                if key not in NOT_METRICS and isinstance(value, (int, float))
            }
            if step > self.start_step:
                for name, tracker in list(self.open.items()):
                    self._guard(name, lambda t=tracker, s=step, m=metrics: t.log(s, m))  # type: ignore[misc]

    def close(self, result: Mapping[str, Any]) -> None:
        self.poll()
        for name, tracker in list((self.open or {}).items()):
            self._guard(name, lambda t=tracker: t.close(result))  # type: ignore[misc]

    def _start(self, name: str, options: Options) -> None:
        assert self.open is not None
        self.open[name] = TRACKERS[name](self.run, self.recipe, options, self.start_step)

    def _guard(self, name: str, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - any failure of a foreign service; the run's own files are complete
            self.warn(f"track: {name} switched off: {type(error).__name__}: {error}")
            if self.open is not None:
                self.open.pop(name, None)
