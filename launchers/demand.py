"""What a recipe asks of its machines, compared with what is there, before anything waits for ever."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from raycipe.framework.errors import NotStarted

WORDS = {
    "CPU": ("cpus_per_worker", "CPUs"),
    "GPU": ("gpus_per_worker", "GPUs"),
    "memory": ("memory_per_worker", "GB of memory"),
}
THIS_MACHINE = "this machine"
SIZES = {"MB": 10**6, "GB": 10**9, "TB": 10**12}


def demand(recipe: Mapping[str, Any]) -> tuple[int, dict[str, float]]:
    """(fewest workers, what each takes by Ray's resource names)."""
    resources = recipe.get("resources") or {}
    workers = resources.get("num_workers", 1)
    each = {"CPU": float(resources.get("cpus_per_worker", 1)), "GPU": float(resources.get("gpus_per_worker") or 0)}
    memory = resources.get("memory_per_worker")
    if memory:
        each["memory"] = float(memory[:-2]) * SIZES[memory[-2:]]
    each.update({name: float(amount) for name, amount in (resources.get("custom") or {}).items()})
    fewest = workers[0] if isinstance(workers, (list, tuple)) else workers
    return int(fewest), {name: amount for name, amount in each.items() if amount}


def local_resources() -> dict[str, float]:
    """What Ray will find on this machine at most, as far as that is known before it starts.

    Of the memory Ray takes its own part, so that it may still refuse what fits here.
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    found = {"CPU": float(cpus)}
    if "SC_PHYS_PAGES" in os.sysconf_names:
        found["memory"] = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return found


def local_gpus() -> float:
    """The GPUs that torch sees here; CUDA is not initialised."""
    import torch

    return float(torch.cuda.device_count())


def unit_of(name: str) -> str:
    """What people call an amount of this resource."""
    return WORDS.get(name, ("custom", name))[1]


def known_resources(asked: Mapping[str, float], there: Mapping[str, float], where: str) -> Mapping[str, float]:
    """`there`, completed by what it is silent about: a Ray that runs has told everything, this machine nearly so.

    GPUs are looked for only if they are asked for, since that imports torch.
    """
    if where != THIS_MACHINE:
        return {**dict.fromkeys(asked, 0.0), **there}
    return {**there, "GPU": local_gpus()} if asked.get("GPU") else there


def refuse_if_too_large(recipe: Mapping[str, Any], there: Mapping[str, float], where: str) -> None:
    """Raise NotStarted at once instead of waiting for ever; what is not known is left alone."""
    workers, each = demand(recipe)
    known = known_resources(each, there, where)
    for name, amount in each.items():
        if name in known and workers * amount > known[name] + 1e-9:
            key, unit = WORDS.get(name, ("custom", name))
            scale = 1e9 if name == "memory" else 1
            one, total, has = (written_amount(value / scale) for value in (amount, workers * amount, known[name]))
            most = int(known[name] // amount)
            hint = f"set resources.num_workers={most}" if most else f"lower resources.{key}"
            each_one = unit.removesuffix("s") if amount == 1 else unit
            asked = f"{workers} worker{'s' * (workers != 1)} with {one} {each_one} each ask for {total}"
            raise NotStarted(
                "resources",
                f"{asked}; {where} has {has}",
                f"{hint} (0 workers train in the launching process, without Ray)",
                "resources.num_workers" if most else f"resources.{key}",
            )


def written_amount(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 1000 else f"{amount:.4g}"


def agents_processes(recipe: Mapping[str, Any]) -> dict[str, tuple[int, dict[str, float]]]:
    """What an agent starts beside the process that holds the algorithm: name -> (how many, what each takes)."""
    resources = recipe.get("resources") or {}
    runners, learners = int(resources.get("num_env_runners", 0)), int(resources.get("num_learners", 0))
    cpus, custom = float(resources.get("cpus_per_worker", 1)), resources.get("custom") or {}
    agent = recipe.get("agent")
    settings = (agent.get("config") if isinstance(agent, Mapping) else None) or {}
    aggregators = int(settings.get("num_aggregator_actors_per_learner") or 0) * max(1, learners)
    return {
        "env runner": (runners, {"CPU": cpus, **{name: float(amount) for name, amount in custom.items()}}),
        "learner": (learners, {"CPU": cpus, "GPU": float(resources.get("gpus_per_learner") or 0)}),
        "aggregator": (aggregators, {"CPU": 1.0}),  # RLlib has a whole CPU for each
    }


def local_learners_gpus(recipe: Mapping[str, Any]) -> float:
    """GPUs of the process that holds the algorithm, which learns if no other does."""
    resources = recipe.get("resources") or {}
    return 0.0 if resources.get("num_learners") else float(resources.get("gpus_per_learner") or 0)


def refuse_agents_demand(recipe: Mapping[str, Any], there: Mapping[str, float], where: str) -> None:
    """The same for an agent: all its processes together."""
    processes = agents_processes(recipe)
    asked = {"GPU": local_learners_gpus(recipe)}
    for count, each in processes.values():
        for name, amount in each.items():
            asked[name] = asked.get(name, 0.0) + count * amount
    known = known_resources(asked, there, where)
    for name, amount in asked.items():
        if amount and name in known and amount > known[name] + 1e-9:
            counted = [f"{count} {what}{'s' * (count != 1)}" for what, (count, _) in processes.items() if count]
            who = " and ".join(counted) if counted else "the launching process"
            raise NotStarted(
                "resources",
                f"{who} ask{'s' * (not counted)} for {amount:g} {unit_of(name)}; {where} has {known[name]:g}",
                "lower resources.num_env_runners or num_learners: 0 of each works in the launching process",
                "resources",
            )
