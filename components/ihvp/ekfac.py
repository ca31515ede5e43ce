"""EK-FAC: layers by themselves, each in the eigenbasis of a Kronecker product."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from raycipe.components.ihvp._layerwise import gathered, require_layers, spread
from raycipe.framework.arguments import Count, Positive, Range
from raycipe.framework.contracts import Batch, InverseHVP, Layers, Solved, System
from raycipe.framework.registry import register
from raycipe.framework.streams import torch_generator

SHARE = 0.1  # of a layer's mean eigenvalue: its damping
Sides = tuple[Tensor, Tensor]  # (n, positions, inputs + 1) and (n, positions, outputs): a layer's inputs, gradients


@register
class Ekfac(InverseHVP):
    """EK-FAC: the Gauss-Newton matrix, taken layer by layer in a basis in which it is nearly diagonal.

    For a linear or convolutional layer with inputs a and output gradients g (labels drawn by the model):
    Q_A of E[a a'], Q_G of E[g g'], L = E[(Q_G' g a' Q_A)²], and X = Q_G ((Q_G' B Q_A) / (L + wd + d)) Q_A'. Parameters
    of other layers are divided by d + wd with the mean d of all. It has no negative eigenvalues, and layers don't mix.

    Args:
        examples: how many examples the factors are taken of
        damping: d; null takes 0.1 times the layer's mean eigenvalue
        seed: of the drawn labels

    Reference:
        T. George, C. Laurent, X. Bouthillier, N. Ballas, P. Vincent, Fast Approximate Natural Gradient Descent in a
        Kronecker-factored Eigenbasis, NeurIPS 2018; R. Grosse et al., Studying Large Language Model Generalization
        with Influence Functions, 2023.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: influence, forget: {type: one_class, label: 3}, ihvp: {type: ekfac, examples: 512}}
    """

    def __init__(
        self,
        examples: Count = 4096,
        damping: Positive | None = None,
        seed: Annotated[int, Range(ge=0, le=2**32 - 1)] = 0,
    ) -> None:
        self.examples = examples
        self.damping = damping
        self.seed = seed

    def solve(self, system: System, b: Tensor) -> Solved:
        layers = require_layers(system, "ekfac")
        modules = factored(layers.model)
        batches = list(drawn(layers, self.examples, self.seed))
        factors = {name: Factor(module) for name, module in modules.items()}
        for sides in seen(layers, modules, batches):
            for name, (a, g) in sides.items():
                factors[name].add(a, g)
        for factor in factors.values():
            factor.turn()
        for sides in seen(layers, modules, batches):
            for name, (a, g) in sides.items():
                factors[name].correct(a, g)
        return self._applied(layers, factors, b)

    def _applied(self, layers: Layers, factors: dict[str, Factor], b: Tensor) -> Solved:
        parts, done = spread(layers, b), set()
        dampings = {name: self.damping or SHARE * float(f.eigenvalues.mean()) for name, f in factors.items()}
        for name, factor in factors.items():
            weight, bias = (f"{name}.{part}".lstrip(".") for part in ("weight", "bias"))
            given = parts[weight].flatten(1)
            if bias in parts:
                given = torch.cat([given, parts[bias].unsqueeze(1)], dim=1)
            found = factor.inverse(given, max(dampings[name] + layers.weight_decay, 1e-30))
            if bias in parts:
                parts[bias], found = found[:, -1], found[:, :-1]
            parts[weight] = found.reshape(parts[weight].shape)
            done |= {weight, bias}
        rest = [name for name in parts if name not in done]
        mean = sum(dampings.values()) / len(dampings) if dampings else 1.0
        for name in rest:
            parts[name] = parts[name] / (mean + layers.weight_decay or 1.0)
        notes = [f"ekfac knows no curvature of {', '.join(rest)}: divided by the damping alone"] if rest else []
        return Solved(gathered(layers, parts, b), 1, False, "factored", notes=notes)


class Factor:
    """One layer's eigenbases and eigenvalues, from passes over its examples."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.inputs = self.outputs = self.eigenvalues = torch.zeros(())
        self.count = 0

    def add(self, a: Tensor, g: Tensor) -> None:
        """A = E[sum_t a a'], G = E[mean_t g g']; t are positions of a convolution or a sequence."""
        self.count += len(a)
        self.inputs = self.inputs + torch.einsum("nti,ntj->ij", a, a)
        self.outputs = self.outputs + torch.einsum("nti,ntj->ij", g, g) / g.shape[1]

    def turn(self) -> None:
        self.q_a = torch.linalg.eigh(self.inputs / self.count).eigenvectors
        self.q_g = torch.linalg.eigh(self.outputs / self.count).eigenvectors

    def correct(self, a: Tensor, g: Tensor) -> None:
        """L = E[(Q_G' (sum_t g a') Q_A)²]."""
        turned = torch.einsum("nto,nti->noi", g @ self.q_g, a @ self.q_a)
        self.eigenvalues = self.eigenvalues + turned.square().sum(dim=0) / self.count

    def inverse(self, given: Tensor, damping: float) -> Tensor:
        """(outputs, inputs + 1)."""
        return self.q_g @ ((self.q_g.T @ given @ self.q_a) / (self.eigenvalues + damping)) @ self.q_a.T


def factored(model: nn.Module) -> dict[str, nn.Module]:
    """The layers that have factors: linear ones, and convolutions without groups; all of whose weights are trained."""
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) or (isinstance(module, nn.Conv2d) and module.groups == 1)
        if all(parameter.requires_grad for parameter in module.parameters())
    }


def drawn(layers: Layers, examples: int, seed: int) -> Iterator[Batch]:
    """The first batches, up to so many examples, with labels drawn by the model where its outputs are logits."""
    generator = torch_generator(seed, "drawn labels")
    for batch in layers.batches():
        if examples <= 0:
            return
        batch = {name: tensor[:examples] for name, tensor in batch.items()}
        examples -= len(batch["x"])
        if layers.num_classes is not None:
            with torch.no_grad():
                shares = layers.model(batch["x"]).softmax(dim=1).cpu()
            labels = torch.multinomial(shares, 1, generator=generator).flatten()
            batch = {**batch, "y": labels.to(batch["y"].device)}
        yield batch


def seen(layers: Layers, modules: dict[str, nn.Module], batches: list[Batch]) -> Iterator[dict[str, Sides]]:
    """For each batch the layers' inputs (with a one for the bias) and the gradients in their outputs, float64."""
    for batch in batches:
        with _kept(modules) as (inputs, outputs):
            loss = layers.loss(layers.model, batch)
            value = loss if isinstance(loss, Tensor) else loss.value
            names = list(outputs)
            gradients = torch.autograd.grad(value * len(batch["x"]), [outputs[name] for name in names])
        yield {
            name: (positions(modules[name], inputs[name]), _outputs(modules[name], gradient))
            for name, gradient in zip(names, gradients, strict=True)
        }


@contextmanager
def _kept(modules: dict[str, nn.Module]) -> Iterator[tuple[dict[str, Tensor], dict[str, Tensor]]]:
    inputs: dict[str, Tensor] = {}
    outputs: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, given: Any, output: Any) -> None:
            inputs[name], outputs[name] = given[0].detach(), output

        return hook

    handles = [module.register_forward_hook(keep(name)) for name, module in modules.items()]
    try:
        yield inputs, outputs
    finally:
        for handle in handles:
            handle.remove()


def positions(module: nn.Module, given: Tensor) -> Tensor:
    """(n, positions, inputs), and a one behind them where the layer has a bias."""
    if isinstance(module, nn.Conv2d):
        padding: Any = module.padding
        columns = F.unfold(given, module.kernel_size, module.dilation, padding, module.stride)
        found = columns.transpose(1, 2)  # (n, positions, inputs)
    else:
        found = given.reshape(len(given), -1, given.shape[-1])
    found = found.double()
    if module.bias is not None:
        found = torch.cat([found, torch.ones_like(found[..., :1])], dim=2)
    return found


def _outputs(module: nn.Module, gradient: Tensor) -> Tensor:
    if isinstance(module, nn.Conv2d):
        return gradient.flatten(2).transpose(1, 2).double()
    return gradient.reshape(len(gradient), -1, gradient.shape[-1]).double()
