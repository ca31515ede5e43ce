"""What one trial of a sweep asks of the cluster, and how many trials run at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from raycipe.framework.errors import NotStarted
from raycipe.launchers.demand import (
    agents_processes,
    demand,
    known_resources,
    local_learners_gpus,
    unit_of,
    written_amount,
)

DRIVER = {"memory": 1.0}  # a trial that only watches its workers; Ray refuses a demand of nothing, and any share of a
# CPU would keep workers that need every CPU of the cluster waiting for ever


class Slots:
    """The demand of a sweep's trials, the largest where the number of workers varies.

    A training with one worker or none takes place in the trial's actor. With more, the actor takes next to nothing and
    Ray Train starts workers beside it; RLlib's env runners and learners, and the tasks of an estimator, run in what is
    reserved for the trial.
    """

    def __init__(self, recipe: Mapping[str, Any], scheduler: str) -> None:
        from raycipe.launchers.launch import launcher_of

        self.launcher = launcher_of({key: value for key, value in recipe.items() if key != "sweep"})
        counts = _worker_counts(recipe)
        resources = recipe.get("resources") or {}
        if self.launcher == "rllib":
            self.bundles = _agents_bundles(recipe)
            self.is_nested = len(self.bundles) > 1
        else:
            _, each = demand({"resources": {**resources, "num_workers": 1}})
            self.bundles = [each] * max(1, *counts)
            self.is_nested = max(counts) > (1 if self.launcher == "train" else 0)
        if scheduler in ("pbt", "hyperband") and (self.is_nested or self.launcher != "train"):
            message = (
                f"{scheduler} puts trials down and takes them up again, which needs trainings with one worker or none"
            )
            raise NotStarted(
                "resources", message, "set resources.num_workers=0, or take scheduler: asha", "sweep.scheduler"
            )

    def total(self) -> dict[str, float]:
        names = dict.fromkeys(name for bundle in self.bundles for name in bundle)
        return {name: sum(bundle.get(name, 0.0) for bundle in self.bundles) for name in names}

    def places(self, there: Mapping[str, float], wanted: int | None) -> int:
        """How many trials run at a time: as many as fit, at most `wanted`, at least one."""
        fit = [int(there.get(name, 0.0) / amount + 1e-9) for name, amount in self.total().items() if amount]
        return max(1, min([*fit, *([wanted] if wanted else [])]))

    def request(self, places: int) -> Any:
        """What Ray reserves for each trial's actor, so that no more than `places` run at a time."""
        from ray import tune

        if self.launcher != "train" and self.is_nested:  # what such a trial starts runs in its own reservation
            head = [] if self.launcher == "rllib" else [dict(DRIVER)]
            return tune.PlacementGroupFactory([*head, *(dict(bundle) for bundle in self.bundles)])
        if self.is_nested:
            return dict(DRIVER)
        import ray

        cpus = float(ray.cluster_resources().get("CPU", 1.0))
        (each,) = self.bundles
        return {**each, "CPU": max(each.get("CPU", 0.0), math.floor(1e4 * cpus / places) / 1e4)}


def refuse_trial(slots: Slots, there: Mapping[str, float], where: str) -> None:
    """Raise NotStarted at once if not even one trial can ever be placed, with the sum."""
    totals = slots.total()
    known = known_resources(totals, there, where)
    for name, total in totals.items():
        if name in known and total > known[name] + 1e-9:
            scale = 1e9 if name == "memory" else 1
            whole, has = (written_amount(value / scale) for value in (total, known[name]))
            amounts = [bundle[name] for bundle in slots.bundles if bundle.get(name)]
            workers = f"{whole} {unit_of(name)}"
            if len(amounts) > 1 and len(set(amounts)) == 1:
                one = f"{written_amount(amounts[0] / scale)} {unit_of(name)}"
                workers = f"{len(amounts)} workers with {one} each ask for {whole}"
            message = f"one trial of the sweep asks for {workers}; {where} has {has}"
            raise NotStarted(
                "resources", message, "lower resources; num_workers=0 trains a trial in one process", "resources"
            )


def _worker_counts(recipe: Mapping[str, Any]) -> Sequence[int]:
    """Every number of workers that a trial may have."""
    from raycipe.framework.spaces import distribution_of, entries_of

    written = (recipe.get("resources") or {}).get("num_workers", 1)
    form = (recipe.get("sweep") or {}).get("space", {}).get("resources.num_workers")
    tried: list[Any] = [written]
    if form is not None:
        distribution = distribution_of(form)
        tried = list(entries_of(form, top=True) or (distribution.ends if distribution else ()))
    return [int(value[0] if isinstance(value, (list, tuple)) else value) for value in tried]


def _agents_bundles(recipe: Mapping[str, Any]) -> list[dict[str, float]]:
    """What each process of an agent takes, the one with the algorithm first."""
    cpus = float((recipe.get("resources") or {}).get("cpus_per_worker", 1))
    processes = [each for count, each in agents_processes(recipe).values() for _ in range(count)]
    bundles = [{"CPU": cpus, "GPU": local_learners_gpus(recipe)}, *processes]
    return [{name: amount for name, amount in bundle.items() if amount} for bundle in bundles]
