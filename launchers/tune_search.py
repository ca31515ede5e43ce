"""Which values the next trial of a sweep gets, for Ray Tune: drawn by number, or asked of Optuna.

The run folders of the trials are the truth: what has ended there is counted and told, never run again.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from ray.tune.search import Searcher

from raycipe.framework.errors import NotStarted
from raycipe.framework.files import to_json
from raycipe.framework.results.trials import objectives_of, scheduler_of
from raycipe.framework.runs import TRIALS, Run, final_values, trials
from raycipe.framework.spaces import Distribution, choose, count_of, drawn
from raycipe.framework.streams import key

NUMBER = re.compile(r"\d{4,}\Z")
ASKED = "search.json"  # what Optuna was asked, in the sweep's run folder


def name_of(number: int) -> str:
    """The name of a trial's folder."""
    return f"{number:04d}"


class Plan:
    """The trials of a sweep by number: what each gets, and what came of those that have ended."""

    def __init__(self, run: Run, sweep: Mapping[str, Any], seed: int) -> None:
        self.run, self.sweep, self.seed = run, sweep, seed
        self.count = count_of(sweep)
        self.objectives = objectives_of(sweep)
        begun = {trial.path.name: trial for trial in trials(run)}  # somebody may have put other folders beside them
        self.known = {
            int(name): trial.read("provenance.json")["changes"] for name, trial in begun.items() if NUMBER.match(name)
        }
        self.scheduler = scheduler_of(sweep)
        self.done = {number for number in self.known if self.folder(number).status() == "done"}
        self.out_of_time = False  # the sweep's minutes are over before its trials are
        self.study = Study(self) if sweep["search"] == "optuna" else None

    def folder(self, number: int) -> Run:
        return Run(self.run.path / TRIALS / name_of(number))

    @property
    def open(self) -> list[int]:
        """Numbers of the trials that have still to run; those that were begun come first."""
        return sorted(set(range(1, self.count + 1)) - self.done, key=lambda number: (number not in self.known, number))

    def changes(self, number: int) -> dict[str, Any]:
        """The values of a trial: those that it was begun with, or new ones."""
        if number not in self.known:
            self.known[number] = self.study.ask(number) if self.study else drawn(self.sweep, self.seed, number)
        return dict(self.known[number])

    def values(self, number: int) -> list[float] | None:
        """The objectives of an ended trial; None if it failed or one of them is not finite."""
        final = final_values(self.folder(number).read("result.json"))
        found = [final.get(metric, math.nan) for metric in self.objectives]
        return found if all(map(math.isfinite, found)) else None


class Study:
    """Optuna's TPE. Each question has a seed of its own, so that an answer depends on the number of the trial and on
    what was told before, not on who asked how often: a resumed search goes on as an unbroken one."""

    def __init__(self, plan: Plan) -> None:
        self.optuna = import_optuna()
        self.plan = plan
        directions = ["minimize" if mode == "min" else "maximize" for mode in plan.objectives.values()]
        self.study = self.optuna.create_study(directions=directions)
        self.trials: dict[int, Any] = {}
        self.asked: dict[str, Any] = plan.run.read(ASKED).get("asked") or {}
        for number in sorted(map(int, self.asked)):
            if number in plan.done:
                self._recall(number)

    def ask(self, number: int) -> dict[str, Any]:
        sampler = self.optuna.samplers.TPESampler(seed=key(self.plan.seed, "sweep/optuna", number) % 2**32)
        self.study.sampler = sampler
        trial = self.trials[number] = self.study.ask()
        changes = choose(self.plan.sweep["space"], Asking(trial))
        self.asked[str(number)] = trial.params
        self.plan.run.write(ASKED, to_json({"format": 1, "asked": self.asked}))
        return changes

    def tell(self, number: int, stopped: bool, last: float | None = None, step: int = 0) -> None:
        """What came out: the values, or that the trial failed, or the last value of one that was stopped early."""
        states = self.optuna.trial.TrialState
        trial = self.trials.pop(number, None)
        if trial is None:  # begun by an earlier attempt
            if not stopped and str(number) in self.asked:
                self._recall(number)
            return
        if stopped and last is not None and math.isfinite(last) and len(self.plan.objectives) == 1:
            trial.report(last, step)
            self.study.tell(trial, state=states.PRUNED)
            return
        values = self.plan.values(number)
        self.study.tell(trial, values, state=None if values else states.FAIL)

    def _recall(self, number: int) -> None:
        """Tell of a trial that an earlier attempt has begun, and that has ended now."""
        values = self.plan.values(number)
        if values is None:
            return
        recorder = Recording(self.optuna, self.asked[str(number)])
        choose(self.plan.sweep["space"], recorder)
        result = self.plan.folder(number).read("result.json")
        about = {"params": recorder.params, "distributions": recorder.distributions}
        if result.get("stopped") == self.plan.scheduler and len(values) == 1:
            steps = int(result.get("steps") or 0)
            state = self.optuna.trial.TrialState.PRUNED
            trial = self.optuna.trial.create_trial(state=state, intermediate_values={steps: values[0]}, **about)
        else:
            trial = self.optuna.trial.create_trial(values=values, **about)
        self.study.add_trial(trial)


def import_optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        message = "search: optuna needs the package optuna, which is not installed"
        raise NotStarted("plugin", message, "pip install 'raycipe[search]'", "sweep.search") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def optuna_distribution(optuna: Any, distribution: Distribution) -> Any:
    """Optuna's own distribution; one that it lacks (normal, logarithmic steps) is searched by its quantiles."""
    low, high = distribution.ends
    if distribution.name == "normal" or (distribution.step is not None and distribution.is_log):
        return optuna.distributions.FloatDistribution(1e-9, 1 - 1e-9)
    if distribution.is_whole:
        step = int(distribution.step or 1)
        last = int(low) + (int(high) - int(low)) // step * step
        return optuna.distributions.IntDistribution(int(low), last, log=distribution.is_log, step=step)
    if distribution.step is not None:
        return optuna.distributions.FloatDistribution(low, distribution.on_step(10**9), step=distribution.step)
    return optuna.distributions.FloatDistribution(low, high, log=distribution.is_log)


def _value(distribution: Distribution, answer: Any) -> Any:
    if distribution.name == "normal" or (distribution.step is not None and distribution.is_log):
        return distribution.quantile(answer)
    return distribution.clipped(answer)


class Asking:
    """Lets an Optuna trial decide."""

    def __init__(self, trial: Any) -> None:
        import optuna

        self.trial, self.optuna = trial, optuna

    def index(self, name: str, count: int) -> int:
        return int(self.trial.suggest_categorical(name, range(count)))

    def number(self, name: str, distribution: Distribution) -> Any:
        asked = optuna_distribution(self.optuna, distribution)
        whole = isinstance(asked, self.optuna.distributions.IntDistribution)
        suggest = self.trial.suggest_int if whole else self.trial.suggest_float
        return _value(distribution, suggest(name, asked.low, asked.high, step=asked.step, log=asked.log))


class Recording:
    """Gives the answers of a trial that was asked before, and notes the distributions that they came from."""

    def __init__(self, optuna: Any, answers: Mapping[str, Any]) -> None:
        self.optuna, self.answers = optuna, answers
        self.params: dict[str, Any] = {}
        self.distributions: dict[str, Any] = {}

    def _note(self, name: str, distribution: Any) -> Any:
        self.distributions[name] = distribution
        self.params[name] = self.answers[name]
        return self.answers[name]

    def index(self, name: str, count: int) -> int:
        return int(self._note(name, self.optuna.distributions.CategoricalDistribution(tuple(range(count)))))

    def number(self, name: str, distribution: Distribution) -> Any:
        return _value(distribution, self._note(name, optuna_distribution(self.optuna, distribution)))


class Proposer(Searcher):  # type: ignore[misc]
    """Gives Ray Tune the open trials of a plan, one by one, until the sweep's minutes are over."""

    def __init__(self, plan: Plan, config: Mapping[str, Any], stops: Callable[[], bool]) -> None:
        super().__init__(metric="score", mode="max")
        self.plan, self.config, self.stops = plan, config, stops
        minutes = plan.sweep.get("minutes")
        self.deadline = time.monotonic() + 60 * minutes if minutes else math.inf
        self.open = plan.open
        self.numbers: dict[str, int] = {}

    def suggest(self, trial_id: str) -> Any:
        if time.monotonic() > self.deadline and self.open:
            self.plan.out_of_time = True
        if not self.open or self.plan.out_of_time or self.stops():
            return Searcher.FINISHED
        number = self.numbers[trial_id] = self.open.pop(0)
        return {**self.config, "number": number, "changes": self.plan.changes(number)}

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        number = self.numbers.pop(trial_id, None)
        if number is None or self.plan.study is None:
            return
        ended = bool(result and result.get("ended"))
        value = result.get("value") if result else None
        self.plan.study.tell(number, not ended and not error, value, int((result or {}).get("evaluations", 0)))

    def __reduce__(self) -> Any:
        return Searcher, ()

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the run folders tell it all."""
        with open(checkpoint_path, "w", encoding="utf-8") as file:
            json.dump({}, file)

    def restore(self, checkpoint_path: str) -> None:
        # Tune's contract wants the method; nothing restores Tune's own state here.
        raise NotImplementedError("a sweep is resumed from its trials' run folders")
