"""How long exchanges and rounds take on a network, in closed form."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Round:
    """What a worker does between two exchanges.

    Args:
        steps: H, training steps of a round.
        step_s: seconds that a step computes.
        num_bytes: what each worker sends in the exchange.
        hops: messages one after the other: 2 (M - 1) of a ring all-reduce, M - 1 of an all-gather among M workers.
        overlap: steps that go on while the exchange travels.
        codec_s: seconds to compress and to decode.
    """

    steps: float
    step_s: float
    num_bytes: float
    hops: float
    overlap: int = 0
    codec_s: float = 0.0

    @property
    def computing_s(self) -> float:
        return self.steps * self.step_s + self.codec_s

    def seconds(self, bandwidth_mbps: float, latency_ms: float = 0.0) -> float:
        """H t_step + t_codec + max(0, t_exchange - overlap t_step)."""
        travels = transfer_seconds(self.num_bytes, self.hops, bandwidth_mbps, latency_ms)
        return self.computing_s + max(0.0, travels - self.overlap * self.step_s)

    def share(self, bandwidth_mbps: float, latency_ms: float = 0.0) -> float:
        """Speed as a share of that on a network that takes no time."""
        return self.steps * self.step_s / self.seconds(bandwidth_mbps, latency_ms)


def transfer_seconds(num_bytes: float, hops: float, bandwidth_mbps: float, latency_ms: float) -> float:
    """latency · hops + 8 bytes / bandwidth."""
    return latency_ms * hops / 1e3 + 8 * num_bytes / (1e6 * bandwidth_mbps)


def dense_bytes(workers: int, numel: int) -> float:
    """What each worker sends in a ring all-reduce of float32 numbers."""
    return 2 * (workers - 1) / workers * 4 * numel


def crossover(slow: Round, fast: Round, latency_ms: float = 0.0) -> float | None:
    """The bandwidth (Mbit/s) above which `slow`, which sends more, makes more steps a second than `fast`.

    None where it never does: `fast` computes no longer than `slow`, and hides as much of its exchange.
    """
    low, high = 1e-3, 1e9
    if _speed(slow, high, latency_ms) <= _speed(fast, high, latency_ms):
        return None
    if _speed(slow, low, latency_ms) >= _speed(fast, low, latency_ms):
        return 0.0
    for _ in range(200):  # bisection in the logarithm
        middle = (low * high) ** 0.5
        if _speed(slow, middle, latency_ms) > _speed(fast, middle, latency_ms):
            high = middle
        else:
            low = middle
    return high


def _speed(round_: Round, bandwidth_mbps: float, latency_ms: float) -> float:
    return round_.steps / round_.seconds(bandwidth_mbps, latency_ms)
