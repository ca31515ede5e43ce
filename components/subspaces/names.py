"""Parameters by their names."""

from __future__ import annotations

from typing import Annotated

from torch import Tensor

from raycipe.components.subspaces._choice import SUBSPACE, eligible
from raycipe.framework.arguments import Length
from raycipe.framework.contracts import Landscape, Subspace
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register


@register
class Names(Subspace):
    """The parameters whose names match a pattern, as `raycipe show` and the report's table of parameters spell them.

    Args:
        include: patterns with * and ?, e.g. layers.0.*
        exclude: patterns of those that are left out again

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: gif, forget: {type: one_class, label: 3}, subspace: {type: names, include: ["*bias"]}}
    """

    def __init__(
        self,
        include: Annotated[list[str], Length(1, 1000)],
        exclude: list[str] = [],  # noqa: B006 (never changed)
    ) -> None:
        self.include = include
        self.exclude = exclude

    def select(self, landscape: Landscape) -> Tensor:
        found = eligible(landscape.layout, self.include, self.exclude).nonzero().flatten()
        if not len(found):
            raise RunError("recipe", "every parameter is left out again", "look at `exclude`", SUBSPACE)
        return found
