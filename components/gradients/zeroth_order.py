"""Gradients from values alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from raycipe.components.gradients._directions import DRAWS, coordinates
from raycipe.framework.arguments import Count, Positive
from raycipe.framework.contracts import Estimate, GradientEstimator, Problem
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register

CHUNK_FLOATS = 4_000_000  # of directions that lie in memory at once
TOGETHER_FLOATS = 20_000  # of directions up to which both ends of all are evaluated in one call
FP32_STEP = 3.5e-4  # below this, relative to |w|, a difference of two fp32 values is rounding


@register
class ZerothOrder(GradientEstimator):
    """Gradients estimated from differences of values along random directions; nothing is differentiated.

    central: g = (c/K) sum_k [F(w + mu u_k) - F(w - mu u_k)] / (2 mu) u_k, 2K evaluations a player; forward:
    [F(w + mu u_k) - F(w)] / mu, K + 1. c = 1 for gauss and rademacher, d for sphere and coordinate; v likewise at fixed
    w. On linear functions E|g|² = |g|² (1 + (d+1)/K) for gauss, (1 + (d-1)/K) for sphere and rademacher, d/K for
    coordinate. `train/function_evals` counts evaluations.

    Args:
        points: K, the number of directions; the error falls as 1/K, the cost grows with it
        scheme: central; forward; two_sample: forward with the two values on independent batches (a control: worse)
        direction: what u_k is drawn from; coordinate takes K different axes, rademacher is the cheapest
        mu: length of the step; auto takes 1 / (smoothness (d+3)^1.5 sqrt(n)), for sphere 1 / (smoothness sqrt(n)), but
            no less than rounding allows
        mu_w: the step for w alone; null takes mu
        mu_v: the step for v alone; null takes mu
        joint: one direction for both players together; mixes their variances
        antithetic: directions in pairs u, -u (forward only, K even)
        split: what several workers share: the directions, each seeing the whole batch, or the examples. Either way only
            K numbers a player are sent
        smoothness: L, the Lipschitz constant of the gradient, for the automatic mu
        freeze_noise: allow layers with random outputs (dropout), with the same noise in all evaluations of a step

    Reference:
        Y. Nesterov, V. Spokoiny, Random Gradient-Free Minimization of Convex Functions, Found. Comput. Math. 2017.

    Recipe:
        data: breast_cancer
        model: {type: linear, num_outputs: 1, zero_init: true}
        task: auc_saddle
        optimizer: {type: sgda, lr: 0.02, gradients: {type: zeroth_order, points: 16}}
    """

    def __init__(
        self,
        points: Count = 1,
        scheme: Literal["central", "forward", "two_sample"] = "central",
        direction: Literal["gauss", "sphere", "rademacher", "coordinate"] = "gauss",
        mu: Positive | Literal["auto"] = "auto",
        mu_w: Positive | None = None,
        mu_v: Positive | None = None,
        joint: bool = False,
        antithetic: bool = False,
        split: Literal["directions", "data"] = "directions",
        smoothness: Positive = 1.0,
        freeze_noise: bool = False,
    ) -> None:
        if antithetic and (scheme != "forward" or points % 2 or direction == "coordinate"):
            raise ValueError("antithetic: pairs u, -u need scheme forward, an even number of points and no coordinates")
        if joint and (mu_w is not None or mu_v is not None):
            raise ValueError("joint: one direction for both players has one step: set mu, not mu_w or mu_v")
        self.points = points
        self.scheme = scheme
        self.direction = direction
        self.mu = mu
        self.mu_w = mu_w
        self.mu_v = mu_v
        self.joint = joint
        self.antithetic = antithetic
        self.split = split
        self.smoothness = smoothness
        self.freeze_noise = freeze_noise
        self.uses_gradients = False
        self.whole_batch = split == "directions"

    def estimate(self, problem: Problem, w: Tensor, v: Tensor, players: str = "wv") -> Estimate:
        if problem.noisy_layers and not self.freeze_noise:
            raise RunError(
                "component",
                f"gradients/zeroth_order: the outputs of {', '.join(problem.noisy_layers)} are random, so that a "
                "difference of two values is mostly noise",
                "set dropout to 0, or optimizer.gradients.freeze_noise: true",
                "optimizer.gradients",
            )
        seed = self._noise_seed(problem)
        base = None
        if self.scheme != "central":
            with _noise(seed):
                base = self._mean(problem, problem.values(w.unsqueeze(-2), v.unsqueeze(-2)))  # (..., 1)
        if self.scheme == "two_sample":
            problem.draw()
        if self.joint:
            whole = self._along(problem, torch.cat([w, v], dim=-1), w.shape[-1], base, self.mu, seed, "wv", (w, v))
            return Estimate(whole[..., : w.shape[-1]], whole[..., w.shape[-1] :])
        found = {"w": torch.zeros_like(w), "v": torch.zeros_like(v)}
        for player, x, mu in (("w", w, self.mu_w), ("v", v, self.mu_v)):
            if player in players:
                found[player] = self._along(problem, x, 0, base, mu or self.mu, seed, player, (w, v))
        return Estimate(found["w"], found["v"])

    def _along(
        self,
        problem: Problem,
        x: Tensor,
        cut: int,
        base: Tensor | None,
        mu: float | str,
        seed: int | None,
        player: str,
        at: tuple[Tensor, Tensor],
    ) -> Tensor:
        """The estimate in x, one of the players or both joined, (..., d)."""
        d = x.shape[-1]
        step = self._step(problem, x, mu)  # (..., 1)
        total = torch.zeros_like(x)
        count = min(self.points, d) if self.direction == "coordinate" else self.points

        def value(moved: Tensor) -> Tensor:  # (..., k, d) -> (..., k)
            w, v = (part.unsqueeze(-2) for part in at)
            points = {"w": (moved, v), "v": (w, moved), "wv": (moved[..., :cut], moved[..., cut:])}[player]
            with _noise(seed):
                return problem.values(*points).sum(-1) / problem.size

        for directions in self._directions(problem, x, count):
            mine = self._share(problem, directions.shape[-2])
            u = directions[..., mine, :]
            here, move = x.unsqueeze(-2), step.unsqueeze(-2) * u
            if self.scheme != "central":
                slopes = value(here + move) / step
            elif u.numel() <= TOGETHER_FLOATS:
                ahead, behind = value(torch.cat([here + move, here - move], dim=-2)).chunk(2, dim=-1)
                slopes = (ahead - behind) / (2 * step)
            else:
                slopes = (value(here + move) - value(here - move)) / (2 * step)
            slopes = self._exchange(problem, slopes, mine, directions.shape[-2])
            if base is not None:
                slopes = slopes - base / step
            total = total + (slopes.unsqueeze(-2) @ directions).squeeze(-2)
        factor = d if self.direction in ("sphere", "coordinate") else 1
        return total * (factor / count)

    # ------------------------------------------------------------------------------------------ workers

    def _share(self, problem: Problem, count: int) -> slice:
        """Which directions this worker evaluates."""
        if self.split == "data":
            return slice(0, count)
        world, rank = problem.comm.world_size, problem.comm.rank
        return slice(rank * count // world, (rank + 1) * count // world)

    def _exchange(self, problem: Problem, slopes: Tensor, mine: slice, count: int) -> Tensor:
        """The slopes along all directions, on all workers: `count` numbers of 8 bytes are sent."""
        if problem.comm.world_size == 1:
            return slopes
        whole = torch.zeros(*slopes.shape[:-1], count, dtype=torch.float64, device=slopes.device)
        whole[..., mine] = slopes.double()
        return problem.add_up(whole)[0].to(slopes.dtype)

    def _mean(self, problem: Problem, values: Tensor) -> Tensor:
        """The mean over the whole batch, (..., batch) -> (...)."""
        mean = values.sum(-1) / problem.size
        return mean if self.split == "directions" else problem.add_up(mean)[0]

    # ------------------------------------------------------------------------------------------ directions

    def _directions(self, problem: Problem, x: Tensor, count: int) -> Iterator[Tensor]:
        """(..., k, d) in chunks, equal on all workers."""
        d = x.shape[-1]
        size = max(2, CHUNK_FLOATS // max(1, x.numel()) // 2 * 2)
        if self.direction == "coordinate":
            if self.points > d:
                problem.warn(f"zeroth_order: {self.points} coordinates are asked for, and there are {d}: takes {d}")
            device = x.device
            chosen = problem.random(
                "zo", lambda generator: torch.randperm(d, generator=generator, device=device)[:count]
            )
            for start in range(0, count, size):
                yield coordinates(chosen[..., start : start + size], d, x)
            return
        draw = DRAWS[self.direction]
        for start in range(0, count, size):
            length = min(size, count - start)
            if self.antithetic:
                half = problem.random("zo", partial(draw, length // 2, d, x))
                yield torch.cat([half, -half], dim=-2)
            else:
                yield problem.random("zo", partial(draw, length, d, x))

    def _step(self, problem: Problem, x: Tensor, mu: float | str) -> Tensor:
        """mu for each run, (..., 1)."""
        size = torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(min=1.0)
        eps = torch.finfo(x.dtype).eps
        if mu == "auto":
            root_n = problem.num_examples**0.5
            dimension = 1.0 if self.direction == "sphere" else (x.shape[-1] + 3) ** 1.5
            wanted = 1 / (self.smoothness * dimension * root_n)
            return (eps**0.5 * size).clamp(min=wanted)
        assert not isinstance(mu, str)
        if x.dtype == torch.float32 and bool((mu < FP32_STEP * size).any()):
            problem.warn(
                f"zeroth_order: in float32 mu = {mu:g} is lost to rounding (below {FP32_STEP:g} max(1, |w|)): "
                "set task.dtype: float64, or a larger mu"
            )
        return torch.full_like(size, mu)

    def _noise_seed(self, problem: Problem) -> int | None:
        if not problem.noisy_layers:
            return None
        drawn = problem.random("zo/noise", lambda generator: torch.randint(2**62, (1,), generator=generator))
        return int(drawn.reshape(-1)[0])


@contextmanager
def _noise(seed: int | None) -> Iterator[None]:
    """Inside, torch's global generator starts from `seed`; it is left as it was."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
