"""A network whose time is counted."""

from __future__ import annotations

from raycipe.components.links._network import transfer_seconds
from raycipe.framework.arguments import NonNegative, Positive
from raycipe.framework.contracts import Link
from raycipe.framework.registry import register


@register
class Modelled(Link):
    """Counts the time that exchanges would take on a slower network, without waiting for it.

    seconds = hops · (latency + jitter · u) + 8 bytes / bandwidth, with u uniform in [0, 1) for each exchange, on a
    clock that runs on beside the real one: steps that go on while an exchange travels hide its time. Exchanges of one
    worker follow each other. The run reports `comm/link_seconds`, what it would have waited longer.

    Args:
        bandwidth_mbps: megabits a second that each worker can send
        latency_ms: time of a message on its way; a ring all-reduce among M workers has 2 (M - 1) one after the other
        jitter_ms: most that comes on top of the latency

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer:
          type: diloco
          H: 10
          compressor: {type: topk, ratio: 0.1}
          link: {type: modelled, bandwidth_mbps: 100, latency_ms: 20}
    """

    def __init__(self, bandwidth_mbps: Positive, latency_ms: NonNegative = 0.0, jitter_ms: NonNegative = 0.0) -> None:
        self.bandwidth_mbps = bandwidth_mbps
        self.latency_ms = latency_ms
        self.jitter_ms = jitter_ms

    def seconds(self, num_bytes: float, hops: int, chance: float = 0.0) -> float:
        latency = self.latency_ms + self.jitter_ms * chance
        return transfer_seconds(num_bytes, hops, self.bandwidth_mbps, latency)
