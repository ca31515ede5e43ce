"""Local steps, averaged now and then."""

from __future__ import annotations

from typing import Any

from raycipe.components.optimizers._iterates import Average
from raycipe.components.optimizers.diloco import Diloco
from raycipe.framework.arguments import Count, default
from raycipe.framework.contracts import Compressor, Link, Optimizer
from raycipe.framework.registry import build, register


@register
class LocalSgd(Diloco):
    """Local SGD: every H steps of their own the workers take the mean of their weights, uncompressed.

    w_m <- mean_m w_m: DiLoCo with an outer step of rate 1 without momentum. With H = 1 and a plain inner SGD it is
    data-parallel SGD.

    Args:
        inner: optimizer of the local steps; the schedule is its own
        H: inner steps between two averages
        average: which averages are evaluated and exported: the last, the mean of all, or of the run's second half
        link: the network between the workers, where it is not the machine's own

    Reference:
        S. Stich, Local SGD Converges Fast and Communicates Little, ICLR 2019.

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: {type: local_sgd, H: 5, inner: {type: sgd, lr: 0.1, momentum: 0.9}}
    """

    def __init__(
        self,
        params: Any,
        inner: Optimizer = default({"type": "sgd", "lr": 0.1}),
        H: Count = 10,
        average: Average = "none",
        link: Link | None = None,
    ) -> None:
        whole: Compressor = build("identity", "compressors")
        outer: Any = {"lr": 1.0, "momentum": 0.0, "nesterov": False}
        super().__init__(params, inner, outer, H, whole, average=average, link=link)
