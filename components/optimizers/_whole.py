"""Uncompressed gradients: one buffer a fragment, made in one pass over memory and summed on the way."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from raycipe.components.optimizers._fragments import Fragment
from raycipe.framework.comm import Comm, Pending


class WholeSums:
    """What a compressor that leaves nothing out sends: sums over workers, with the number of those that took part."""

    def __init__(self, fragments: Sequence[Fragment], comm: Comm) -> None:
        self.comm = comm
        self.buffers = [fragment.zeros().new_zeros(fragment.numel + 1) for fragment in fragments]

    def message(self, index: int) -> Tensor:
        """Where this worker writes what it sends of a fragment, before `start`."""
        return self.buffers[index][:-1]

    def start(self, index: int, is_finite: bool) -> Pending[Tensor]:
        """Begin to sum; a worker whose message is not finite counts nothing."""
        buffer = self.buffers[index]
        if not is_finite:
            buffer.zero_()
        buffer[-1] = float(is_finite)
        return self.comm.start_all_reduce(buffer)
