"""How far a run is from the best that its model could do."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from raycipe.components.measures._risks import whole_split
from raycipe.framework.arguments import Count
from raycipe.framework.contracts import Batch, Measure, Measured, Skipped, Task, Trained
from raycipe.framework.registry import register

PROBES = 8  # random inputs on which a model must be linear
LINEAR = 1e-4  # relative deviation from it


@register
class ExcessRisk(Measure):
    """Excess risk of a trained model, in the units of the task's loss.

    On data that tell their `true_weights` w* and `feature_variances` lambda (powerlaw_regression), and for a linear
    model with the mean square as loss, it is exact: excess = sum_i lambda_i (w_i - w*_i)² + b². Elsewhere the best
    model is the one that minimizes the training loss (an L-BFGS run from the initial weights: the problem should be
    convex): excess = test loss - its test loss, and `optimization` is the same of the training loss. `gap` is test loss
    minus training loss.

    Args:
        steps: at most so many L-BFGS steps for the best model

    Reference:
        L. Bottou, O. Bousquet, The Tradeoffs of Large Scale Learning, NeurIPS 2007.

    Recipe:
        data: {type: powerlaw_regression, examples: 2048, features: 32}
        model: {type: linear, bias: false, zero_init: true}
        task: regression
        optimizer: {type: sgd, lr: 0.2}
        train: {epochs: 1, batch_size: 16}
        measures: [{type: excess_risk}]
    """

    needs: ClassVar[tuple[str, ...]] = ("model", "task", "splits")
    reports: ClassVar[tuple[str, ...]] = ("excess", "optimization", "gap")

    def __init__(self, steps: Count = 200) -> None:
        self.steps = steps

    def measure(self, trained: Trained) -> Measured:
        assert trained.model is not None and trained.task is not None
        if "true_weights" in trained.facts and _is_mean_square(trained):
            found = linear_map(trained.model, len(trained.facts["true_weights"]), trained.device)
            if found is not None:
                return Measured({"excess": exact_excess(*found, trained.facts)})
        return Measured(self._against_the_best(trained))

    def _against_the_best(self, trained: Trained) -> dict[str, float]:
        if trained.initial_model is None:
            raise Skipped("the initial model, from which the best one is sought, is not there")
        train, test = whole_split(trained, "train"), whole_split(trained, "test")
        task: Any = trained.task
        model: Any = trained.model
        best = minimizer(trained.initial_model().to(trained.device), task, train, self.steps)
        ours, theirs = ([mean_loss(one, task, batch) for batch in (train, test)] for one in (model, best))
        return {
            "excess": ours[1] - theirs[1],
            "optimization": ours[0] - theirs[0],
            "gap": ours[1] - ours[0],
        }


def exact_excess(weights: Tensor, offset: float, facts: Any) -> float:
    """sum_i lambda_i (w_i - w*_i)² + b², of the map x -> w·x + b."""
    true, variances = (torch.tensor(facts[name], dtype=torch.float64) for name in ("true_weights", "feature_variances"))
    return float((variances * (weights.double().cpu() - true).square()).sum() + offset**2)


def linear_map(model: nn.Module, features: int, device: torch.device) -> tuple[Tensor, float] | None:
    """(w, b) with model(x) = w·x + b, from its values; None where it isn't linear with one output."""
    generator = torch.Generator().manual_seed(0)
    probes = torch.randn(PROBES, features, generator=generator)
    inputs = torch.cat([torch.zeros(1, features), torch.eye(features), probes]).to(device)
    with torch.no_grad():
        outputs = model(inputs)
    if outputs.numel() != len(inputs):
        return None
    values = outputs.flatten().double().cpu()
    offset, weights, seen = values[0], values[1 : features + 1] - values[0], values[features + 1 :]
    wanted = probes.double() @ weights + offset
    if float((wanted - seen).norm()) > LINEAR * max(float(seen.norm()), 1e-6):
        return None
    return weights, float(offset)


def minimizer(model: nn.Module, task: Task, batch: Batch, steps: int) -> nn.Module:
    """The model that L-BFGS comes to on one batch, in float64."""
    model = model.double()
    batch = {name: values.double() if values.is_floating_point() else values for name, values in batch.items()}
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=steps, tolerance_grad=1e-9, tolerance_change=1e-14, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = task.loss(model, batch).value
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return model.float().eval()


def mean_loss(model: nn.Module, task: Task, batch: Batch) -> float:
    with torch.no_grad():
        return float(task.loss(model, batch).value)


def _is_mean_square(trained: Trained) -> bool:
    task = trained.recipe.get("task") or {}
    return task.get("type") == "regression" and task.get("loss", "mse") == "mse"
