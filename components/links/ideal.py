"""A network that takes no time."""

from __future__ import annotations

from raycipe.framework.contracts import Link
from raycipe.framework.registry import register


@register
class Ideal(Link):
    """An exchange takes no time of its own: what a real network adds is what the run takes longer on it.

    The run still counts its exchanges and the time it waits for them, as `comm/exchanges`, `comm/hops` and
    `comm/wait_seconds`.

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: {type: ef_sgd, lr: 0.1, compressor: signnorm, link: ideal}
    """

    def seconds(self, num_bytes: float, hops: int, chance: float = 0.0) -> float:
        return 0.0
