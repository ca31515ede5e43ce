"""The rules between a recipe's sections, and between the keys of one section."""

from __future__ import annotations

from typing import Any

from raycipe.framework import expect, metrics
from raycipe.framework.errors import Problem
from raycipe.framework.shapes import is_reference
from raycipe.framework.tree import Node
from raycipe.framework.walk import Walk

RUNS = ("task", "agent", "estimator", "editor", "measures", "predict", "study")
ALONE = "all"  # `start.checkpoint: all` is for measures alone
NEEDS = {  # section -> what it needs: of each group at least one
    "task": (("data",), ("model", "start"), ("optimizer",)),
    "optimizer": (("task", "agent"),),
    "train": (("task", "agent"),),
    "agent": (("env",),),
    "env": (("agent",),),
    "model": (("data", "env"),),
    "estimator": (("data",),),
    "editor": (("model", "start"),),
    "predict": (("task", "estimator", "start"),),
    "study": (("task", "agent", "estimator", "editor", "measures"),),
}
EXCLUDES = (
    *(("agent", "task"), ("agent", "optimizer"), ("agent", "estimator"), ("estimator", "task")),
    *(("start", "estimator"), ("editor", "agent"), ("editor", "estimator"), ("predict", "agent"), ("predict", "study")),
)
TOGETHER = {  # where a rule is told -> the keys that it speaks of
    "train.batch_size": ("train.batch_size", "train.accumulate", "resources.num_workers"),
    "train.parallel": ("train.parallel", "resources.num_workers"),
    "train.evaluate_weights": ("train.evaluate_weights", "train.ema"),
}
DEFAULT_EPOCHS = 10
SIMULATED = "resources.simulated_workers"


def check_rules(root: Node, walk: Walk) -> None:
    """Add every broken rule to the walk's problems. Rules about what the walk could not understand stay silent."""
    _needs(root, walk)
    _excludes(root, walk)
    _started(root, walk)
    check_training(root, walk)
    _claims(root, walk)


def check_training(root: Node, walk: Walk) -> None:
    """The rules between the keys of `train` and `resources`."""
    _length(root, walk)
    _batch(root, walk)
    _workers(root, walk)
    _parallel(root, walk)
    _processes(root, walk)
    _averaged(root, walk)
    _watched(root, walk)


def _needs(root: Node, walk: Walk) -> None:
    sections = root.value
    unknown = {path for path in walk.unsure if "." not in path and path not in walk.defs["full"]["properties"]}
    if unknown:  # a section's name is misspelt: what seems to be missing may be just that
        return
    for section, groups in NEEDS.items():
        for group in groups:
            if section in sections and not any(other in sections for other in group):
                message = f"needs {' or '.join(f'`{other}`' for other in group)}"
                walk.problems.append(
                    Problem("section", sections[section].key_at, section, message, _add_hint(group[0]))
                )
    if not any(section in sections for section in RUNS):
        message = "nothing to run: needs one of " + ", ".join(f"`{section}`" for section in RUNS)
        walk.problems.append(Problem("section", root.at, "", message, "raycipe new recipe NAME writes one that runs"))


def _add_hint(section: str) -> str:
    return f"add `{section}:`; `raycipe list` names what can stand there"


def _excludes(root: Node, walk: Walk) -> None:
    """Told at the section that was written later."""
    beside: dict[str, list[str]] = {}
    for pair in EXCLUDES:
        if all(section in root.value for section in pair):
            first, second = sorted(pair, key=lambda section: root.value[section].key_at)
            beside.setdefault(second, []).append(first)
    for section, others in beside.items():
        message = f"can't stand beside {' and '.join(f'`{other}`' for other in others)}"
        hint = "one recipe trains one thing: leave out one of them"
        walk.problems.append(Problem("section", root.value[section].key_at, section, message, hint))


def _started(root: Node, walk: Walk) -> None:
    """Every checkpoint of a run can be measured, and nothing else can be done with all of them."""
    start = _map(root, "start")
    if start is None or "checkpoint" not in start or start["checkpoint"].value != ALONE:
        return
    others = [section for section in ("task", "estimator", "editor", "predict") if section in root.value]
    if others:
        message = f"`all` is for measures alone, and there is `{others[0]}`"
        hint = "take last, best or a step"
        walk.problems.append(Problem("section", start["checkpoint"].at, "start.checkpoint", message, hint, ALONE))


def _length(root: Node, walk: Walk) -> None:
    """Exactly one of two keys says how long to train."""
    train = _map(root, "train")
    if train is None:
        return
    first, second = ("env_steps", "iterations") if "agent" in root.value else ("epochs", "steps")
    if first in train and second in train:
        message = f"excludes `{first}`: give one of them"
        walk.problems.append(Problem("section", train[second].key_at, f"train.{second}", message))
    elif first not in train and second not in train:
        if first == "epochs":
            at = root.value["train"].at  # the walk has built this map, so no layer shares it
            train["epochs"] = Node(DEFAULT_EPOCHS, at, origin="default of train")
        else:
            at = root.value["train"].key_at
            walk.problems.append(Problem("missing", at, "train", f"missing `{first}` or `{second}`: how long to train"))
    other = walk.defs["Train" if "agent" in root.value else "TrainAgent"]["properties"]
    belongs = "the training of a task" if "agent" in root.value else "the training of an agent"
    for problem in walk.problems:
        if problem.code == "unknown-key" and problem.path == f"train.{problem.value}" and problem.value in other:
            problem.message, problem.hint = f"belongs to {belongs}", ""


def _batch(root: Node, walk: Walk) -> None:
    """batch_size counts examples per optimizer step over all workers, so it must divide among them."""
    train, resources = _map(root, "train"), _map(root, "resources")
    if train is None or resources is None or "batch_size" not in train:
        return
    batch, parts, workers = train["batch_size"], train["accumulate"], resources["num_workers"]
    if any(_is_wrong(walk, path) for path in ("train.batch_size", "train.accumulate", "resources.num_workers")):
        return
    simulated = resources.get("simulated_workers")
    if simulated is not None and isinstance(simulated.value, int) and not _is_wrong(walk, SIMULATED):
        workers = simulated
    counts = [entry.value for entry in workers.value] if isinstance(workers.value, list) else [max(1, workers.value)]
    elastic = len(counts) > 1
    share = counts[-1] * parts.value
    if batch.value % share == 0 or (elastic and batch.value >= share):
        return
    words = f"{batch.value} examples / {counts[-1]} workers / accumulate {parts.value} = {batch.value / share:.4g}"
    message = f"{words}, which is {'less than one' if elastic else 'not a whole number'}"
    near = sorted({max(share, batch.value // share * share), (batch.value // share + 1) * share})
    hint = f"batch_size counts examples per step over all workers: use {' or '.join(map(str, near))}"
    written = [node for node in (batch, parts, workers) if not node.origin.startswith("default")]
    walk.problems.append(Problem("section", (written or [batch])[0].at, "train.batch_size", message, hint, batch.value))


def _workers(root: Node, walk: Walk) -> None:
    resources = _map(root, "resources")
    if resources is None or _is_wrong(walk, "resources.num_workers"):
        return
    workers, simulated = resources["num_workers"], resources.get("simulated_workers")
    if simulated is not None and simulated.value is not None and workers.value not in (0, 1):
        message = f"{SIMULATED} are computed in one worker"
        hint = f"resources.num_workers: 0 or 1, or {SIMULATED}: null"
        walk.problems.append(Problem("section", workers.at, "resources.num_workers", message, hint))
    if isinstance(workers.value, list) and workers.value[0].value > workers.value[1].value:
        message = f"[min, max] with min {workers.value[0].value} above max {workers.value[1].value}"
        walk.problems.append(Problem("section", workers.at, "resources.num_workers", message))


OF_AGENTS = ("num_env_runners", "num_learners", "gpus_per_learner")
NOT_OF_AGENTS = {  # key of resources -> what an agent has instead
    "num_workers": "an agent's processes are `num_env_runners` and `num_learners`",
    "gpus_per_worker": "an agent's GPUs are `gpus_per_learner`: env runners work on CPUs",
    "memory_per_worker": "RLlib can't reserve memory",
    "placement": "RLlib places its processes itself",
    "simulated_workers": "an agent's processes are `num_env_runners` and `num_learners`",
}


def _processes(root: Node, walk: Walk) -> None:
    """An agent has env runners and learners, everything else has workers."""
    resources = _map(root, "resources")
    if resources is None:
        return
    is_agent = "agent" in root.value
    for key in NOT_OF_AGENTS if is_agent else OF_AGENTS:
        node = resources.get(key)
        if node is None:
            continue
        if node.origin.startswith("default"):  # left out: what is resolved must be a recipe again, for resume
            del resources[key]
        elif is_agent:
            path, message = f"resources.{key}", "has no meaning for an agent"
            walk.problems.append(Problem("section", node.key_at, path, message, NOT_OF_AGENTS[key]))
        else:
            message = "belongs to the training of an agent"
            walk.problems.append(Problem("section", node.key_at, f"resources.{key}", message))


def _parallel(root: Node, walk: Walk) -> None:
    train, resources = _map(root, "train"), _map(root, "resources")
    if train is None or resources is None or "parallel" not in train or _is_wrong(walk, "train.parallel"):
        return
    parallel = train["parallel"]
    if parallel.value is not None and resources["num_workers"].value == 0:
        message = f"`{parallel.value}` has no meaning with num_workers 0, which trains in the launching process"
        hint = "resources.num_workers: 1 or more, or train.parallel: null"
        walk.problems.append(Problem("section", parallel.at, "train.parallel", message, hint, parallel.value))


def _averaged(root: Node, walk: Walk) -> None:
    train = _map(root, "train")
    if train is None or "evaluate_weights" not in train:
        return
    if train["evaluate_weights"].value == "ema" and train["ema"].value is None:
        at = train["evaluate_weights"].at
        hint = "e.g. train.ema: 0.999"
        walk.problems.append(Problem("section", at, "train.evaluate_weights", "`ema` needs `train.ema`, a decay", hint))


def _watched(root: Node, walk: Walk) -> None:
    train = _map(root, "train") or {}
    for key in ("keep_best", "early_stop", "until"):
        rule = train.get(key)
        if rule is not None and isinstance(rule.value, dict) and "metric" in rule.value:
            check_metric(rule.value["metric"], f"train.{key}.metric", "section", root, walk)


def _claims(root: Node, walk: Walk) -> None:
    claims = root.value.get("expect")
    if claims is None or not isinstance(claims.value, dict):
        return
    for key, wanted in claims.value.items():
        path = f"expect.{key}"
        if is_reference(wanted):
            continue
        left = expect.read_metric(key)
        found = expect.read(wanted.value) if isinstance(wanted.value, str) else "must be a comparison"
        if left is None:
            hint = "a metric such as test/accuracy, or last, first, min, max or mean of one: min(val/loss)"
            walk.problems.append(Problem("expect", wanted.key_at, path, "is no metric's name", hint, key))
        else:
            check_claim(Node(left.name, wanted.key_at), path, root, walk)
        if isinstance(found, str):
            number = isinstance(wanted.value, (int, float)) and not isinstance(wanted.value, bool)
            hint = f'write ">= {wanted.value}"' if number else expect.ALLOWED
            message = f"{found}, not {wanted.value}" if number else found
            walk.problems.append(Problem("expect", wanted.at, path, message, hint, _scalar(wanted)))
        elif found.other is not None:
            check_claim(Node(found.other.name, wanted.at), path, root, walk)


def check_claim(node: Node, path: str, root: Node, walk: Walk) -> None:
    """The same of a claim, which a study makes about all of its runs together."""
    found = metrics.of_the_whole(node.value, root)
    if found:
        walk.problems.append(Problem("expect", node.at, path, found[0], found[1], node.value))
    else:
        check_metric(node, path, "expect", root, walk)


def check_metric(node: Node, path: str, code: str, root: Node, walk: Walk) -> None:
    """Tell a metric that this recipe can't report (unless it runs nothing, which has been told)."""
    if not isinstance(node.value, str) or not any(section in root.value for section in RUNS):
        return
    found = metrics.mistake(node.value, root, walk)
    if found:
        walk.problems.append(Problem(code, node.at, path, found[0], found[1], node.value))


def _map(root: Node, section: str) -> dict[str, Node] | None:
    node = root.value.get(section)
    return node.value if node is not None and isinstance(node.value, dict) else None


def _is_wrong(walk: Walk, path: str) -> bool:
    """Whether a mistake at the path, or a reference that points nowhere, has been told."""
    told = [*(problem.path for problem in walk.problems), *walk.unsure]
    return any(other == path or other.startswith(path + ".") for other in told)


def _scalar(node: Node) -> Any:
    return None if isinstance(node.value, (dict, list)) else node.value
