"""Rules between sections, and between the keys of one."""

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
HEAD = "recipe: 1\nname: a\n"
TASK = HEAD + "data: digits\nmodel: mlp\ntask: classification\noptimizer: sgd\n"

ENV = '''
from raycipe.framework.contracts import Agent, Editor, Env, Estimator


@register
class Thing({base}):
    """A thing."""

    def make(self, *a: Any) -> Any:
        return a

    config = edit = fit = misfit = policy = make
'''


@pytest.fixture
def schema(lab: Lab) -> dict[str, Any]:
    bases = {"envs": "Env", "agents": "Agent", "editors": "Editor", "estimators": "Estimator"}
    lab({f"{kind}/thing": ENV.format(base=base) for kind, base in bases.items()})
    return catalogue.load()


@pytest.fixture
def problems(tmp_path: Path, schema: dict[str, Any]) -> Callable[[str], list[Problem]]:
    def find(text: str) -> list[Problem]:
        file = tmp_path / "a.yaml"
        file.write_text(text)
        try:
            check(load(str(file)), schema)
        except RecipeError as error:
            return sorted(error.problems, key=lambda problem: problem.at)
        return []

    return find


AGENT = HEAD + "env: thing\nagent: thing\n"


@pytest.mark.parametrize(
    "text",
    [
        TASK,
        HEAD + "data: digits\nestimator: thing\n",
        AGENT + "train: {iterations: 3}\n",
        AGENT + "train: {env_steps: 1e6, until: {metric: rl/episode_return, at_least: 300}}\n",
        HEAD + "start: runs/a/x\neditor: thing\n",
        HEAD + "data: digits\nstart: {run: abc, checkpoint: best}\nmeasures: [parameter_count]\n",
        HEAD + "data: digits\nstart: {run: abc, checkpoint: 30, part: all}\ntask: classification\noptimizer: sgd\n",
        HEAD + "data: digits\nmeasures: [parameter_count]\n",
    ],
)
def test_each_kind_of_job_is_allowed(text: str, problems: Any) -> None:
    assert [str(problem) for problem in problems(text)] == []


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (HEAD + "data: digits\nmodel: mlp\ntask: classification\n", "task", "needs `optimizer`"),
        (HEAD + "data: digits\ntask: classification\noptimizer: sgd\n", "task", "needs `model` or `start`"),
        (HEAD + "data: digits\noptimizer: sgd\nmeasures: [parameter_count]\n", "optimizer", "needs `task` or `agent`"),
        (HEAD + "data: digits\ntrain: {epochs: 1}\nmeasures: [weight_norms]\n", "train", "needs `task` or `agent`"),
        (HEAD + "agent: thing\ntrain: {iterations: 1}\n", "agent", "needs `env`"),
        (HEAD + "env: thing\nmeasures: [parameter_count]\n", "env", "needs `agent`"),
        (HEAD + "model: mlp\nmeasures: [parameter_count]\n", "model", "needs `data` or `env`"),
        (HEAD + "estimator: thing\n", "estimator", "needs `data`"),
        (HEAD + "data: digits\neditor: thing\n", "editor", "needs `model` or `start`"),
        (HEAD + "data: digits\n", "", "nothing to run: needs one of `task`, `agent`, `estimator`, `editor`"),
        (HEAD + 'data: digits\nexpect: {test/accuracy: "> 0"}\n', "", "nothing to run"),
        (TASK + "estimator: thing\n", "estimator", "can't stand beside `task`"),
        (TASK + "train: {epochs: 1, steps: 2}\n", "train.steps", "excludes `epochs`: give one of them"),
        (TASK + "train: {env_steps: 2}\n", "train.env_steps", "belongs to the training of an agent"),
        (AGENT + "train: {iterations: 1, epochs: 2}\n", "train.epochs", "belongs to the training of a task"),
        (AGENT + "train: {eval_episodes: 3}\n", "train", "missing `env_steps` or `iterations`: how long to train"),
        (AGENT + "train: {iterations: 1, env_steps: 3}\n", "train.iterations", "excludes `env_steps`: give one of"),
        (AGENT + "train: {iterations: 1}\nresources: {num_workers: 2}\n", "resources.num_workers", "no meaning for an"),
        (
            AGENT + "train: {iterations: 1}\nresources: {memory_per_worker: 1GB}\n",
            "resources.memory_per_worker",
            "has no meaning for an agent",
        ),
        (
            TASK + "resources: {num_env_runners: 2}\n",
            "resources.num_env_runners",
            "belongs to the training of an agent",
        ),
        (
            AGENT + "train: {iterations: 1, until: {metric: rl/episode_retrun, at_least: 3}}\n",
            "train.until.metric",
            "agents do not report `rl/episode_retrun`",
        ),
        (TASK + "train: {evaluate_weights: ema}\n", "train.evaluate_weights", "`ema` needs `train.ema`, a decay"),
        (
            TASK + "train: {parallel: fsdp}\nresources: {num_workers: 0}\n",
            "train.parallel",
            "`fsdp` has no meaning with num_workers 0, which trains in the launching process",
        ),
        (
            TASK + "resources: {num_workers: 2, simulated_workers: 4}\n",
            "resources.num_workers",
            "resources.simulated_workers are computed in one worker",
        ),
        (
            TASK + "train: {batch_size: 6}\nresources: {num_workers: 0, simulated_workers: 4}\n",
            "train.batch_size",
            "6 examples / 4 workers",
        ),
        (TASK + "resources: {num_workers: [3, 2]}\n", "resources.num_workers", "[min, max] with min 3 above max 2"),
        (
            TASK + "train: {keep_best: {metric: val/acuracy, mode: max}}\n",
            "train.keep_best.metric",
            "tasks/classification does not report `acuracy`",
        ),
        (
            TASK + "train: {early_stop: {metric: loss, mode: min}}\n",
            "train.early_stop.metric",
            "`loss` is no metric's name",
        ),
    ],
)
def test_each_broken_rule_is_told_at_its_section(text: str, path: str, message: str, problems: Any) -> None:
    found = problems(text)
    assert [(problem.path, problem.code in ("section", "missing", "unknown-key")) for problem in found] == [
        (path, True)
    ]
    assert message in found[0].message


@pytest.mark.parametrize("train", ["parallel: ddp", "parallel: null"])
def test_workers_may_share_a_model_and_none_need_not(train: str, problems: Any) -> None:
    workers = "0" if "null" in train else "2"
    assert problems(TASK + f"train: {{{train}}}\nresources: {{num_workers: {workers}}}\n") == []


def test_a_profile_without_workers_can_not_keep_the_way_that_they_share_a_model(problems: Any) -> None:
    (found,) = problems(TASK + "train: {parallel: ddp}\nprofiles: {small: {resources: {num_workers: 0}}}\n")
    assert (found.code, found.path) == ("section", "profiles.small.train.parallel")
    assert found.hint == "resources.num_workers: 1 or more, or train.parallel: null"


def test_an_agent_stands_alone(problems: Any) -> None:
    found = problems(TASK + "env: thing\nagent: thing\nestimator: thing\ntrain: {iterations: 1}\n")
    assert [(problem.path, problem.message) for problem in found] == [
        ("agent", "can't stand beside `task` and `optimizer`"),
        ("estimator", "can't stand beside `agent` and `task`"),
    ]


@pytest.mark.parametrize(
    ("train", "workers", "message"),
    [
        ("batch_size: 63", "2", "63 examples / 2 workers / accumulate 1 = 31.5, which is not a whole number"),
        ("batch_size: 64, accumulate: 3", "2", "64 examples / 2 workers / accumulate 3 = 10.67, which is not a whole"),
        ("batch_size: 2", "[1, 4]", "2 examples / 4 workers / accumulate 1 = 0.5, which is less than one"),
        ("epochs: 1", "3", "64 examples / 3 workers / accumulate 1 = 21.33, which is not a whole number"),
    ],
)
def test_a_batch_must_divide_among_the_workers(train: str, workers: str, message: str, problems: Any) -> None:
    (found,) = problems(TASK + f"train: {{{train}}}\nresources: {{num_workers: {workers}}}\n")
    assert found.message.startswith(message)
    assert found.hint.startswith("batch_size counts examples per step over all workers: use ")
    assert found.at.line == (8 if train == "epochs: 1" else 7), "told where something was written"


@pytest.mark.parametrize("workers", ["0", "1", "4", "[1, 3]"])
def test_a_batch_that_divides_is_fine(workers: str, problems: Any) -> None:
    assert problems(TASK + f"resources: {{num_workers: {workers}}}\n") == []


@pytest.mark.parametrize(
    ("claim", "line", "message", "hint"),
    [
        ("test/accuracy: 0.95", 2, "must be a comparison, not 0.95", 'write ">= 0.95"'),
        ("test/accuracy: [1]", 2, "must be a comparison", 'write ">= 0.95", '),
        ('test/accuracy: "0.95"', 2, "is no comparison", 'write ">= 0.95", '),
        ('accuracy: "> 0"', 2, "is no metric's name", "a metric such as test/accuracy"),
        ('tset/accuracy: "> 0"', 2, "no metrics begin with `tset/`", "did you mean `test/accuracy`?"),
        ('zzz/accuracy: "> 0"', 2, "no metrics begin with `zzz/`", "they begin with train, val, test"),
        ('test/acc: "> 0"', 2, "tasks/classification does not report `acc`", "known: test/accuracy, test/auroc"),
        ('min(val/los): "> 0"', 2, "tasks/classification does not report `los`", "did you mean `val/loss`?"),
        ('test/loss: "< 2 * val/los"', 2, "tasks/classification does not report `los`", "did you mean `val/loss`?"),
        ('measure/ece/x: "> 0"', 2, "no measure of this recipe reports `measure/ece/x`", "known: measure/parameter"),
        (
            'measure/parameter_count/totl: "> 0"',
            2,
            "no measure of this recipe reports",
            "did you mean `measure/parameter_count/total`?",
        ),
    ],
)
def test_a_claim_must_be_readable_and_reportable(claim: str, line: int, message: str, hint: str, problems: Any) -> None:
    text = TASK + f"measures: [parameter_count]\nexpect:\n  {claim}\n"
    (found,) = problems(text)
    assert found.code == "expect"
    assert found.at.line == 9
    assert found.message.startswith(message)
    assert found.hint.startswith(hint)


@pytest.mark.parametrize(
    "claim",
    [
        'test/accuracy: ">= 95%"',
        'train/lr: "> 0"',
        'comm/bytes: "< 1e9"',
        'measure/parameter_count/total: "> 0"',
        'mean(val/accuracy): "> test/accuracy - 0.1"',
    ],
)
def test_a_claim_that_the_recipe_can_report_is_fine(claim: str, problems: Any) -> None:
    assert problems(TASK + f"measures: [parameter_count]\nexpect: {{{claim}}}\n") == []


def test_without_measures_the_hint_says_where_to_add_one(problems: Any) -> None:
    (found,) = problems(TASK + 'expect: {measure/ece/x: "> 0"}\n')
    assert found.hint == "add it to `measures`"


def test_without_a_task_nothing_reports_an_accuracy(problems: Any) -> None:
    (found,) = problems(HEAD + 'data: digits\nmeasures: [parameter_count]\nexpect: {test/accuracy: "> 0"}\n')
    assert (found.message, found.hint) == ("nothing reports `test/accuracy`", "it takes a `task`")


@pytest.mark.parametrize(
    "text",
    [
        "train: {batch_size: '${nope}'}\nresources: {num_workers: 2}\n",
        "train: {accumulate: '${nope}'}\nresources: {num_workers: 2}\n",
        "resources: {num_workers: ['${nope}', 2]}\n",
    ],
)
def test_a_reference_to_nowhere_is_told_once_and_no_rule_is_judged_by_it(text: str, problems: Any) -> None:
    (found,) = problems(TASK + text)
    assert found.message == "no value `nope`"
