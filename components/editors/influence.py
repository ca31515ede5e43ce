"""Classical influence functions: all parameters, a damped solver."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from torch import nn

from raycipe.components.editors._request import Operation, RightSide
from raycipe.components.editors._strength import Search
from raycipe.components.editors.gif import Gif
from raycipe.components.subspaces.all import All
from raycipe.framework.arguments import Count, InputFile, NonNegative, Positive, Range, default
from raycipe.framework.contracts import Editor, Forget, InverseHVP, Measured, Trained
from raycipe.framework.registry import register


@register
class Influence(Editor):
    """Influence functions as an edit: the Newton step of retraining, with all parameters and a damped curvature.

    w' = w + s (H + d I)⁻¹ v, v = (n_F/n_R)(g_F + wd w): `gif` with every parameter, and LiSSA as its solver.

    Args:
        forget: the examples that are concerned
        ihvp: how the system is solved
        operation: forget the examples, give them another weight, or give them other labels
        weight: of the examples in the new loss, for reweight
        labels: for relabel, a file of lines `id label`; null takes the data's `clean_y`
        rhs: v as above, or minus the gradient of the new loss
        curvature: the Hessian, or the Gauss-Newton matrix
        strength: s, or how it is searched for
        weight_decay: that of the loss; null takes the training's
        examples: how many of the examples the curvature is taken of; null for all
        spectrum: products for an estimate of the curvature's extreme eigenvalues; 0 for none
        dtype: of the products

    Reference:
        P. W. Koh, P. Liang, Understanding Black-box Predictions via Influence Functions, ICML 2017.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [32], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9, weight_decay: 1e-4}
        editor: {type: influence, forget: {type: one_class, label: 3}, ihvp: {type: lissa, damping: 0.1}}
    """

    reports: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        forget: Forget,
        ihvp: InverseHVP = default("lissa"),
        operation: Operation = "remove",
        weight: NonNegative = 0.0,
        labels: Annotated[str, InputFile((".txt", ".csv"))] | None = None,
        rhs: RightSide = "influence",
        curvature: Literal["hessian", "ggn"] = "hessian",
        strength: Positive | Search = {"target": 0.0},  # noqa: B006 (never changed)
        weight_decay: NonNegative | None = None,
        examples: Count | None = None,
        spectrum: Annotated[int, Range(ge=0, le=1000)] = 30,
        dtype: Literal["float32", "float64"] = "float32",
    ) -> None:
        self.forget = forget
        self.ihvp = ihvp
        self.operation: Operation = operation
        self.weight = weight
        self.labels = labels
        self.rhs: RightSide = rhs
        self.curvature: Literal["hessian", "ggn"] = curvature
        self.strength = strength
        self.weight_decay = weight_decay
        self.examples = examples
        self.spectrum = spectrum
        self.dtype: Literal["float32", "float64"] = dtype

    def edit(self, trained: Trained) -> tuple[nn.Module, Measured]:
        return Gif(subspace=All(), **vars(self)).edit(trained)
