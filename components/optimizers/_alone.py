"""A minimax problem of which only the parameters and their gradients are known: an optimizer in plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from raycipe.framework.comm import LocalComm
from raycipe.framework.contracts import Point, Problem
from raycipe.framework.contracts.saddle import Draw


class Alone(Problem):
    """Gradients at the current point are the parameters' `.grad`; elsewhere `closure` fills them by a backward pass."""

    def __init__(self, groups: Sequence[Mapping[str, Any]], closure: Callable[[], Any] | None) -> None:
        by_role = {role: [p for g in groups if g["role"] == role for p in g["params"]] for role in ("min", "max")}
        self.parameters: list[list[Tensor]] = [by_role["min"], by_role["max"]]
        self.closure = closure
        self.step, self.total_steps, self.size, self.num_examples, self.evaluations = 0, 1, 1, 1, 0
        self.comm = LocalComm()
        self._has_moved = False

    def _flat(self, tensors: Sequence[Sequence[Tensor]]) -> Point:
        like = next(p for own in self.parameters for p in own)
        w, v = (torch.cat([t.reshape(-1) for t in own]) if own else like.new_zeros(0) for own in tensors)
        return w, v

    def point(self) -> Point:
        return self._flat([[p.detach() for p in own] for own in self.parameters])

    def move(self, w: Tensor, v: Tensor) -> None:
        self._has_moved = True
        for own, flat in zip(self.parameters, (w, v), strict=True):
            parts = torch.split(flat, [p.numel() for p in own]) if own else ()
            for parameter, part in zip(own, parts, strict=True):
                parameter.data.copy_(part.view_as(parameter))

    def project(self, w: Tensor, v: Tensor) -> Point:
        return w, v

    def gradients(self, w: Tensor, v: Tensor) -> Point:
        now = self.point()
        if self._has_moved or not (torch.equal(w, now[0]) and torch.equal(v, now[1])):
            if self.closure is None:
                raise ValueError("closure: this optimizer needs gradients at a second point: call step(closure)")
            self.move(w, v)
            with torch.enable_grad():
                self.closure()
        return self._flat([[torch.zeros_like(p) if p.grad is None else p.grad for p in own] for own in self.parameters])

    def _only_in_the_loop(self) -> ValueError:
        return ValueError("gradients: this estimator needs the training loop of a minimax task, not `.grad` alone")

    def sample_gradients(self, w: Tensor, v: Tensor) -> Point:
        raise self._only_in_the_loop()

    def values(self, w: Tensor, v: Tensor) -> Tensor:
        raise self._only_in_the_loop()

    def draw(self) -> None:
        raise self._only_in_the_loop()

    def random(self, name: str, draw: Draw) -> Tensor:
        raise self._only_in_the_loop()

    def add_up(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tensors

    def probe(self, count: int) -> Point:
        raise self._only_in_the_loop()

    @property
    def noisy_layers(self) -> list[str]:
        return []

    def warn(self, text: str) -> None:
        import warnings

        warnings.warn(text, stacklevel=2)
