"""The pseudo-inverse by an eigendecomposition."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from raycipe.framework.arguments import Range
from raycipe.framework.contracts import InverseHVP, Solved, System
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register


@register
class Direct(InverseHVP):
    """The pseudo-inverse itself, from the whole matrix in float64: for a few thousand parameters, and as the reference.

    x = A⁺ b; singular values below rcond times the largest count as zero.

    Args:
        rcond: where a direction counts as one without curvature; larger values leave out more low curvature
        max_columns: refuses larger systems, whose time grows with the cube

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: gif, forget: {type: one_class, label: 3}, ihvp: {type: direct, rcond: 1e-4}}
    """

    def __init__(
        self,
        rcond: Annotated[float, Range(ge=0, lt=1)] = 1e-10,
        max_columns: Annotated[int, Range(ge=1, le=20000)] = 5000,
    ) -> None:
        self.rcond = rcond
        self.max_columns = max_columns

    def solve(self, system: System, b: Tensor) -> Solved:
        if system.columns > self.max_columns:
            message = f"ihvp/direct would decompose a matrix of {system.columns} columns, more than {self.max_columns}"
            raise RunError("recipe", message, "choose fewer parameters in `subspace`, or another solver", "editor.ihvp")
        a, right = system.matrix().double(), b.double()
        if system.is_square:
            values, vectors = torch.linalg.eigh((a + a.T) / 2)
            kept = values.abs() > self.rcond * values.abs().max()
            x = vectors[:, kept] @ ((vectors[:, kept].T @ right) / values[kept])
        else:
            x = torch.linalg.pinv(a, rtol=self.rcond) @ right
        return Solved(x.to(b), 1, True, "exact")
