"""What `raycipe new` writes: small components and a recipe that work as they are, to be changed."""

from __future__ import annotations

import ast
from pathlib import Path

from raycipe.framework import catalogue

RECIPE = """# yaml-language-server: $schema={schema}
#
# What this recipe shows, in a sentence.
#   launch {name}.yaml
# Try: optimizer.lr=0.3, model.hidden=[64], resources.num_workers=2
recipe: 1
name: {name}
about: A small network learns handwritten digits.

data:
  type: digits
model:
  type: mlp
  hidden: [128, 128]
task: classification
optimizer:
  type: sgd
  lr: 0.1
  momentum: 0.9
  schedule: cosine
train:
  epochs: 10

resources:
  num_workers: 0
expect:
  test/accuracy: ">= 0.95"

profiles:
  smoke:
    train:
      epochs: 1
"""

DATA = '''"""Points on two rings."""

from __future__ import annotations

import torch

from raycipe.framework.arguments import Count, NonNegative
from raycipe.framework.contracts import Data, Split, TensorSplit
from raycipe.framework.registry import register
from raycipe.framework.streams import torch_generator


@register
class {cls}(Data):
    """Points on two rings of radius 1 and 2, a class each.

    x = (1 + y) (cos a, sin a) + noise · N(0, I), with a uniform and y in {{0, 1}}.

    Args:
        examples: how many points are drawn, over all splits
        noise: standard deviation of a point around its ring

    Recipe:
        data: {{type: {type}, examples: 500}}
        model: mlp
        task: classification
        optimizer: {{type: sgd, lr: 0.1}}
    """

    def __init__(self, examples: Count = 1000, noise: NonNegative = 0.1) -> None:
        if examples < 10:
            raise ValueError(f"examples must be at least 10, not {{examples}}")
        self.examples = examples
        self.noise = noise

    def load(self, seed: int) -> dict[str, Split]:
        generator = torch_generator(seed, "{type}")
        y = torch.randint(2, (self.examples,), generator=generator)
        angle = torch.rand(self.examples, generator=generator) * 2 * torch.pi
        ring = torch.stack([angle.cos(), angle.sin()], dim=1) * (1 + y).unsqueeze(1)
        x = ring + self.noise * torch.randn(self.examples, 2, generator=generator)  # (examples, 2)
        self.facts = {{
            "input_shape": [2],
            "num_features": 2,
            "num_outputs": 2,
            "num_classes": 2,
            "class_names": ["inner", "outer"],
        }}
        parts = {{"train": (0.0, 0.7), "val": (0.7, 0.8), "test": (0.8, 1.0)}}
        rows = {{name: slice(int(a * self.examples), int(b * self.examples)) for name, (a, b) in parts.items()}}
        return {{name: TensorSplit({{"x": x[span], "y": y[span]}}) for name, span in rows.items()}}
'''

MODELS = '''"""A gated layer between two linear ones."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from raycipe.framework.arguments import Count, FromData, Width
from raycipe.framework.contracts import Model
from raycipe.framework.registry import register


@register
class {cls}(Model):
    """One hidden layer whose units are opened and closed by gates.

    f(x) = W2 (tanh(W1 x) · sigmoid(G x)), on the flattened input.

    Args:
        num_features: length of a flattened example; the data knows it
        num_outputs: number of classes or target dimensions; the data knows it
        width: units of the hidden layer

    Recipe:
        data: digits
        model: {{type: {type}, width: 32}}
        task: classification
        optimizer: {{type: sgd, lr: 0.1}}
    """

    def __init__(
        self,
        num_features: Annotated[Count, FromData("num_features")],
        num_outputs: Annotated[Count, FromData("num_outputs")],
        width: Width = 64,
    ) -> None:
        super().__init__()
        self.values = nn.Linear(num_features, width)
        self.gates = nn.Linear(num_features, width)
        self.out = nn.Linear(width, num_outputs)

    def forward(self, x: Tensor) -> Tensor:  # (batch, ...) -> (batch, num_outputs)
        x = x.flatten(1)
        return self.out(torch.tanh(self.values(x)) * torch.sigmoid(self.gates(x)))
'''

TASKS = '''"""Classification with a focal loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from raycipe.framework.arguments import NonNegative
from raycipe.framework.contracts import Batch, Loss, Split, Task, TensorSplit
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register


@register
class {cls}(Task):
    """Classification that cares less about examples it already gets right.

    loss = mean over examples of -(1 - p)^gamma log p, with p the probability of the right class.

    Args:
        gamma: how much less a well classified example counts; 0 is the cross-entropy

    Recipe:
        data: digits
        model: mlp
        task: {{type: {type}, gamma: 1.0}}
        optimizer: {{type: sgd, lr: 0.1}}
    """

    reports: ClassVar[tuple[str, ...]] = ("loss", "accuracy")

    def __init__(self, gamma: NonNegative = 2.0) -> None:
        self.gamma = gamma

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        outputs = model(batch["x"])  # (batch, classes)
        log_p = F.log_softmax(outputs, dim=1).gather(1, batch["y"].unsqueeze(1)).squeeze(1)
        return Loss(-((1 - log_p.exp()) ** self.gamma * log_p).mean(), outputs)

    def scores(self, outputs: Any, batch: Batch) -> dict[str, Tensor]:
        return {{"accuracy": (outputs.detach().argmax(dim=1) == batch["y"]).sum()}}

    def check(self, facts: Mapping[str, Any], splits: Mapping[str, Split]) -> None:
        for name, split in splits.items():
            if isinstance(split, TensorSplit) and split.tensors["y"].dtype != torch.int64:
                raise RunError("data", f"{{name}}: y must hold class numbers (int64)", where="data")
'''

OPTIMIZERS = '''"""Steps by the sign of the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from raycipe.framework.arguments import Fraction, NonNegative
from raycipe.framework.contracts import Optimizer, Schedule
from raycipe.framework.registry import register


@register
class {cls}(Optimizer):
    """Every weight moves by the same amount, in the direction that its averaged gradient tells.

    m <- momentum · m + (1 - momentum) g;  w <- w - lr · sign(m).

    Args:
        lr: size of a step; the schedule scales it
        momentum: share of the running average that is kept; larger averages over more steps
        schedule: how the rate changes over the run; null keeps it

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: {{type: {type}, lr: 1e-3, schedule: cosine}}
    """

    def __init__(
        self,
        params: Any,
        lr: NonNegative = 1e-3,
        momentum: Fraction = 0.9,
        schedule: Schedule | None = None,
    ) -> None:
        for name, value in (("lr", lr), ("momentum", momentum)):
            if value < 0:
                raise ValueError(f"{{name}} must be >= 0, not {{value}}")
        super().__init__(params, {{"lr": lr, "momentum": momentum}})
        self.schedule = schedule

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if not state:
                    state["average"] = torch.zeros_like(weight)
                state["average"].lerp_(weight.grad, 1 - group["momentum"])
                weight.add_(state["average"].sign(), alpha=-group["lr"])
        return loss
'''

SCHEDULES = '''"""Exponential decay."""

from __future__ import annotations

from raycipe.framework.arguments import Share
from raycipe.framework.contracts import Schedule
from raycipe.framework.registry import register


@register
class {cls}(Schedule):
    """The learning rate falls by the same share at every step.

    factor(t) = floor^(t / (T - 1)), from 1 at the first of T steps to `floor` at the last.

    Args:
        floor: share of the full rate that is left at the last step

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: {{type: sgd, lr: 0.1, schedule: {{type: {type}, floor: 0.01}}}}
    """

    def __init__(self, floor: Share = 0.01) -> None:
        if floor <= 0:
            raise ValueError(f"floor must be > 0, not {{floor}}")
        self.floor = floor

    def factor(self, step: int, total_steps: int) -> float:
        return float(self.floor ** (step / max(1, total_steps - 1)))
'''

MEASURES = '''"""How sure the model is."""

from __future__ import annotations

from typing import ClassVar

import torch

from raycipe.framework.contracts import Measure, Measured, Trained
from raycipe.framework.registry import register


@register
class {cls}(Measure):
    """Mean entropy of the predicted classes, in nats: 0 for certainty, log(classes) for none.

    entropy = mean over examples of -sum_k p(k | x) log p(k | x).

    Args:
        split: examples to measure on

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: sgd
        measures: [{type}]
    """

    needs: ClassVar[tuple[str, ...]] = ("model", "splits")
    reports: ClassVar[tuple[str, ...]] = ("entropy",)

    def __init__(self, split: str = "test") -> None:
        self.split = split

    @torch.no_grad()
    def measure(self, trained: Trained) -> Measured:
        model = trained.model
        assert model is not None  # `needs` says so
        total, count = 0.0, 0
        for batch in trained.batches(self.split):
            log_p = torch.log_softmax(model(batch["x"]).double(), dim=1)
            total -= float((log_p.exp() * log_p).sum())
            count += len(log_p)
        return Measured(values={{"entropy": total / count}})
'''

TEMPLATES = {
    "data": DATA,
    "models": MODELS,
    "tasks": TASKS,
    "optimizers": OPTIMIZERS,
    "schedules": SCHEDULES,
    "measures": MEASURES,
}

OTHER = '''"""What this component is."""

from __future__ import annotations

from typing import Any

from raycipe.framework.arguments import Positive
from raycipe.framework.contracts import {contract}
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register


@register
class {cls}({contract}):
    """What it does, in one sentence.

    The formula that it computes.

    Args:
        scale: what it means, its unit, and what larger values do
    """

    def __init__(self, scale: Positive = 1.0) -> None:
        self.scale = scale
{methods}'''

METHOD = '''
    def {name}(self, *args: Any, **kwargs: Any) -> Any:
        """{help}"""
        raise RunError("component", "{kind}/{type}: `{name}` is not written yet")
'''


def component(kind: str, type_: str) -> str:
    """The text of a new component; where a kind has no example here, its methods say that they are to be written."""
    cls = "".join(word.capitalize() for word in type_.split("_"))
    if kind in TEMPLATES:
        return TEMPLATES[kind].format(cls=cls, type=type_)
    contract, methods = _contract(kind)
    bodies = [METHOD.format(name=name, help=text, kind=kind, type=type_) for name, text in methods.items()]
    return OTHER.format(cls=cls, contract=contract, methods="".join(bodies))


def recipe(name: str, schema: str) -> str:
    """The text of a new recipe; block style, which editors complete best."""
    return RECIPE.format(name=name, schema=schema)


def _contract(kind: str) -> tuple[str, dict[str, str]]:
    """The base class of a kind and its abstract methods with their help; read as text, as importing it costs torch."""
    folder = Path(catalogue.FOLDER, "contracts")
    body = [node for path in sorted(folder.glob("*.py")) for node in ast.parse(path.read_text(encoding="utf-8")).body]
    kinds = next(node for node in body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "KINDS")
    assert isinstance(kinds.value, ast.Dict)
    pairs = zip(kinds.value.keys, kinds.value.values, strict=True)
    names = {ast.literal_eval(key): ast.unparse(value) for key, value in pairs if key}
    cls = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == names[kind])
    methods = [node for node in cls.body if isinstance(node, ast.FunctionDef)]
    abstract = [node for node in methods if "abstractmethod" in map(ast.unparse, node.decorator_list)]
    return cls.name, {node.name: (ast.get_docstring(node) or "").partition("\n")[0] for node in abstract}
