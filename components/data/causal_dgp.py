"""Simulated data with a known causal effect."""

from __future__ import annotations

from typing import Annotated, Literal

from raycipe.components.data import _dgps as dgps
from raycipe.components.data._causal import causal_facts, split_of
from raycipe.framework.arguments import Count, NonNegative, Range
from raycipe.framework.contracts import Data, Split
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator


@register
class CausalDgp(Data):
    """Data sets drawn from a known world: Y = f(x) + tau(x) A + noise, with the true effects and nuisances told.

    dgp1 to dgp9 are the worlds of the paper: linear and constant (1), heterogeneous (2), shifted (3), nonlinear (4, 5),
    little overlap (6), heavy-tailed noise that grows with x (7), 20 covariates (8), Friedman's function (9). iv0 to iv2
    have an instrument, strong to weak. plr and dose have a continuous treatment, risk counts as outcomes;
    kang_schafer shows transformed covariates alone.

    Args:
        name: the world
        examples: rows to estimate from
        fresh: further rows, in `test`, on which effects as functions are scored; 0 for none
        confounded: c of the worlds with an instrument: the uniform U that decides on A also adds c (U - 1/2) to Y

    Reference:
        E. Javurek, D. Frauen, Y. Wang, S. Feuerriegel, Generalized Bayes for Causal Inference, 2026.

    Recipe:
        data: {type: causal_dgp, name: dgp4, examples: 300}
        estimator: gbayes_causal
    """

    def __init__(
        self,
        name: Literal[
            "dgp1",
            "dgp2",
            "dgp3",
            "dgp4",
            "dgp5",
            "dgp6",
            "dgp7",
            "dgp8",
            "dgp9",
            "iv0",
            "iv1",
            "iv2",
            "plr",
            "dose",
            "risk",
            "kang_schafer",
        ] = "dgp1",
        examples: Count = 1000,
        fresh: Annotated[int, Range(ge=0, le=10**9)] = 300,
        confounded: NonNegative = 0.0,
    ) -> None:
        if confounded and not name.startswith("iv"):
            raise ValueError(f"confounded: {name} has no instrument that could help")
        self.name = name
        self.examples = examples
        self.fresh = fresh
        self.confounded = confounded

    def load(self, seed: int) -> dict[str, Split]:
        generator = numpy_generator(seed, "causal_dgp")
        arrays = dgps.draw(self.name, self.examples, generator, self.confounded)
        splits: dict[str, Split] = {"train": split_of(arrays)}
        if self.fresh:
            further = numpy_generator(seed, "causal_dgp", 1)
            splits["test"] = split_of(dgps.draw(self.name, self.fresh, further, self.confounded))
        self.facts = causal_facts(arrays["x"].shape[1], None, "truth" in arrays, dgps.effects(self.name))
        return splits
