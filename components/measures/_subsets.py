"""The recipe's model trained many times on subsets of its training examples: all models as one batched computation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from raycipe.components.measures._side_by_side import flat, loss_at
from raycipe.framework.comm import LocalComm
from raycipe.framework.contracts import Batch, OptimizerRun, Skipped, TensorSplit, Trained
from raycipe.framework.registry import build
from raycipe.framework.streams import key, torch_generator

NORMS = (nn.modules.batchnorm._BatchNorm,)


@dataclass
class Retraining:
    """What a block of models needs: plain data, so that it can travel to other processes."""

    recipe: dict[str, Any]
    facts: dict[str, Any]
    examples: Batch  # the training examples, (n, ...)
    steps: int
    batch_size: int
    seed: int

    @staticmethod
    def of(trained: Trained, size: int, steps: int | None, batch_size: int | None, seed: int) -> Retraining:
        """For subsets of `size` examples; `steps` and `batch_size` None are the recipe's. Raises Skipped."""
        split, train = trained.splits.get("train"), trained.recipe.get("train") or {}
        if not isinstance(split, TensorSplit):
            raise Skipped("it trains again, on examples that lie in memory")
        if train.get("clip_norm") is not None or train.get("ema") is not None:
            raise Skipped("models that are trained side by side know neither clip_norm nor ema")
        wanted = min(batch_size or int(train.get("batch_size") or 64), size)
        if steps is None:
            steps = int(train.get("steps") or (train.get("epochs") or 10) * (size // wanted))
        examples = {name: tensor.to(trained.device) for name, tensor in split.tensors.items()}
        return Retraining(dict(trained.recipe), dict(trained.facts), examples, steps, wanted, seed)

    def model(self, number: int) -> nn.Module:
        """Model `number` with its own initial weights."""
        with torch.random.fork_rng():
            torch.manual_seed(key(self.seed, "retraining", number))
            made: nn.Module = build(self.recipe["model"], "models", "model", facts=self.facts)
        if any(isinstance(module, NORMS) for module in made.modules()):
            raise Skipped("models with batch norm can't be trained side by side")
        return made.to(next(iter(self.examples.values())).device)

    def outputs(self, numbers: list[int], subsets: Tensor, x: Tensor) -> Tensor:
        """The outputs (models, m, K) at x (m, ...) of models `numbers`, each trained on its examples (models, size).

        What a model becomes depends on its number, its examples and the seed alone, up to rounding.
        """
        models = [self.model(number) for number in numbers]
        shapes = {name: parameter.shape for name, parameter in models[0].named_parameters()}
        model = models[0].train()
        weights = nn.Parameter(torch.stack([flat(each) for each in models]))
        self._train(model, shapes, weights, numbers, subsets)
        model.eval()
        with torch.no_grad():
            one: Callable[[Tensor], Tensor] = lambda w: functional_call(model, unflat(w, shapes), (x,))  # noqa: E731
            return vmap(one)(weights.detach())

    def _train(self, model: nn.Module, shapes: Any, weights: nn.Parameter, numbers: list[int], subsets: Tensor) -> None:
        task: Any = build(self.recipe["task"], "tasks", "task", facts=self.facts)
        optimizer: Any = build(self.recipe["optimizer"], "optimizers", "optimizer", {"params": [weights]}, self.facts)
        if optimizer.exchanges or not optimizer.uses_gradients:
            raise Skipped("models that are trained side by side need an optimizer that takes plain gradients")
        optimizer.prepare(OptimizerRun(self.steps, LocalComm(), self.seed, lambda: torch.zeros(())))
        gradients = vmap(grad(lambda w, batch: loss_at(model, shapes, task, w, batch)), randomness="different")
        streams = [torch_generator(self.seed, "retraining order", number) for number in numbers]
        rates = [float(group["lr"]) for group in optimizer.param_groups]
        size, device = subsets.shape[1], weights.device
        per_pass, order = size // self.batch_size, subsets
        with torch.random.fork_rng():
            torch.manual_seed(key(self.seed, "retraining noise", numbers[0]))
            for step in range(self.steps):
                place = step % per_pass
                if place == 0 and self.batch_size < size:
                    order = torch.stack(
                        [s[torch.randperm(size, generator=g)] for s, g in zip(subsets, streams, strict=True)]
                    )
                ids = order[:, place * self.batch_size : (place + 1) * self.batch_size].to(device)
                if optimizer.schedule is not None:
                    for group, rate in zip(optimizer.param_groups, rates, strict=True):
                        group["lr"] = rate * optimizer.schedule.factor(step, self.steps)
                weights.grad = gradients(weights.detach(), {name: t[ids] for name, t in self.examples.items()})
                optimizer.step()


def unflat(weights: Tensor, shapes: Any) -> dict[str, Tensor]:
    """(d,) as parameter name -> tensor."""
    pieces = torch.split(weights, [shape.numel() for shape in shapes.values()])
    return {name: piece.view(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
