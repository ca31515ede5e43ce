"""Building everything once in the driver."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from raycipe.framework.registry import make
from raycipe.framework.weightless import weightless

QUICKSTART = Path(__file__).parents[2] / "recipes" / "quickstart.yaml"
HEAVY = ("torch._dynamo", "torch._inductor", "sympy", "ray", "sklearn", "scipy", "pandas", "matplotlib")

CONSTRUCT = """
import json, sys
from raycipe.framework.check import check
from raycipe.framework.construct import construct
from raycipe.framework.recipe import load
recipe = check(load(sys.argv[1]))
made = construct(recipe.nodes.value, recipe.plain)
heavy = [name for name in sys.argv[2:] if name in sys.modules]
print(json.dumps([made.parameters, made.examples, made.fingerprint["sha256"], heavy]))
"""

TRAIN = """
import json, sys
from raycipe.framework.check import check
from raycipe.framework.recipe import load
from raycipe.framework.training.plan import TrainPlan
from raycipe.framework.training.session import train
recipe = check(load(sys.argv[1], ["train.epochs=1", "measures=[]"]))
summary = train(TrainPlan(recipe.plain, sys.argv[2]))
heavy = [name for name in sys.argv[3:] if name in sys.modules]
print(json.dumps([summary.steps, len(summary.checkpoints), heavy]))
"""


def python(script: str, *words: str) -> list[object]:
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[object] = json.loads(done.stdout)
    return found


def test_quickstart_is_constructed_without_the_compiler_ray_or_scikit_learn() -> None:
    parameters, examples, sha256, heavy = python(CONSTRUCT, str(QUICKSTART), *HEAVY)
    assert parameters == 64 * 128 + 128 + 128 * 128 + 128 + 128 * 10 + 10
    assert examples == {"train": 1258, "val": 180, "test": 359}
    assert sha256 == "f45dd631cf77b6567fb0b88a24eb2123f9ec5a48a4f25057aba1244bf0d11f23"
    assert heavy == []


def test_quickstart_is_trained_and_saved_without_the_compiler(tmp_path: Path) -> None:
    steps, checkpoints, heavy = python(TRAIN, str(QUICKSTART), str(tmp_path), *HEAVY)
    assert steps == 1258 // 64 and checkpoints == 1
    assert heavy == []


def test_random_fills_of_a_weightless_module_do_nothing() -> None:
    with weightless():
        layer = nn.Linear(1_000_000, 1_000_000)  # 4 TB
        nn.init.trunc_normal_(layer.weight)
        drawn = nn.Parameter(torch.randn(3, 4) * 0.1)
    assert layer.weight.is_meta and layer.weight.shape == (1_000_000, 1_000_000)
    assert drawn.is_meta and drawn.shape == (3, 4)


def test_a_wrong_initialisation_is_seen_in_a_weightless_module() -> None:
    with weightless(), pytest.raises(ValueError, match="fewer than 2 dimensions"):
        nn.init.kaiming_normal_(torch.empty(3))


def test_what_is_not_on_the_meta_device_is_drawn() -> None:
    with weightless():
        values = torch.empty(1000, device="cpu").normal_()
        more = torch.randn(1000, device="cpu")
    assert 0.8 < float(values.std()) < 1.2 and 0.8 < float(more.std()) < 1.2


@pytest.mark.parametrize(("name", "torchs"), [("sgd", torch.optim.SGD), ("adamw", torch.optim.AdamW)])
def test_an_optimizer_without_the_compilers_wrappers_steps_as_torchs_own(
    name: str, torchs: type[torch.optim.Optimizer]
) -> None:
    both = [nn.Parameter(torch.linspace(-1, 1, 12).view(3, 4)) for _ in range(2)]
    arguments = {"lr": 0.1, "weight_decay": 0.1, "fused": True}
    ours, theirs = make(f"optimizers/{name}", params=[both[0]], **arguments), torchs([both[1]], **arguments)
    seen: list[object] = []
    ours.register_step_post_hook(lambda optimizer, args, kwargs: seen.append(optimizer))
    for _ in range(3):
        for optimizer, parameter in ((ours, both[0]), (theirs, both[1])):
            optimizer.zero_grad()
            (parameter**2).sum().backward()
            optimizer.step()
    assert torch.equal(both[0], both[1]) and both[0].is_leaf
    assert seen == [ours] * 3
    assert ours.step(lambda: (both[0] ** 2).sum()) == (both[1] ** 2).sum()
