"""The objective that the edited model is to be at the minimum of: its gradient, its curvature, and what of it is
solved with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from raycipe.components.editors._case import BATCH, Case
from raycipe.framework.contracts import Batch, Landscape, Layers, Split, System
from raycipe.framework.curvature import Curvature, example_gradients, mean_square_gradient, probe
from raycipe.framework.errors import RunError
from raycipe.framework.splits import TensorSplit, subset
from raycipe.framework.streams import torch_generator
from raycipe.framework.training.feed import read_ids

PROBES = 32  # of Hutchinson's estimate of the diagonal


def flat(parameters: Sequence[Tensor]) -> Tensor:
    return torch.cat([parameter.detach().reshape(-1) for parameter in parameters])


def layout_of(model: nn.Module) -> list[tuple[str, torch.Size]]:
    """The trained parameters in their order; tied ones once."""
    return [(name, p.shape) for name, p in model.named_parameters() if p.requires_grad]


@torch.no_grad()
def moved(model: nn.Module, index: Tensor, step: Tensor) -> None:
    """Add `step` (k,) to the entries `index` of the trained parameters, in place; all others keep their bits."""
    at = 0
    for parameter in (p for p in model.parameters() if p.requires_grad):
        count = parameter.numel()
        here = (index >= at) & (index < at + count)
        if bool(here.any()):
            values = parameter.reshape(-1).clone()
            values[index[here] - at] += step[here].to(values)
            parameter.copy_(values.reshape(parameter.shape))
        at += count


class Objective:
    """L(w) = mean loss over `split` + (wd/2)|w|², on flat vectors of all trained parameters (p,)."""

    def __init__(
        self,
        case: Case,
        model: nn.Module,
        split: Split,
        kind: Literal["hessian", "ggn"] = "hessian",
        dtype: torch.dtype = torch.float32,
        examples: int | None = None,
        batch_size: int = BATCH,
    ) -> None:
        self.case, self.model, self.split, self.kind, self.dtype = case, model, split, kind, dtype
        self.batch_size, self.weight_decay = batch_size, case.weight_decay
        self.point = flat([p for p in model.parameters() if p.requires_grad])
        self.seen = split
        if examples is not None and examples < len(split):
            drawn = torch.randperm(len(split), generator=case.trained.generator("curvature"))[:examples]
            self.seen = subset(split, drawn.sort().values)

    def gradient_of(self, split: Split) -> Tensor:
        """The mean data gradient over a split, (p,) float64, streamed over batches."""
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        total, weights = torch.zeros(len(self.point), dtype=torch.float64), 0.0
        for batch in self.case.batches(split, self.batch_size):
            loss = self.case.task.loss(self.model, batch)
            weight = float(len(batch["id"]) if loss.weight is None else loss.weight)
            parts = torch.autograd.grad(loss.value, parameters, allow_unused=True, materialize_grads=True)
            total += weight * flat(parts).double().cpu()
            weights += weight
        found = (total / weights).to(self.point.device)
        if not bool(torch.isfinite(found).all()):
            message = "the gradient at the trained weights is not finite, so nothing can be solved with it"
            raise RunError("nonfinite", message, "look at the training's loss", "editor")
        return found

    def gradient(self) -> Tensor:
        """dL/dw with the decay, (p,) float64."""
        return self.gradient_of(self.split) + self.weight_decay * self.point.double()

    def curvature(self, batches: Sequence[Batch], masks: Mapping[str, Tensor] | None = None) -> Curvature:
        return Curvature(self.model, self.case.task.loss, batches, kind=self.kind, masks=masks, dtype=self.dtype)

    def system(self, index: Tensor, rows: Literal["selected", "all"] = "selected") -> ModelSystem:
        return ModelSystem(self, index, rows)


class ModelSystem(System):
    """The curvature of an objective, restricted to the columns `index`, with the same rows or with all."""

    def __init__(self, objective: Objective, index: Tensor, rows: Literal["selected", "all"]) -> None:
        self.objective, self.index, self.is_tall = objective, index, rows == "all"
        self.total = len(objective.point)
        self.columns = len(index)
        self.rows = self.total if self.is_tall else self.columns
        self.counter: ModelSystem = self
        self.whole = self.is_tall and self.columns < self.total
        batches = list(objective.case.batches(objective.seen, objective.batch_size))
        self.operator = objective.curvature(batches, None if self.whole else self._masks())

    def _masks(self) -> dict[str, Tensor] | None:
        """Parameters without a selected entry are left out: their derivatives are never computed."""
        if self.columns == self.total:
            return None
        chosen = torch.zeros(self.total, dtype=torch.bool, device=self.index.device)
        chosen[self.index] = True
        layout = layout_of(self.objective.model)
        parts = torch.split(chosen, [shape.numel() for _, shape in layout])
        return {
            name: part.reshape(shape) for (name, shape), part in zip(layout, parts, strict=True) if bool(part.any())
        }

    def _times(self, vector: Tensor) -> Tensor:
        self.counter.products += 1
        decay = self.objective.weight_decay
        found = self.operator.product(vector).to(vector)
        return found + decay * vector if decay else found

    def product(self, x: Tensor) -> Tensor:
        if not self.whole:
            return self._times(x)
        spread = x.new_zeros(self.total)
        spread[self.index] = x
        return self._times(spread)

    def transposed(self, y: Tensor) -> Tensor:
        return self._times(y)[self.index] if self.whole else self._times(y)

    def pick(self, b: Tensor) -> Tensor:
        return b[self.index] if self.whole else b

    def right_side(self, v: Tensor) -> Tensor:
        """b from the whole vector v (p,)."""
        return v if self.is_tall else v[self.index]

    def sample(self, size: int, generator: torch.Generator) -> ModelSystem:
        objective = self.objective
        ids = torch.randint(len(objective.split), (size,), generator=generator)
        found = object.__new__(ModelSystem)
        found.__dict__.update(self.__dict__)
        found.operator = self.operator.over([read_ids(objective.split, ids, objective.case.device)])
        return found

    def matrix(self) -> Tensor:
        whole = self.operator.matrix()
        self.counter.products += len(whole)
        if self.objective.weight_decay:
            whole = whole + self.objective.weight_decay * torch.eye(len(whole)).to(whole)
        return whole[:, self.index] if self.whole else whole

    def layers(self) -> Layers:
        objective, case = self.objective, self.objective.case
        return Layers(
            objective.model,
            case.task.loss,
            lambda: case.batches(objective.seen, objective.batch_size),
            self.index,
            objective.weight_decay,
            case.trained.facts.get("num_classes"),
        )


class Terrain(Landscape):
    """The landscape of one case at one model: every vector is computed once, when it is asked for."""

    def __init__(self, case: Case, objective: Objective, gradient: Tensor, samples: int) -> None:
        self.case, self.objective, self.gradient, self.samples = case, objective, gradient, samples
        self.model, self.seed = objective.model, case.trained.seed
        self.layout = layout_of(objective.model)
        self.kept: dict[Any, Any] = {}
        self.products = 0

    def curvature(self, kind: str, of_forget: bool = False) -> Tensor:
        split = self.case.goes if of_forget else self.objective.split
        return self._once((kind, of_forget), lambda: getattr(self, f"_{kind}")(self._few(split)))

    def _once(self, name: Any, make: Callable[[], Any]) -> Any:
        if name not in self.kept:
            self.kept[name] = make()
        return self.kept[name]

    def _few(self, split: Split) -> Split:
        if len(split) <= self.samples:
            return split
        drawn = torch.randperm(len(split), generator=self.case.trained.generator("landscape"))[: self.samples]
        return subset(split, drawn.sort().values)

    def _fisher(self, split: Split) -> Tensor:
        return mean_square_gradient(self.model, self.case.task.loss, self.case.batches(split, 256))

    def _ggn(self, split: Split) -> Tensor:
        """The diagonal of the Gauss-Newton matrix, whose mean square gradients have labels drawn by the model."""
        if "num_classes" not in self.case.trained.facts or not isinstance(split, TensorSplit):
            raise RunError("recipe", "`curvature: ggn` draws classes, and the data has none", "take fisher", "editor")
        generator = torch_generator(self.seed, "drawn labels")
        labels = []
        with torch.no_grad():
            for batch in self.case.batches(split):
                shares = self.model(batch["x"]).softmax(dim=1).cpu()
                labels.append(torch.multinomial(shares, 1, generator=generator).flatten())
        return self._fisher(TensorSplit({**split.tensors, "y": torch.cat(labels)}))

    def _hutchinson(self, split: Split) -> Tensor:
        """|diag H| by random signs: E[z * H z] is the diagonal."""
        generator = torch_generator(self.seed, "hutchinson")
        operator = self.objective.curvature(list(self.case.batches(split)))
        total = torch.zeros(operator.size, dtype=torch.float64, device=operator.device)
        for _ in range(PROBES):
            z = probe(operator.size, generator, dtype=operator.dtype, device=operator.device)
            total += (z * operator.product(z)).double()
        self.products += PROBES
        return (total / PROBES + self.case.weight_decay).abs()

    def pilot(self, steps: int, damping: float) -> Tensor:
        from raycipe.components.ihvp.lissa import Lissa

        def solve() -> Tensor:
            system = self.objective.system(torch.arange(len(self.objective.point)))
            b = self.gradient.to(self.objective.dtype)
            found = Lissa(max_hvp=steps, damping=damping).solve(system, b)
            self.products += system.products
            return found.x.double()

        return self._once(("pilot", steps, damping), solve)

    def activity(self, of_gradient: bool) -> dict[str, Tensor]:
        return self._once(("activity", of_gradient), lambda: unit_activity(self.case, self.model, of_gradient))


def unit_activity(case: Case, model: nn.Module, of_gradient: bool) -> dict[str, Tensor]:
    """For each layer with own parameters the mean |output| of its units (second dimension) on what goes, or that of
    the loss's gradient in them."""
    sums: dict[str, Tensor] = {}
    outputs: dict[str, Tensor] = {}
    layers = {name: m for name, m in model.named_modules() if any(True for _ in m.parameters(recurse=False))}

    def keep(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, given: Any, output: Any) -> None:
            if isinstance(output, Tensor) and output.dim() > 1:
                outputs[name] = output

        return hook

    handles = [module.register_forward_hook(keep(name)) for name, module in layers.items()]
    try:
        for batch in case.batches(case.goes):
            outputs.clear()
            loss = case.task.loss(model, batch).value * len(batch["id"])
            found = list(outputs.values())
            if of_gradient:
                found = list(torch.autograd.grad(loss, found, allow_unused=True, materialize_grads=True))
            for name, values in zip(outputs, found, strict=True):
                units = values.detach().abs().flatten(2).mean(dim=2) if values.dim() > 2 else values.detach().abs()
                sums[name] = sums.get(name, torch.zeros(())) + units.double().sum(dim=0)
    finally:
        for handle in handles:
            handle.remove()
    return {name: total / len(case.goes) for name, total in sums.items()}


def loss_rows(case: Case, model: nn.Module, split: Split) -> Tensor:
    """All examples' loss gradients, (n, p): for few examples."""
    return torch.cat(list(example_gradients(model, case.task.loss, case.batches(split, 256))))
