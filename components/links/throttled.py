"""A network that is waited for."""

from __future__ import annotations

from raycipe.components.links.modelled import Modelled
from raycipe.framework.registry import register


@register
class Throttled(Modelled):
    """Makes the run wait as long as its exchanges would take on a slower network: seconds on the clock are real.

    The time is that of `modelled`, hops · (latency + jitter · u) + 8 bytes / bandwidth from the start of an exchange;
    a worker that asks for the result earlier sleeps till then.

    Args:
        bandwidth_mbps: megabits a second that each worker can send
        latency_ms: time of a message on its way; a ring all-reduce among M workers has 2 (M - 1) one after the other
        jitter_ms: most that comes on top of the latency

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: {type: ef_sgd, lr: 0.1, compressor: signnorm, link: {type: throttled, bandwidth_mbps: 1000}}
    """

    sleeps = True
