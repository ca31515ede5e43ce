"""Which parameters are chosen, on vectors made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from raycipe.components.subspaces._choice import blocks_of, shares
from raycipe.framework.contracts import Landscape
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make

V = torch.tensor([5.0, 4, 3, 2, 1], dtype=torch.float64)
FIVE = (("w", torch.Size([5])),)
C = torch.tensor([0.0, 9, 8, 7, 6], dtype=torch.float64)


class Ground(Landscape):
    """A landscape of given vectors."""

    def __init__(self, v: Tensor, c: Tensor, layout: Any = FIVE) -> None:
        self.gradient, self.c, self.layout, self.seed, self.model = v, c, layout, 0, nn.Module()

    def curvature(self, kind: str, of_forget: bool = False) -> Tensor:
        return self.c.flip(0) if of_forget else self.c

    def pilot(self, steps: int, damping: float) -> Tensor:
        return self.gradient.flip(0)

    def activity(self, of_gradient: bool) -> Mapping[str, Tensor]:
        return {"a": torch.tensor([1.0, 3.0, 2.0]), "b": torch.tensor([0.5, 9.0])}


def choose(ground: Ground, **arguments: Any) -> list[int]:
    found: Tensor = make("subspaces/topk", **arguments).select(ground)
    return found.tolist()


@pytest.mark.parametrize(
    ("score", "wanted"),
    [
        ("gradient", [0, 1]),
        ("gate", [1, 2]),  # the median of c > 0 is 7.5
        ("newton", [0, 1]),
        ("curvature", [1, 2]),
        ("soft", [1, 2]),
        ("caps", [1, 2]),  # v²/c without c = 0: 1.78, 1.125, .571, .167
        ("lowest_gradient", [3, 4]),
        ("pilot", [3, 4]),
        ("ratio", [0, 3]),  # c of what goes is c from behind: inf, .78, 1, 1.29, 0
    ],
)
def test_each_score_ranks_as_its_formula_says(score: str, wanted: list[int]) -> None:
    assert choose(Ground(V, C), score=score, count=2) == wanted


def test_a_share_counts_at_least_one_and_ties_go_to_the_lower_index() -> None:
    flat = Ground(torch.ones(5, dtype=torch.float64), C)
    assert choose(flat, score="gradient", ratio=0.01) == [0]
    assert choose(flat, score="gradient", ratio=0.6) == [0, 1, 2]
    assert choose(flat, score="gradient", ratio=1.0) == [0, 1, 2, 3, 4]
    drawn = choose(flat, score="random", ratio=0.4)
    assert drawn == choose(flat, score="random", ratio=0.4) and len(drawn) == 2


LAYERS = (("a.weight", torch.Size([3, 2])), ("a.bias", torch.Size([3])), ("b.weight", torch.Size([2, 3])))


def layered() -> Ground:
    #           a.weight: units 0 1 2    a.bias     b.weight: units 0 1
    v = torch.tensor([1.0, 1, 5, 5, 2, 2, 1, 5, 2, 4, 4, 4, 0, 0, 9], dtype=torch.float64)
    return Ground(v, torch.ones(15, dtype=torch.float64), LAYERS)


def test_a_unit_is_a_row_of_weights_with_its_bias() -> None:
    blocks = blocks_of(LAYERS, "unit")
    assert blocks.sizes.tolist() == [3, 3, 3, 3, 3] and blocks.layer.tolist() == [0, 0, 0, 1, 1]
    assert choose(layered(), score="gradient", granularity="unit", count=3) == [12, 13, 14]  # rms 5.2 against 5
    assert choose(layered(), score="gradient", granularity="unit", count=8) == [2, 3, 7, 12, 13, 14]  # whole units
    assert choose(layered(), score="output", granularity="unit", count=3) == [12, 13, 14]


def test_a_tensor_is_chosen_as_a_whole() -> None:
    assert choose(layered(), score="gradient", granularity="tensor", count=6) == list(range(9, 15))
    with pytest.raises(RunError, match="no whole unit or tensor fits into 2 parameters"):
        choose(layered(), score="gradient", granularity="tensor", count=2)


def test_every_layer_gets_the_same_share() -> None:
    found = choose(layered(), score="gradient", ratio=0.34, allocation="per_layer")
    assert found == [2, 3, 7, 9, 14]
    assert choose(layered(), score="caps", granularity="unit", ratio=0.4) == [2, 3, 7, 12, 13, 14][:3]
    assert shares([9, 6], 5) == [3, 2] and shares([1, 1, 1], 2) == [1, 1, 0]


def test_names_include_and_exclude() -> None:
    assert choose(layered(), score="gradient", ratio=1.0, include=["a.*"], exclude=["*.bias"]) == list(range(6))
    with pytest.raises(RunError, match="no parameter is named `c.\\*`"):
        choose(layered(), include=["c.*"])
    assert make("subspaces/names", include=["*bias"]).select(layered()).tolist() == [6, 7, 8]
    assert make("subspaces/last_layer").select(layered()).tolist() == list(range(9, 15))
    assert make("subspaces/all").select(layered()).tolist() == list(range(15))


def test_more_parameters_than_there_are_can_not_be_asked_for() -> None:
    with pytest.raises(RunError, match="6 parameters are to be chosen, and only 5 may be"):
        choose(Ground(V, C), count=6)
    with pytest.raises(ValueError, match="granularity: score output ranks units"):
        make("subspaces/topk", score="output")
