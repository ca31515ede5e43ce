"""Which evaluations are the best so far, and when training no longer improves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raycipe.framework.contracts import Task
from raycipe.framework.errors import RunError
from raycipe.framework.expect import read_metric
from raycipe.framework.splits import Split
from raycipe.framework.training.plan import Settings, Target


class Judge:
    """`best` maps each judged metric to its best evaluations, best first: as many as `keep_best` keeps, else one.

    Early stopping compares with a value of its own, `reference`: the mode may be another one, and a gain below
    `min_delta` does not move it (else many small ones would never add up to a gain).
    """

    def __init__(self, recipe: Mapping[str, Any], settings: Settings) -> None:
        self.keep, self.stop = settings.keep_best, settings.early_stop
        sweep = recipe.get("sweep") or {}
        found = [Target(sweep["metric"], sweep.get("mode", "min"))] if sweep.get("metric") else []
        found += [target for target in (self.stop, self.keep) if target]
        self.targets = {target.metric: target for target in found}
        self.best: dict[str, list[dict[str, float]]] = {}
        self.reference: float | None = None
        self.without_gain = 0

    @property
    def needed(self) -> bool:
        return self.keep is not None or self.stop is not None

    @property
    def needs_log(self) -> bool:
        """Whether a judged metric comes from the rows of training, which then are written at evaluations, too."""
        return any(target and not target.metric.startswith("val/") for target in (self.keep, self.stop))

    @property
    def is_patience_over(self) -> bool:
        return self.stop is not None and self.without_gain >= self.stop.patience

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "reference": self.reference, "without_gain": self.without_gain}

    def restore(self, state: Mapping[str, Any], before: Mapping[str, Any]) -> None:
        """Take up `state`, of a run whose `train` section was `before`; what was judged otherwise then is left out."""
        keep, stop = before.get("keep_best") or {}, before.get("early_stop") or {}
        self.best = dict(state["best"])
        if self.keep is not None and keep and self.keep.mode != keep.get("mode", "min"):
            self.best.pop(self.keep.metric, None)
        if self.stop is not None and (self.stop.metric, self.stop.mode) == (
            stop.get("metric"),
            stop.get("mode", "min"),
        ):
            self.reference, self.without_gain = state["reference"], state["without_gain"]

    def look(self, latest: Mapping[str, float], step: int) -> tuple[bool, bool]:
        """Judge the newest values: (one of the best to keep, time to stop)."""
        is_best = False
        for metric, target in self.targets.items():
            if metric not in latest:
                if any(judged and judged.metric == metric for judged in (self.keep, self.stop)):
                    raise _unknown(metric, latest, step)
                continue
            is_best |= self._insert(target, self.best.setdefault(metric, []), latest[metric], step)
        return is_best, self.stop is not None and self._lags(latest[self.stop.metric])

    def _insert(self, target: Target, entries: list[dict[str, float]], value: float, step: int) -> bool:
        kept = self.keep is not None and self.keep.metric == target.metric
        count = self.keep.count if self.keep is not None and kept else 1
        place = next((i for i, old in enumerate(entries) if target.better(value, old["value"])), len(entries))
        if value != value or place >= count:
            return False
        entries.insert(place, {"value": value, "step": step})
        del entries[count:]
        return kept

    def _lags(self, value: float) -> bool:
        """Counts an evaluation without a gain of more than `min_delta`; True once there are `patience` in a row."""
        assert self.stop is not None
        delta = self.stop.min_delta if self.stop.mode == "min" else -self.stop.min_delta
        if self.stop.better(value, None if self.reference is None else self.reference - delta):
            self.reference, self.without_gain = value, 0
        else:
            self.without_gain += 1
        return self.is_patience_over

    def kept(self) -> list[dict[str, Any]]:
        """The evaluations whose checkpoints stay, best first."""
        if self.keep is None:
            return []
        return [{**entry, "metric": self.keep.metric} for entry in self.best.get(self.keep.metric, [])]

    def summary(self) -> dict[str, dict[str, float]]:
        return {metric: dict(entries[0]) for metric, entries in self.best.items() if entries}


LOOP = ("lr", "grad_norm")  # what the loop adds to the task's training metrics; the latter where it clips


def check_targets(recipe: Mapping[str, Any], splits: Mapping[str, Split], task: Task) -> None:
    """Raise RunError if `keep_best` or `early_stop` looks at a metric that no evaluation of this run reports."""
    section = recipe.get("train") or {}
    for key in ("keep_best", "early_stop"):
        if section.get(key):
            loop = LOOP if section.get("clip_norm") else LOOP[:1]
            _check_target(section[key]["metric"], f"train.{key}.metric", splits, task, loop)


def _check_target(metric: str, where: str, splits: Mapping[str, Split], task: Task, loop: tuple[str, ...]) -> None:
    if metric.startswith(("test/", "measure/")):
        hint = "choose a metric of an evaluation, such as val/loss"
        raise RunError("recipe", f"{metric} is only known at the end of the run", hint, where)
    _check_reported(metric, where, splits, task, loop)


def check_expected(recipe: Mapping[str, Any], splits: Mapping[str, Split], task: Task) -> None:
    """Raise RunError if `expect` claims something of a metric that this training does not report."""
    if any(section in recipe for section in ("editor", "predict", "study")):
        return
    loop = LOOP if (recipe.get("train") or {}).get("clip_norm") else LOOP[:1]
    for text in recipe.get("expect") or {}:
        metric = read_metric(text)
        if metric is not None:
            _check_reported(metric.name, f"expect.{text}", splits, task, loop)


def _check_reported(metric: str, where: str, splits: Mapping[str, Split], task: Task, loop: tuple[str, ...]) -> None:
    group, _, name = metric.partition("/")
    if group in ("val", "test") and group not in splits:
        hint = f"let the data have a `{group}` split, or judge by train/loss"
        raise RunError("recipe", f"nothing reports {metric}: the data has no `{group}` split", hint, where)
    names = task.reported()
    if group not in ("train", "val", "test") or names is None:
        return  # an optimizer's or task's own: told at the first evaluation
    if group == "train":  # metrics that do not add up are for evaluations only
        names = (*(word for word in names if word not in task.metrics()), *loop)
    if name not in names:
        hint = f"this run reports {', '.join(f'{group}/{word}' for word in names)}"
        raise RunError("recipe", f"nothing reports {metric}", hint, where)


def _unknown(metric: str, latest: Mapping[str, float], step: int) -> RunError:
    hint = f"this run reports {', '.join(sorted(latest))}"
    return RunError("recipe", f"nothing had reported {metric} by step {step}", hint, "train", step)
