"""Shared by the causal data: simulated worlds, and the effects that are true in them.

Y = f(x) + tau(x) A + noise, with a binary A of propensity e(x), unless a world says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

Array = np.ndarray
Of = Callable[[Array], Array]
NODES = 80  # of the quadrature along each axis


def s(z: Array) -> Array:
    found: Array = 0.5 * (1.0 + np.tanh(0.5 * z))
    return found


@dataclass(frozen=True)
class World:
    """How a data set is drawn: covariates, propensity, untreated mean, effect, noise, perhaps an instrument."""

    e: Of  # P(A=1|x), or P(A=1|x,Z) as (n, 2) with an instrument
    f: Of
    tau: Of
    dimension: int = 2
    law: str = "normal"  # of x: normal, uniform
    shift: tuple[float, ...] = ()  # of a normal x
    noise: Callable[[np.random.Generator, Array], Array] = lambda generator, x: generator.standard_normal(len(x))
    z: Of | None = None  # P(Z=1|x)
    active: int = 2  # covariates that e, tau and z look at: those of the quadrature

    def draw_x(self, generator: np.random.Generator, n: int) -> Array:
        if self.law == "uniform":
            return generator.uniform(size=(n, self.dimension))
        shift = np.zeros(self.dimension)
        shift[: len(self.shift)] = self.shift
        return generator.standard_normal((n, self.dimension)) + shift


def heavy(generator: np.random.Generator, x: Array) -> Array:
    """exp(x_1 / 2) t_3."""
    return np.exp(0.5 * x[:, 0]) * generator.standard_t(3, len(x))


def ones(x: Array) -> Array:
    return np.ones(len(x))


FIVE = np.linspace(0.2, 1.0, 5)
WORLDS: Mapping[str, World] = {
    "dgp1": World(lambda x: s(0.5 * x[:, 0] - 0.5 * x[:, 1]), lambda x: x[:, 0] + x[:, 1], ones),
    "dgp2": World(
        lambda x: s(0.5 * x[:, 0] - 0.5 * x[:, 1]),
        lambda x: x[:, 0] + x[:, 1],
        lambda x: 1 + 0.5 * x[:, 0] - 0.3 * x[:, 1],
    ),
    "dgp3": World(
        lambda x: s(0.5 * x[:, 0] - 0.5 * x[:, 1]),
        lambda x: x[:, 0] + x[:, 1],
        lambda x: 1 + 0.5 * x[:, 0] - 0.3 * x[:, 1],
        shift=(0.5, 0.0),
    ),
    "dgp4": World(
        lambda x: s(0.5 * x[:, 0] - 0.5 * x[:, 1]),
        lambda x: x[:, 0] ** 2 + np.sin(x[:, 1]),
        lambda x: 1 + x[:, 0] * x[:, 1],
    ),
    "dgp5": World(
        lambda x: s(0.5 * x[:, 0] + 0.5 * x[:, 0] ** 2 + 0.5 * np.sin(x[:, 1])),
        lambda x: x[:, 0] + 0.5 * x[:, 0] ** 2 + 0.5 * np.sin(x[:, 1]),
        ones,
    ),
    "dgp6": World(lambda x: s(3.5 + 3 * x[:, 0]), lambda x: x[:, 0] + x[:, 1], ones),
    "dgp7": World(lambda x: s(0.5 * x[:, 0] - 0.5 * x[:, 1]), lambda x: x[:, 0] + x[:, 1], ones, noise=heavy),
    "dgp8": World(lambda x: s(x[:, :5] @ FIVE), lambda x: x[:, :5] @ FIVE[::-1], ones, dimension=20),
    "dgp9": World(
        lambda x: s(-0.5 + x[:, 0] - 0.25 * x[:, 1] + 0.25 * x[:, 2]),
        lambda x: 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4],
        lambda x: 1 + x[:, 0] / (x[:, 1] + 0.1),
        dimension=5,
        law="uniform",
        active=3,
    ),
    "kang_schafer": World(
        lambda x: s(-x[:, 0] + 0.5 * x[:, 1] - 0.25 * x[:, 2] - 0.1 * x[:, 3]),
        lambda x: 210 + 27.4 * x[:, 0] + 13.7 * x[:, 1:4].sum(axis=1),
        lambda x: np.zeros(len(x)),
        dimension=4,
    ),
    "iv0": World(
        lambda x: np.stack([s(0.1 * x[:, 0] - 0.1 * x[:, 1] + 4 * z) for z in (0, 1)], axis=1),
        lambda x: x[:, 0] + x[:, 1],
        lambda x: 2 * ones(x),
        noise=lambda generator, x: 0.2 * generator.standard_normal(len(x)),
        z=lambda x: 0.5 * ones(x),
    ),
    "iv1": World(
        lambda x: np.stack([s(-0.3 + 0.4 * x[:, 0] - 0.3 * x[:, 1] + 2 * z) for z in (0, 1)], axis=1),
        lambda x: x[:, 0] ** 2 + np.sin(x[:, 1]),
        lambda x: 1 + 0.6 * x[:, 0] - 0.3 * x[:, 1],
        shift=(0.5, -0.2),
        noise=lambda generator, x: 0.2 * generator.standard_normal(len(x)),
        z=lambda x: s(0.2 * x[:, 0] - 0.2 * x[:, 1]),
    ),
    "iv2": World(
        lambda x: np.stack(
            [s(-0.2 + 0.3 * (0.8 * x[:, 0] - 0.6 * x[:, 1] + 0.4 * x[:, 2]) + 1.2 * z) for z in (0, 1)], axis=1
        ),
        lambda x: x[:, 0] + x[:, 1],
        ones,
        dimension=10,
        noise=lambda generator, x: np.exp(0.3 * x[:, 0]) * generator.standard_t(3, len(x)),
        z=lambda x: s(0.3 + 0.3 * x[:, 0]),
    ),
}
RISK_EFFECT = 0.5  # of `risk`, on the log scale
PLR_EFFECT = 0.5


def draw(name: str, n: int, generator: np.random.Generator, confounded: float = 0.0) -> dict[str, Array]:
    """float64 arrays `x` (n, d), `y` (n,), `treatment` (n,), and `truth` (n, 3) or `instrument` (n,).

    `confounded` puts c (U - 1/2) into Y, with the uniform U that decides on A: then an instrument is needed.
    """
    if name in SPECIAL:
        return SPECIAL[name](n, generator)
    world = WORLDS[name]
    x = world.draw_x(generator, n)
    u = generator.uniform(size=n)
    found: dict[str, Array] = {}
    if world.z is not None:
        z = (generator.uniform(size=n) < world.z(x)).astype(np.float64)
        a = (u < world.e(x)[np.arange(n), z.astype(np.int64)]).astype(np.float64)
        found["instrument"] = z
    else:
        e = world.e(x)
        a = (u < e).astype(np.float64)
        found["truth"] = np.stack([e, world.f(x), world.f(x) + world.tau(x)], axis=1)
    y = world.f(x) + world.tau(x) * a + world.noise(generator, x) + confounded * (u - 0.5)
    shown = seen_of_kang_schafer(x) if name == "kang_schafer" else x
    return {"x": shown, "y": y, "treatment": a, **found}


def seen_of_kang_schafer(x: Array) -> Array:
    """What the statistician is shown instead of the covariates."""
    return np.stack(
        [
            np.exp(x[:, 0] / 2),
            x[:, 1] / (1 + np.exp(x[:, 0])) + 10,
            (x[:, 0] * x[:, 2] / 25 + 0.6) ** 3,
            (x[:, 1] + x[:, 3] + 20) ** 2 / 400,
        ],
        axis=1,
    )


def plr(n: int, generator: np.random.Generator) -> dict[str, Array]:
    """T = sin x1 + x2 / 2 + exp(.3 x1) N, Y = T / 2 + x1^2 + exp(.3 x1) N."""
    x = generator.standard_normal((n, 2))
    spread = np.exp(0.3 * x[:, 0])
    a = np.sin(x[:, 0]) + 0.5 * x[:, 1] + spread * generator.standard_normal(n)
    y = PLR_EFFECT * a + x[:, 0] ** 2 + spread * generator.standard_normal(n)
    return {"x": x, "y": y, "treatment": a}


def dose(n: int, generator: np.random.Generator) -> dict[str, Array]:
    """A = x1 / 2 - x2 / 4 + N, Y = sin A + A / 2 + x1 + x2 / 2 + N: the curve is sin a + a / 2."""
    x = generator.standard_normal((n, 2))
    a = 0.5 * x[:, 0] - 0.25 * x[:, 1] + generator.standard_normal(n)
    y = dose_curve(a) + x[:, 0] + 0.5 * x[:, 1] + generator.standard_normal(n)
    return {"x": x, "y": y, "treatment": a}


def dose_curve(a: Array) -> Array:
    found: Array = np.sin(a) + 0.5 * a
    return found


def risk(n: int, generator: np.random.Generator) -> dict[str, Array]:
    """Counts: Y ~ Poisson(exp(.2 + .3 x1 + A / 2)), e as in dgp1."""
    x = generator.standard_normal((n, 2))
    e = s(0.5 * x[:, 0] - 0.5 * x[:, 1])
    a = (generator.uniform(size=n) < e).astype(np.float64)
    control = np.exp(0.2 + 0.3 * x[:, 0])
    y = generator.poisson(control * np.exp(RISK_EFFECT * a)).astype(np.float64)
    return {"x": x, "y": y, "treatment": a, "truth": np.stack([e, control, control * np.exp(RISK_EFFECT)], axis=1)}


SPECIAL: Mapping[str, Callable[[int, np.random.Generator], dict[str, Array]]] = {
    "plr": plr,
    "dose": dose,
    "risk": risk,
}


@cache
def effects(name: str) -> dict[str, float]:
    """The true `true_ate`, `true_att`, ... of a world, by quadrature over its active covariates."""
    if name == "plr":
        return {"true_ape": PLR_EFFECT}
    if name == "dose":
        return {}
    if name == "risk":
        control = float(np.exp(0.2 + 0.3**2 / 2))
        return {"true_ate": control * (np.exp(RISK_EFFECT) - 1)}
    world = WORLDS[name]
    if name == "kang_schafer":
        return dict.fromkeys(("true_ate", "true_att", "true_atc", "true_ato"), 0.0)
    if name == "dgp8":  # a constant effect
        return dict.fromkeys(("true_ate", "true_att", "true_atc", "true_ato"), 1.0)
    x, weight = nodes(world)
    tau = world.tau(x)
    if world.z is not None:
        compliers = weight * (world.e(x)[:, 1] - world.e(x)[:, 0])
        return {"true_ate": float(weight @ tau), "true_late": float(compliers @ tau / compliers.sum())}
    e = world.e(x)
    by = {"true_ate": ones(x), "true_att": e, "true_atc": 1 - e, "true_ato": e * (1 - e)}
    return {each: float((weight * share) @ tau / (weight @ share)) for each, share in by.items()}


def nodes(world: World) -> tuple[Array, Array]:
    """Points (m, dimension), with inactive covariates at their centre, and weights (m,) that sum to 1."""
    if world.law == "uniform":
        at, weight = np.polynomial.legendre.leggauss(NODES if world.active < 3 else 40)
        at, weight = 0.5 * (at + 1), 0.5 * weight
        centre = 0.5
    else:
        at, weight = np.polynomial.hermite_e.hermegauss(NODES if world.active < 3 else 40)
        weight = weight / weight.sum()
        centre = 0.0
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*[at] * world.active, indexing="ij")], axis=1)
    weights = np.ones(len(grid))
    for axis in np.meshgrid(*[weight] * world.active, indexing="ij"):
        weights = weights * axis.ravel()
    x = np.full((len(grid), world.dimension), centre)
    x[:, : world.active] = grid
    x[:, : len(world.shift)] += np.array(world.shift)
    return x, weights
