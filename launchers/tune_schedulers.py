"""The schedulers of a sweep: what Ray Tune stops, pauses or changes while trials train.

Time is counted in evaluations (`TIME`) and values are told so that larger is better (`SCORE`); one that is not
finite is told as the worst of all, which every scheduler can compare.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from raycipe.framework.errors import NotStarted
from raycipe.framework.spaces import Random, choose, distribution_of, entries_of

TIME, SCORE = "evaluations", "score"
WORST = -1e300
PAUSING = ("pbt", "hyperband")  # these put trials down and take them up again, from checkpoints
PERTURBATIONS = (0.8, 1.2)
RESAMPLE_PROBABILITY = 0.25
DEFAULTS = {"grace_period": 1, "reduction_factor": 4, "interval": 1}


def score(value: float | None, mode: str) -> float:
    """A metric's value with its mode taken out: larger is better, whatever is not finite is the worst."""
    if value is None or not math.isfinite(value):
        return WORST
    return float(value) if mode == "max" else -float(value)


def settings(sweep: Mapping[str, Any], train: Mapping[str, Any]) -> dict[str, Any]:
    """The scheduler with every number filled in. Raises NotStarted where the number of evaluations is unknown."""
    written = sweep["scheduler"]
    given = dict(written) if isinstance(written, Mapping) else {"type": written}
    found = {**DEFAULTS, **{key: value for key, value in given.items() if value is not None}}
    if found["type"] == "hyperband" and "reduction_factor" not in given:
        found["reduction_factor"] = 3  # the paper's
    if found["type"] in ("asha", "hyperband"):
        found["max_t"] = found.get("max_t") or _evaluations(train, sweep["space"])
        if found["grace_period"] > found["max_t"]:
            message = f"grace_period {found['grace_period']} is longer than a trial of {found['max_t']} evaluations"
            raise NotStarted("resources", message, "lower it, or train longer", "sweep.scheduler")
    return found


def _evaluations(train: Mapping[str, Any], space: Mapping[str, Any]) -> int:
    """How often a trial is evaluated, as far as its recipe tells without its data."""
    lengths = ("train.epochs", "train.steps", "train.eval_every")
    length: int | None = train.get("epochs") or (train.get("steps") if train.get("eval_every") else None)
    if length is None or any(path in space for path in lengths):
        message = "the number of evaluations of a trial is not known before it starts"
        raise NotStarted("resources", message, "write scheduler: {type: ..., max_t: EVALUATIONS}", "sweep.scheduler")
    return max(1, math.ceil(length / (train.get("eval_every") or 1)))


def build(found: Mapping[str, Any], sweep: Mapping[str, Any], generator: np.random.Generator) -> Any:
    """Ray Tune's scheduler."""
    from ray.tune import schedulers

    common = {"time_attr": TIME, "metric": SCORE, "mode": "max"}
    name = found["type"]
    if name == "asha":
        return schedulers.ASHAScheduler(
            **common,
            max_t=found["max_t"],
            grace_period=found["grace_period"],
            reduction_factor=found["reduction_factor"],
            stop_last_trials=False,  # a trial that is through evaluates its test split yet
        )
    if name == "hyperband":
        return schedulers.HyperBandScheduler(
            **common, max_t=found["max_t"], reduction_factor=found["reduction_factor"], stop_last_trials=False
        )
    if name == "median":
        return _median_rule(**common, grace_period=found["grace_period"])
    if name == "pbt":
        return _population(sweep["space"], generator, perturbation_interval=found["interval"], **common)
    return schedulers.FIFOScheduler()


def _population(space: Mapping[str, Any], generator: np.random.Generator, **arguments: Any) -> Any:
    """Tune's population based training, with values that are moved within the sweep's own space.

    In rounds (`synch`): all trials are compared at the same point, however many run at a time.
    """
    import random

    from ray.tune.schedulers import PopulationBasedTraining

    class Population(PopulationBasedTraining):  # type: ignore[misc]
        def _get_new_config(self, trial: Any, trial_to_clone: Any) -> tuple[dict[str, Any], dict[str, Any]]:
            return {**trial.config, "changes": explored(space, trial_to_clone.config["changes"], generator)}, {}

    random.seed(int(generator.integers(2**32)))  # Tune draws the better trial from Python's own generator
    return Population(custom_explore_fn=dict, log_config=False, require_attrs=False, synch=True, **arguments)


def _median_rule(**arguments: Any) -> Any:
    """Tune's median rule, which never pauses a trial to let another one catch up."""
    from ray.tune.schedulers import MedianStoppingRule, TrialScheduler

    class MedianRule(MedianStoppingRule):  # type: ignore[misc]
        def _on_insufficient_samples(self, tune_controller: Any, trial: Any, time: float) -> str:
            return str(TrialScheduler.CONTINUE)

    return MedianRule(**arguments)


def explored(space: Mapping[str, Any], better: Mapping[str, Any], generator: np.random.Generator) -> dict[str, Any]:
    """Population based training's explore step: each value of a better trial is drawn anew or moved a little.

    A number is multiplied by 0.8 or 1.2 and kept within its distribution, an entry of a list gives way to a neighbour.
    """
    changes = dict(better)
    for path, form in space.items():
        if generator.random() < RESAMPLE_PROBABILITY:
            changes[path] = choose({path: form}, Random(generator))[path]
        else:
            changes[path] = _moved(form, changes[path], generator)
    return changes


def _moved(form: Any, value: Any, generator: np.random.Generator) -> Any:
    entries = entries_of(form, top=True)
    if entries is not None:
        index = entries.index(value) + (1 if generator.random() < 0.5 else -1)
        return entries[min(max(index, 0), len(entries) - 1)]
    distribution = distribution_of(form)
    assert distribution is not None  # the check refuses all else
    moved = value * PERTURBATIONS[int(generator.random() < 0.5)]
    if distribution.step is not None:
        return distribution.on_step(round((moved - distribution.numbers[0]) / distribution.step))
    if distribution.is_whole and round(moved) == value:
        moved = value + (1 if moved > value else -1)
    return distribution.clipped(round(moved) if distribution.is_whole else moved)


class Earlier:
    """A trial of an earlier attempt, as far as a scheduler looks at it."""

    def __init__(self, name: str) -> None:
        self.trial_id = f"earlier-{name}"


def replay(scheduler: Any, name: str, curves: Mapping[str, list[tuple[int, float]]]) -> None:
    """Let ASHA and the median rule know the trials of an earlier attempt: trial -> [(evaluations, score)]."""
    if name not in ("asha", "median"):
        return
    for trial_name, points in curves.items():
        trial = Earlier(trial_name)
        scheduler.on_trial_add(None, trial)
        for time, value in points:
            scheduler.on_trial_result(None, trial, {TIME: time, SCORE: value})
