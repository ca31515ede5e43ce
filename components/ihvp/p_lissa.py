"""Pseudo-LiSSA: Landweber's iteration on the squared curvature, without damping."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Annotated, Literal

import torch
from torch import Tensor

from raycipe.components.ihvp._square import Track, dot, largest_singular_value, norm
from raycipe.framework.arguments import Count, NonNegative, Positive, Range
from raycipe.framework.contracts import InverseHVP, Solved, System
from raycipe.framework.registry import register
from raycipe.framework.streams import torch_generator

Acceleration = Literal["none", "nesterov", "chebyshev", "cgls"]
GROWN = 10.0  # a residual so much above its best one: the step is too long
MAX_RESTARTS = 5
FEW = 8  # products below which Chebyshev's interval is too wide to be of use


@register
class PLissa(InverseHVP):
    """Pseudo-LiSSA: the pseudo-inverse of an indefinite curvature, without damping and hence without its bias.

    x_{j+1} = x_j + eta A'(b - A x_j), 0 < eta < 2 / sigma_max(A)². Its limit is A⁺ b whatever the signs of the
    eigenvalues; the part of the residual along eigenvalue l shrinks by |1 - eta l²| a step, so low curvature is slow,
    and stopping early leaves it out. Two products a step.

    Args:
        max_hvp: products with the curvature, beside those for the step length
        tol: ends when |A x - b| / |b| is no larger; it can't be reached where b has a part outside A's range
        acceleration: none; nesterov and chebyshev need about the square root of the steps; cgls, conjugate gradients
            on the normal equations, needs the fewest, and resolves low curvature, which can make an edit destructive
        batching: all examples in every product, one fixed draw of them, or two independent new draws a step
        batch_size: examples of a draw
        average_last: share of the iterates, the last ones, that are averaged where draws are new
        independent_batches: the two products of a step see different draws; one draw for both is biased like damping
        step: eta; null takes 1 / (safety · sigma_max)²
        safety: by how much the power iteration may have underestimated sigma_max
        power_iters: iterations of it, one or two products each
        x0: start at zero, or warm at tau · b: directions with too little curvature keep that gradient step
        tau: of the warm start; null takes the planned steps J over sigma_max, sqrt(J) without acceleration
        max_norm: ends when |x| exceeds it; null for no bound
        seed: of the power iteration and the draws

    Reference:
        L. Landweber, An Iteration Formula for Fredholm Integral Equations of the First Kind, 1951; H. Lyu, J. Jang,
        S. Ryu, H. J. Yang, Deeper Understanding of Black-box Predictions via Generalized Influence Functions, 2023.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: gif, forget: {type: one_class, label: 3}, ihvp: {type: p_lissa, max_hvp: 40}}
    """

    def __init__(
        self,
        max_hvp: Annotated[int, Range(ge=2, le=10**6)] = 200,
        tol: NonNegative = 1e-3,
        acceleration: Acceleration = "none",
        batching: Literal["full", "frozen", "stochastic"] = "full",
        batch_size: Count = 256,
        average_last: Annotated[float, Range(gt=0, le=1)] = 0.5,
        independent_batches: bool = True,
        step: Positive | None = None,
        safety: Annotated[float, Range(ge=1)] = 1.1,
        power_iters: Count = 20,
        x0: Literal["zero", "warm"] = "zero",
        tau: Positive | None = None,
        max_norm: Positive | None = None,
        seed: Annotated[int, Range(ge=0, le=2**32 - 1)] = 0,
    ) -> None:
        if batching == "stochastic" and acceleration in ("cgls", "chebyshev"):
            raise ValueError(
                f"acceleration: {acceleration} needs the same matrix at every step: batching full or frozen"
            )
        self.max_hvp = max_hvp
        self.tol = tol
        self.acceleration: Acceleration = acceleration
        self.batching = batching
        self.batch_size = batch_size
        self.average_last = average_last
        self.independent_batches = independent_batches
        self.step = step
        self.safety = safety
        self.power_iters = power_iters
        self.x0 = x0
        self.tau = tau
        self.max_norm = max_norm
        self.seed = seed

    def solve(self, system: System, b: Tensor) -> Solved:
        generator = torch_generator(self.seed, "p_lissa")
        if self.batching == "frozen":
            system = system.sample(self.batch_size, generator)
        sigma = 1.0
        if self.step is None or self.acceleration == "chebyshev" or (self.x0 == "warm" and self.tau is None):
            sigma = self.safety * largest_singular_value(system, b, self.power_iters, self.seed)
        if sigma < 1e-12 or not math.isfinite(sigma):
            return Solved(torch.zeros_like(system.pick(b)), reason="no curvature")
        eta = self.step if self.step is not None else 1 / sigma**2
        start = self._start(system, b, sigma)
        if self.batching == "stochastic":
            return self._stochastic(system, b, eta, start, generator)
        return self._fixed(system, b, eta, sigma, start)

    def _start(self, system: System, b: Tensor, sigma: float) -> Tensor:
        if self.x0 == "zero":
            return torch.zeros_like(system.pick(b))
        steps = self.max_hvp // 2
        tau = self.tau or (math.sqrt(steps) if self.acceleration == "none" else steps) / sigma
        return tau * system.pick(b)

    def _fixed(self, system: System, b: Tensor, eta: float, sigma: float, start: Tensor) -> Solved:
        """One matrix: the iterates of the acceleration until a bound is met; a step that is too long is halved."""
        track = Track(system, b)
        best, lowest = start, math.inf
        for restart in range(MAX_RESTARTS + 1):
            steps = iterates(system, b, eta / 2**restart, best, self.acceleration, sigma, self.max_hvp)
            for x, residual in steps:
                found = track.add(len(track.rows), residual)
                if not math.isfinite(found) or found > GROWN * max(lowest, 1e-12):
                    break
                if found < lowest:
                    best, lowest = x, found
                for reason, ends in (
                    ("tolerance", found <= self.tol),
                    ("norm", self.max_norm is not None and norm(x) > self.max_norm),
                    ("budget", track.products + 2 > self.max_hvp),
                ):
                    if ends:
                        return Solved(x, len(track.rows) - 1, reason == "tolerance", reason, track.rows)
            else:  # the iteration ended by itself: it has arrived
                return Solved(best, len(track.rows) - 1, True, "exact", track.rows)
        return Solved(best, len(track.rows) - 1, False, "diverged", track.rows)

    def _stochastic(self, system: System, b: Tensor, eta: float, start: Tensor, generator: torch.Generator) -> Solved:
        """New draws at every step; the average over the last iterates is returned."""
        steps = self.max_hvp // 2
        x, mean, averaged = start, torch.zeros_like(start), 0
        for step in range(steps):
            first = system.sample(self.batch_size, generator)
            second = system.sample(self.batch_size, generator) if self.independent_batches else first
            x = x + eta * second.transposed(b - first.product(x))
            if not bool(torch.isfinite(x).all()):
                return Solved(mean, step + 1, False, "diverged")
            if step >= steps - max(1, round(self.average_last * steps)):
                averaged += 1
                mean = mean + (x - mean) / averaged
        return Solved(mean, steps, False, "budget")


def iterates(
    system: System, b: Tensor, eta: float, start: Tensor, acceleration: Acceleration, sigma: float, products: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """The iterates x_0, x_1, ... of min |A x - b|² with their residuals b - A x; two products each but the first."""
    methods: dict[str, Callable[[], Iterator[tuple[Tensor, Tensor]]]] = {
        "none": lambda: landweber(system, b, eta, start),
        "nesterov": lambda: nesterov(system, b, eta, start),
        "chebyshev": lambda: chebyshev(system, b, eta, start, sigma, products),
        "cgls": lambda: cgls(system, b, start),
    }
    return methods[acceleration]()


def landweber(system: System, b: Tensor, eta: float, x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """x <- x + eta A'(b - A x)."""
    while True:
        residual = b - system.product(x)
        yield x, residual
        x = x + eta * system.transposed(residual)


def nesterov(system: System, b: Tensor, eta: float, x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The step is taken at z = x + j/(j+3) (x - x before); A z follows from A x by linearity."""
    before, image = x, system.product(x)
    image_before, j = image, 0
    while True:
        yield x, b - image
        share = j / (j + 3)
        z, image_z = x + share * (x - before), image + share * (image - image_before)
        before, image_before = x, image
        x = z + eta * system.transposed(b - image_z)
        image, j = system.product(x), j + 1


def chebyshev(
    system: System, b: Tensor, eta: float, x: Tensor, sigma: float, products: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Chebyshev's iteration on A'A for eigenvalues in [(4 sigma/N)², sigma²], N products; plain for few of them."""
    if products < FEW:
        yield from landweber(system, b, eta, x)
        return
    high, low = 1 / eta, (4 * sigma / products) ** 2  # 1/eta is sigma², or more after a restart
    low = min(low, high / 2)
    a, c = (high + low) / 2, (high - low) / 2
    alpha, direction, j = 1 / a, torch.zeros_like(x), 0
    while True:
        residual = b - system.product(x)
        yield x, residual
        gradient = system.transposed(residual)
        if j == 0:
            beta = 0.0
        else:
            beta = (c * alpha) ** 2 / 2 if j == 1 else (c * alpha / 2) ** 2
            alpha = 1 / (a - beta / alpha)
        direction = gradient + beta * direction
        x = x + alpha * direction
        j += 1


def cgls(system: System, b: Tensor, x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Conjugate gradients on A'A x = A'b without forming A'A; ends where the gradient vanishes."""
    residual = b - system.product(x)
    gradient = system.transposed(residual)
    direction, square = gradient, dot(gradient, gradient)
    yield x, residual
    scale = square
    while square > 1e-28 * scale:
        image = system.product(direction)
        length = dot(image, image)
        if length == 0:
            return
        alpha = square / length
        x, residual = x + alpha * direction, residual - alpha * image
        yield x, residual
        gradient = system.transposed(residual)
        square, last = dot(gradient, gradient), square
        direction = gradient + (square / last) * direction
