"""What one trial of a sweep asks of the cluster, and how many trials run at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from raycipe.framework.errors import NotStarted
from raycipe.launchers.demand import demand, known_resources, unit_of, written_amount

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
            self.workers, self.each = _agent_demand(resources)
            self.is_nested = self.workers > 1
        else:
            _, self.each = demand({"resources": {**resources, "num_workers": 1}})
            self.workers = max(1, *counts)
            self.is_nested = max(counts) > (1 if self.launcher == "train" else 0)
        if scheduler in ("pbt", "hyperband") and (self.is_nested or self.launcher != "train"):
            message = (
                f"{scheduler} puts trials down and takes them up again, which needs trainings with one worker or none"
            )
            raise NotStarted(
                "resources", message, "set resources.num_workers=0, or take scheduler: asha", "sweep.scheduler"
            )

    def total(self) -> dict[str, float]:
        return {name: self.workers * amount for name, amount in self.each.items()}

    def places(self, there: Mapping[str, float], wanted: int | None) -> int:
        """How many trials run at a time: as many as fit, at most `wanted`, at least one."""
        fit = [int(there.get(name, 0.0) / amount + 1e-9) for name, amount in self.total().items() if amount]
        return max(1, min([*fit, *([wanted] if wanted else [])]))

    def request(self, places: int) -> Any:
        """What Ray reserves for each trial's actor, so that no more than `places` run at a time."""
        from ray import tune

        if self.launcher != "train" and self.is_nested:  # what such a trial starts runs in its own reservation
            head = [] if self.launcher == "rllib" else [dict(DRIVER)]
            return tune.PlacementGroupFactory([*head, *(dict(self.each) for _ in range(self.workers))])
        if self.is_nested:
            return dict(DRIVER)
        import ray

        cpus = float(ray.cluster_resources().get("CPU", 1.0))
        return {**self.each, "CPU": max(self.each.get("CPU", 0.0), math.floor(1e4 * cpus / places) / 1e4)}


def refuse_trial(slots: Slots, there: Mapping[str, float], where: str) -> None:
    """Raise NotStarted at once if not even one trial can ever be placed, with the sum."""
    known = known_resources(slots.each, there, where)
    for name, amount in slots.each.items():
        total = slots.workers * amount
        if name in known and total > known[name] + 1e-9:
            scale = 1e9 if name == "memory" else 1
            one, whole, has = (written_amount(value / scale) for value in (amount, total, known[name]))
            unit = unit_of(name)
            workers = (
                f"{slots.workers} workers with {one} {unit} each ask for {whole}"
                if slots.workers > 1
                else f"{one} {unit}"
            )
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


def _agent_demand(resources: Mapping[str, Any]) -> tuple[int, dict[str, float]]:
    """(bundles, what each takes): the algorithm itself, its env runners and learners."""
    count = 1 + int(resources.get("num_env_runners", 0)) + int(resources.get("num_learners", 0))
    return count, {"CPU": float(resources.get("cpus_per_worker", 1))}
