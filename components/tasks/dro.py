"""The worst mixture of groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from raycipe.components.tasks._checks import fits, require_dtype, require_finite, require_range, tensors
from raycipe.components.tasks._saddle import Format, count_train, dtype_of, onto_simplex, train_tensor
from raycipe.framework.arguments import FromData, Positive, Range
from raycipe.framework.contracts import Batch, Point, Saddle, SaddleTask, Split
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register


@register
class Dro(SaddleTask):
    """Distributionally robust classification: the mean loss under the worst weights of groups; reports loss (f),
    accuracy and cross_entropy.

    f(w, q; i) = (q_j / p_j) l_i(w) - rho D(q), j the group of example i, p_j the group's share of the training split:
    the mean is sum_j q_j L_j(w) - rho D(q) with q on the simplex. chi2: D = sum_j (m q_j - 1)² / (2m), best response =
    projection of 1/m + L / (rho m); kl: D = sum_j q_j log(m q_j), best response softmax(L / rho). l is the
    cross-entropy.

    Args:
        num_classes: number of classes; the data knows it
        rho: cost of unequal weights; smaller values look at the worst group alone
        groups: what forms the groups: an entry of the examples with numbers from 0 (`y`: the classes); null: each
            training example is its own group, and held-out examples count alike
        divergence: how unequal weights are measured
        dtype: number format of both players

    Reference:
        H. Namkoong, J. C. Duchi, Stochastic Gradient Methods for Distributionally Robust Optimization, NeurIPS 2016.

    Recipe:
        data: breast_cancer
        model: linear
        task: {type: dro, groups: y, rho: 0.5}
        optimizer: {type: sgda, lr: 0.05}
    """

    reports: ClassVar[tuple[str, ...]] = ("loss", "accuracy", "cross_entropy")

    def __init__(
        self,
        num_classes: Annotated[int, Range(ge=2, le=10**6), FromData("num_classes")],
        rho: Positive = 0.1,
        groups: str | None = None,
        divergence: Literal["chi2", "kl"] = "chi2",
        dtype: Format = "float64",
    ) -> None:
        self.num_classes = num_classes
        self.rho = rho
        self.groups = groups
        self.divergence = divergence
        self.dtype = dtype

    def variables(self, model: nn.Module, splits: Mapping[str, Split]) -> Saddle:
        if self.groups is None:
            count = count_train(splits)
            shares = torch.full((count,), 1 / count, dtype=torch.float64)
        else:
            numbers = train_tensor(splits, self.groups, f"task.groups names `{self.groups}`")
            shares = torch.bincount(numbers).double() / len(numbers)
        start = torch.full((len(shares),), 1 / len(shares), dtype=torch.float64)
        return Saddle(model, {}, {"q": start}, {"shares": shares}, dtype_of(self.dtype))

    def evaluate(self, saddle: Saddle, batch: Batch) -> tuple[Tensor, Any]:
        group = batch["id" if self.groups is None else self.groups]
        q, shares = saddle.max["q"], saddle.get_buffer("shares")
        outputs = saddle(batch["x"])
        losses = F.cross_entropy(outputs, batch["y"], reduction="none")  # (batch,)
        return q[group] / shares[group] * losses - self.rho * self._distance(q), outputs

    def evaluate_held_out(self, saddle: Saddle, batch: Batch) -> tuple[Tensor, Any]:
        if self.groups is not None:
            return self.evaluate(saddle, batch)
        outputs = saddle(batch["x"])
        return F.cross_entropy(outputs, batch["y"], reduction="none"), outputs

    def _distance(self, q: Tensor) -> Tensor:
        """D(q) from equal weights."""
        m = q.shape[-1]
        if self.divergence == "chi2":
            return (m * q - 1).square().sum() / (2 * m)
        return torch.special.xlogy(q, m * q.clamp(min=torch.finfo(q.dtype).tiny)).sum()

    def project(self, saddle: Saddle, w: Tensor, v: Tensor) -> Point:
        q = onto_simplex(v)
        if self.divergence == "kl":  # log q has no slope at 0
            q = q.clamp(min=1e-12)
            q = q / q.sum(-1, keepdim=True)
        return w, q

    @torch.no_grad()
    def best_response(self, saddle: Saddle, batch: Batch) -> Tensor | None:
        group = batch["id" if self.groups is None else self.groups]
        losses = F.cross_entropy(saddle(batch["x"]), batch["y"], reduction="none")
        m = saddle.max["q"].shape[0]
        sums = torch.zeros(m, dtype=losses.dtype, device=losses.device).index_add_(0, group, losses)
        return worst_weights(sums / (len(losses) * saddle.get_buffer("shares")), self.rho, self.divergence)

    def scores(self, outputs: Any, batch: Batch) -> dict[str, Tensor]:
        logits = outputs.detach()
        return {
            "accuracy": (logits.argmax(dim=1) == batch["y"]).sum(),
            "cross_entropy": F.cross_entropy(logits, batch["y"], reduction="sum").double(),
        }

    def check_outputs(self, outputs: Any, batch: Batch) -> str | None:
        shape = (len(batch["y"]), self.num_classes)
        return None if fits(outputs, shape) else f"{shape} floating: one logit a class"

    def check(self, facts: Mapping[str, Any], splits: Mapping[str, Split]) -> None:
        needed = ("x", "y", *([self.groups] if self.groups else []))
        for name, values in tensors(splits, needed):
            require_dtype(name, "y", values["y"], (torch.int64,), "dro takes class numbers")
            require_range(name, "label", values["y"], self.num_classes, f"the model has {self.num_classes} outputs")
            require_finite(name, "x", values["x"])
        if self.groups is None:
            return
        group = train_tensor(splits, self.groups, f"task.groups names `{self.groups}`")
        require_dtype("train", self.groups, group, (torch.int64,), "groups are numbers from 0")
        count = int(group.max()) + 1
        for name, values in tensors(splits, needed):
            require_range(name, "group", values[self.groups], count, "the training split has no such group")
        empty = (torch.bincount(group, minlength=count) == 0).nonzero()
        if len(empty):
            message = f"train: group {int(empty[0])} of `{self.groups}` has no example"
            raise RunError("data", message, "number the groups without gaps", where="task.groups")


def worst_weights(losses: Tensor, rho: float, divergence: str) -> Tensor:
    """The q on the simplex that maximizes q'L - rho D(q), for the groups' mean losses L (m,)."""
    m = losses.shape[-1]
    if divergence == "chi2":
        return onto_simplex(1 / m + losses / (rho * m))
    return torch.softmax(losses / rho, dim=-1)
