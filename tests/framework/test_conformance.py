"""The conformance battery finds what is broken, and says what."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from raycipe.framework import conformance, plugins

HEAD = """
import torch
from torch import nn
from raycipe.framework.contracts import *
from raycipe.framework.registry import register
"""

FILES = {
    "data/moody.py": '''
@register
class Moody(Data):
    """Another draw at every load.

    Recipe:
        data: moody
        model: linear
        task: classification
        optimizer: sgd
    """

    def load(self, seed):
        x = torch.randn(40, 3)
        self.facts = {"input_shape": [4], "num_features": 3, "num_outputs": 2, "num_classes": 2, "class_names": "ab"}
        split = TensorSplit({"x": x, "y": torch.arange(40) % 2})
        return {"train": split, "test": split}
''',
    "models/idle.py": '''
@register
class Idle(Model):
    """A model with a weight that it does not use, and one that looks at its neighbours.

    Args:
        width: how wide

    Recipe:
        data: digits
        model: idle
        task: classification
        optimizer: sgd
    """

    def __init__(self, width: int = 10) -> None:
        super().__init__()
        self.layer = nn.Linear(64, width)
        self.unused = nn.Linear(2, 2)

    def forward(self, x):
        y = self.layer(x.flatten(1))
        return y - y.mean(dim=0)
''',
    "tasks/total.py": '''
@register
class Total(Task):
    """A sum instead of a mean.

    Recipe:
        data: digits
        model: linear
        task: total
        optimizer: sgd
    """

    def loss(self, model, batch):
        outputs = model(batch["x"])
        return Loss(nn.functional.cross_entropy(outputs, batch["y"], reduction="sum"), outputs)
''',
    "optimizers/forgetful.py": '''
@register
class Forgetful(Optimizer, torch.optim.Optimizer):
    """Keeps its momentum where no checkpoint finds it.

    Args:
        lr: step

    Recipe:
        data: digits
        model: linear
        task: classification
        optimizer: forgetful
    """

    def __init__(self, params, lr: float = 0.05) -> None:
        super().__init__(params, {"lr": lr})
        self.hidden = {}

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                self.hidden[p] = 0.9 * self.hidden.get(p, 0) + p.grad
                p -= group["lr"] * self.hidden[p]
''',
    "schedules/counting.py": '''
@register
class Counting(Schedule):
    """Depends on how often it was asked

    Args:
        start: the first factor
        speed: nobody takes this

    Recipe:
        data: digits
        model: linear
        task: classification
        optimizer: {type: sgd, schedule: counting}
    """

    def __init__(self, start: float = 1.0) -> None:
        self.begin = start * 2

    def factor(self, step, total_steps):
        self.begin += 1
        return self.begin
''',
    "measures/meddling.py": '''
@register
class Meddling(Measure):
    """Changes what it measures.

    Recipe:
        data: digits
        model: linear
        task: classification
        optimizer: sgd
        measures: [meddling]
    """

    def measure(self, trained):
        with torch.no_grad():
            next(trained.model.parameters()).mul_(0.5)
        return Measured(values={"one": 1.0})
''',
}

EXPECTED = {
    ("data/moody", "same_seed_gives_the_same_splits"): "load draws from the global random state",
    ("data/moody", "splits_share_no_example"): "40 examples of test also occur in another split",
    ("data/moody", "facts_are_true"): "examples have shape [3]",
    ("models/idle", "every_parameter_gets_a_gradient"): "no gradient for unused.weight, unused.bias",
    ("models/idle", "evaluation_treats_examples_alone"): "not close",
    ("tasks/total", "loss_and_scores_add_up_over_batches"): "the loss is no mean over units",
    ("optimizers/forgetful", "restored_state_continues_bit_for_bit"): "differ after a restore",
    ("schedules/counting", "factor_is_pure_and_finite"): "the factor depends on earlier calls",
    ("schedules/counting", "help_is_complete"): "the docstring must begin with a sentence",
    ("schedules/counting", "constructor_only_stores"): "the constructor does not keep `start`",
    ("measures/meddling", "measure_leaves_everything_as_it_was"): "model changed",
}


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], conformance.Case]]:
    folder = tmp_path_factory.mktemp("broken") / "broken_components"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(HEAD + text)
    before = list(plugins._added)
    plugins.add_folder(str(folder))
    found = conformance.cases("broken_components")
    yield {(f"{case.kind}/{case.type}", case.check.__name__): case for case in found}
    plugins._added[:] = before
    sys.modules.pop("broken_components")


@pytest.mark.parametrize("which", EXPECTED, ids="-".join)
def test_a_broken_promise_is_found_and_named(
    which: tuple[str, str], broken: dict[tuple[str, str], conformance.Case], tmp_path: Path
) -> None:
    with pytest.raises(AssertionError) as caught:
        broken[which](tmp_path)
    assert EXPECTED[which] in str(caught.value)


def test_an_unknown_package_is_told_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"^package: no components come from `nowhere`; known: raycipe\.components"):
        conformance.cases("nowhere")


def test_one_component_is_checked_by_name(broken: object) -> None:
    conformance.check_component("schedules/cosine")
    with pytest.raises(AssertionError, match=r"^tasks/total: loss_and_scores_add_up_over_batches: the loss is no mean"):
        conformance.check_component("tasks/total")
