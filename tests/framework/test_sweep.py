"""Sweeps: every path names an argument, every value that may be tried could stand there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from raycipe.framework import catalogue
from raycipe.framework.check import check
from raycipe.framework.errors import Problem, RecipeError
from raycipe.framework.recipe import load

Lab = Callable[..., Path]
HEAD = """\
recipe: 1
name: a
data: digits
model: {type: mlp, hidden: [8]}
task: classification
optimizer: {type: sgd, lr: 0.1, schedule: {type: step, at: [0.5]}}
measures: [calibration_error]
sweep:
  metric: val/loss
  mode: min
"""

NEEDY = '''
@register
class Needy(Optimizer):
    """Needs a schedule."""

    def __init__(self, params: Any, schedule: Schedule, lr: float = 1.0, seed: int = 0) -> None:
        pass
'''


@pytest.fixture
def find(tmp_path: Path, lab: Lab) -> Callable[[str], list[Problem]]:
    lab({"optimizers/needy": NEEDY})
    schema = catalogue.load()

    def run(text: str) -> list[Problem]:
        file = tmp_path / "a.yaml"
        file.write_text(text)
        try:
            check(load(str(file)), schema)
        except RecipeError as error:
            return sorted(error.problems, key=lambda problem: problem.at)
        return []

    return run


def space(entry: str) -> str:
    return f"{HEAD}  trials: 4\n  space:\n    {entry}\n"


@pytest.mark.parametrize(
    "entry",
    [
        "optimizer.lr: [0.1, 0.2]",
        "optimizer.lr: {choice: [0.1, 1]}",
        "optimizer.lr: {uniform: [0, 1]}",
        "optimizer.lr: {loguniform: [1e-3, 1.0]}",
        "optimizer.lr: {quniform: [0, 1, 0.25]}",
        "optimizer.lr: {qloguniform: [0.25, 1, 0.25]}",
        "optimizer.lr: {normal: [0.5, 0.1], clip: [0.1, 1]}",
        "optimizer.momentum: {uniform: [0, 0.99]}",
        "train.epochs: {randint: [1, 10]}",
        "train.batch_size: {lograndint: [16, 64]}",
        "train.batch_size: {qrandint: [16, 64, 16]}",
        "train.batch_size: {quniform: [16, 64, 16]}",
        "train.precision: [fp32, bf16]",
        "resources.num_workers: [0, 1]",
        "seed: {randint: [0, 9]}",
        "model.hidden: [[8], [8, 8]]",
        "model: [linear, {type: mlp, hidden: [4]}]",
        "optimizer.type: [sgd, adamw]",
        "optimizer: [sgd, {type: adamw, lr: {loguniform: [1e-4, 1e-2]}}]",
        "optimizer.schedule: {choice: [null, cosine, {type: cosine, floor: {uniform: [0, 1]}}]}",
        "optimizer.schedule.gamma: {uniform: [0.1, 0.9]}",
        "measures.0.bins: [10, 20]",
    ],
)
def test_each_form_of_distribution_is_allowed(entry: str, find: Any) -> None:
    assert [str(problem) for problem in find(space(entry))] == []


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("optimizer.lr: {loguniform: [0, 1]}", "loguniform needs low > 0, not 0"),
        ("optimizer.lr: {uniform: [1, 0]}", "uniform needs low < high, not 1 and 0"),
        ("optimizer.lr: {uniform: [1]}", "uniform needs [low, high], two numbers"),
        ("optimizer.lr: {uniform: [a, b]}", "uniform needs [low, high], two numbers"),
        ("optimizer.lr: {quniform: [0, 1]}", "quniform needs [low, high, step], three numbers"),
        ("optimizer.lr: {quniform: [0.1, 1, 1.0e-320]}", "quniform has too many steps: take one of at least 9e-10"),
        ("optimizer.lr: {quniform: [0, 1, 0]}", "quniform needs a step > 0, not 0"),
        ("optimizer.lr: {normal: [0, 0], clip: [0, 1]}", "normal needs sd > 0, not 0"),
        ("optimizer.lr: {normal: [0, 1]}", "must be a number >= 0, and normal has no bounds"),
        ("optimizer.lr: {normal: [0, 1], clip: [1, 0]}", "clip of normal needs low < high, not 1 and 0"),
        ("optimizer.lr: {uniform: [0, 1], clip: [0, 1]}", "only normal can be clipped"),
        ("optimizer.lr: {gaussian: [0, 1]}", "must be a list or a distribution, not a map"),
        ("optimizer.lr: 3", "must be a list or a distribution, not 3"),
        ("optimizer.lr: []", "choice needs a list of values"),
        ("optimizer.lr: {choice: 3}", "choice needs a list of values"),
        ("optimizer.lr: [0.1, fast]", "choice 2: must be a number >= 0, not the text `fast`"),
        ("optimizer.lr: {uniform: [-1, 1]}", "must be a number >= 0, not -1"),
        ("train.epochs: {uniform: [1, 10]}", "must be an integer >= 1 and <= 1000000000, not 2.2857"),
        ("train.epochs: {randint: [1.5, 10]}", "randint needs integers"),
        ("train.epochs: {randint: [0, 10]}", "must be an integer >= 1 and <= 1000000000, not 0"),
        ("train.precision: [fp32, fp8]", "choice 2: must be `fp32` or `bf16` or `fp16`, not the text `fp8`"),
        ("model: [mlp, {type: mlp, hidden: [0]}]", "choice 2: hidden.0 must be an integer >= 1 and <= 1000000, not 0"),
        ("model: [mlp, mpl]", "choice 2: no models/mpl"),
        ("optimizer.type: [sgd, needy]", "choice 2: missing `schedule`, which optimizers/needy needs"),
        ("optimizer: [sgd, needy]", "choice 2: missing `schedule`, which optimizers/needy needs"),
        (
            "optimizer.schedule: {choice: [cosine, {type: cosine, floor: {uniform: [0, 2]}}]}",
            "choice 2: floor must be a number >= 0 and <= 1, not 2",
        ),
        (
            "optimizer.schedule: {choice: [{type: cosine, warmup: {uniform: [0, 2]}}]}",
            "choice 1: warmup must be an integer >= 0 and <= 1000000000, not 0.666666666667",
        ),
        ("optimizer.momentun: [0.1]", "no argument has this path"),
        ("model.hidden.0: [1, 2]", "no argument has this path"),
        ("name: [a, b]", "`name` can't be swept"),
        ("resources.gpus_per_worker: [0, 1]", "`resources.gpus_per_worker` can't be swept"),
        ("start.run: [a, b]", "`start.run` can't be swept"),
    ],
)
def test_each_mistake_of_a_sweep_is_told(entry: str, message: str, find: Any) -> None:
    (found,) = find(space(entry))
    assert found.code == "sweep"
    assert found.path == "sweep.space." + entry.partition(": ")[0]
    assert found.message.startswith(message)
    assert found.at.line == 13


def test_a_misspelt_path_names_the_nearest(find: Any) -> None:
    assert find(space("optimizer.momentun: [0.1]"))[0].hint == "did you mean `optimizer.momentum`?"


def test_fractions_for_an_integer_suggest_randint(find: Any) -> None:
    assert find(space("train.epochs: {uniform: [1, 10]}"))[0].hint == "uniform gives fractions: use randint"


def test_a_path_below_a_swept_component_belongs_into_the_choice(find: Any) -> None:
    (found,) = find(space("optimizer: [sgd, adamw]\n    optimizer.lr: [0.1, 0.2]"))
    assert (found.message, found.hint) == ("lies below the swept `optimizer`", "put it inside the choice")


def test_a_mistake_in_the_recipe_is_not_told_again_for_each_choice(find: Any) -> None:
    text = space("optimizer.momentum: [0.1, 0.2]\n    optimizer.type: [sgd]").replace("lr: 0.1", "lr: -1")
    assert [problem.path for problem in find(text)] == ["optimizer.lr"]


def test_a_mistake_of_one_choice_is_told_once(find: Any) -> None:
    assert len(find(space("optimizer: [{type: sgd, lr: [1], momentum: {uniform: [0, 0.5]}}]"))) == 1


@pytest.mark.parametrize(
    ("keys", "path", "message"),
    [
        ("space: {seed: [1]}\n  trials: 2", None, None),
        ("space: {seed: [1]}", "sweep", "missing `trials`, how many to run"),
        ("space: {}\n  trials: 2", "sweep.space", "is empty: nothing to try"),
        ("trials: 2", "sweep", "missing `space`, which sweep needs"),
        ("space: {seed: {grid: [1, 2]}, train.epochs: [1, 2, 3]}", None, None),
        ("space: {seed: {grid: [1, 2]}, train.epochs: [1, 2, 3]}\n  trials: 6", None, None),
        ("space: {seed: [1, 2]}\n  search: grid", None, None),
        (
            "space: {seed: {grid: [1, 2]}, train.epochs: [1, 2, 3]}\n  trials: 5",
            "sweep.trials",
            "a grid of 6 combinations has 6 trials, not 5",
        ),
        (
            "space: {seed: {grid: [1, 2]}, optimizer.lr: {uniform: [0, 1]}}",
            "sweep.space.optimizer.lr",
            "a grid tries every combination, so every value must be a list",
        ),
        (
            "space: {seed: {grid: [1, 2]}}\n  search: random",
            "sweep.search",
            "a grid is searched as a grid: leave out `search`, or use choice",
        ),
        ("space: {seed: [1]}\n  trials: 2\n  scheduler: ash", "sweep.scheduler", "must be `none` or `asha`"),
        ("space: {seed: [1]}\n  trials: 2\n  scheduler: {type: asha, grace_period: 2}", None, None),
        ("space: {seed: [1]}\n  trials: 0", "sweep.trials", "must be an integer >= 1 and <= 1000000, not 0"),
    ],
)
def test_the_number_of_trials_fits_the_search(keys: str, path: str | None, message: str | None, find: Any) -> None:
    found = find(f"{HEAD}  {keys}\n")
    assert [problem.path for problem in found] == ([path] if path else [])
    assert message is None or found[0].message.startswith(message)


@pytest.mark.parametrize(
    ("goal", "paths"),
    [
        ("metric: val/loss\n  mode: min", []),
        ("objectives: {val/loss: min, val/accuracy: max}", []),
        ("objectives: {val/loss: min}", ["sweep.objectives"]),
        ("objectives: {val/loss: min, val/acc: max}", ["sweep.objectives.val/acc"]),
        ("objectives: {val/loss: min, val/accuracy: max}\n  metric: val/loss", ["sweep.metric"]),
        ("metric: val/los\n  mode: min", ["sweep.metric"]),
        ("metric: val/loss", ["sweep"]),
        ("mode: min", ["sweep"]),
    ],
)
def test_a_sweep_has_one_goal_or_several_objectives(goal: str, paths: list[str], find: Any) -> None:
    text = HEAD.replace("  metric: val/loss\n  mode: min\n", f"  {goal}\n") + "  space: {seed: [1]}\n  trials: 1\n"
    assert [problem.path for problem in find(text)] == paths


RULES = {
    "steps over epochs": ("train.steps: [1, 2]", ""),
    "a batch for no worker count": ("train.batch_size: [64, 63]", "choice 2: 63 examples / 2 workers / accumulate 1"),
    "a worker count for no batch": ("resources.num_workers: {choice: [4, 3]}", "choice 2: 64 examples / 3 workers"),
    "an interval of batches": ("train.batch_size: {randint: [2, 5]}", "5 examples / 2 workers"),
    "an average without a decay": ("train.evaluate_weights: [model, ema]", "choice 2: `ema` needs `train.ema`"),
    "fsdp with workers": ("train.parallel: [fsdp]", ""),
    "an unknown metric to stop by": (
        "train.early_stop: [{metric: val/nothing, mode: min, patience: 1}]",
        "choice 1: tasks/classification does not report `nothing`",
    ),
    "both of a pair": ("train.steps: [1]\n    train.epochs: [1]", "excludes `train.steps`, which is swept too"),
    "a rule of two swept keys": ("train.batch_size: [64, 63]\n    resources.num_workers: [2, 3]", ""),
    "a rule of one swept key of two": ("train.epochs: [1]\n    train.batch_size: [63]", "choice 1: 63 examples"),
}


@pytest.mark.parametrize("rule", RULES)
def test_each_value_of_a_sweep_keeps_the_rules_of_its_section(rule: str, find: Any) -> None:
    entry, message = RULES[rule]
    text = space(entry) + "train: {epochs: 3, batch_size: 64}\nresources: {num_workers: 2}\n"
    found = find(text)
    assert [problem.message.startswith(message) for problem in found] == [True] * bool(message)
    assert all(problem.code == "sweep" for problem in found)


def test_a_swept_argument_takes_the_one_that_it_excludes_away(lab: Lab, find: Any, tmp_path: Path) -> None:
    pair = NEEDY.replace('schedule."""', 'schedule."""\n\n    at_most_one = (("few", "many"),)').replace(
        "lr: float = 1.0, seed: int = 0", "few: float | None = None, many: float | None = None"
    )
    lab({"optimizers/pair": pair.replace("Needy", "Pair")})
    text = space("optimizer.many: [1.0]").replace("{type: sgd, lr: 0.1,", "{type: pair, few: 2.0,")
    file = tmp_path / "pair.yaml"
    file.write_text(text)
    assert check(load(str(file)), catalogue.load()).plain["optimizer"]["few"] == 2.0
    file.write_text(text + "    optimizer.few: [1.0]\n")
    with pytest.raises(RecipeError, match="excludes `optimizer.many`, which is swept too"):
        check(load(str(file)), catalogue.load())
