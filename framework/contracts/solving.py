"""Inverse-Hessian-vector products: the linear system, who solves it, and which parameters it is restricted to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from raycipe.framework.contracts.component import Component
from raycipe.framework.splits import Batch


@dataclass
class Layers:
    """A model, the loss of a batch, the batches, and which of the flat trained parameters are the system's columns."""

    model: nn.Module
    loss: Callable[[nn.Module, Batch], Any]
    batches: Callable[[], Iterable[Batch]]
    columns: Tensor
    weight_decay: float
    num_classes: int | None  # of the outputs, if these are logits


class System(ABC):
    """A x = b with a matrix that is known by its products: `rows` x `columns`, symmetric where these are equal.

    Square: H[S, S], the curvature in the selected parameters. Tall: H[:, S], the selected columns with all rows; then
    the solution is that of least squares. `products` counts the products with the curvature so far.
    """

    rows: int
    columns: int
    products: int = 0

    @property
    def is_square(self) -> bool:
        return self.rows == self.columns

    @abstractmethod
    def product(self, x: Tensor) -> Tensor:
        """A x, (columns,) -> (rows,)."""

    @abstractmethod
    def transposed(self, y: Tensor) -> Tensor:
        """A' y, (rows,) -> (columns,)."""

    @abstractmethod
    def pick(self, b: Tensor) -> Tensor:
        """The entries of b that belong to the columns, (rows,) -> (columns,)."""

    @abstractmethod
    def sample(self, size: int, generator: torch.Generator) -> System:
        """The same system on a random draw of `size` examples; its products count here, too."""

    @abstractmethod
    def matrix(self) -> Tensor:
        """The whole matrix, (rows, columns)."""

    def layers(self) -> Layers | None:
        """What the matrix comes from, for solvers that look into layers; None where it comes from nothing."""
        return None


class Dense(System):
    """A system whose matrix is known, (rows, columns), with `terms` (n, rows, columns) as the mean of n of them."""

    def __init__(self, matrix: Tensor, columns: Tensor | None = None, terms: Tensor | None = None) -> None:
        self.a, self.terms = matrix, terms
        self.rows, self.columns = matrix.shape
        self.index = columns if columns is not None else torch.arange(self.columns)  # rows that the columns belong to
        self.counter: Dense = self

    def product(self, x: Tensor) -> Tensor:
        self.counter.products += 1
        return self.a @ x

    def transposed(self, y: Tensor) -> Tensor:
        self.counter.products += 1
        return self.a.T @ y

    def pick(self, b: Tensor) -> Tensor:
        return b if self.is_square else b[self.index]

    def sample(self, size: int, generator: torch.Generator) -> Dense:
        if self.terms is None:
            return self
        drawn = torch.randint(len(self.terms), (size,), generator=generator)
        found = Dense(self.terms[drawn].mean(dim=0), self.index)
        found.counter = self.counter
        return found

    def matrix(self) -> Tensor:
        return self.a


@dataclass
class Solved:
    """What a solver found. `reason` is why it ended: `tolerance`, `budget`, `norm`, `diverged`, `exact`, ...

    `notes` tell a user what differs from the method's description here.
    """

    x: Tensor
    iterations: int = 0
    is_converged: bool = False
    reason: str = "budget"
    history: list[dict[str, float]] = field(default_factory=list)  # iteration, products, residual
    notes: list[str] = field(default_factory=list)


class InverseHVP(Component, ABC):
    """Solves A x = b approximately with products alone: x stands for the inverse curvature times a gradient."""

    @abstractmethod
    def solve(self, system: System, b: Tensor) -> Solved:
        """An approximation of the least-squares solution; b is (rows,), flat. Raises RunError for a system of the
        wrong form. How good it is, is measured by whoever asks, with a product of its own."""


class Landscape(ABC):
    """What parameters can be chosen by: flat vectors over all trained parameters, (p,) each, computed when asked.

    `layout` names the parameters in their order, with shapes; norm statistics and other buffers are not among them.
    """

    layout: Sequence[tuple[str, torch.Size]]
    gradient: Tensor  # v, the right-hand side: the direction that the edit wants to take
    model: nn.Module
    seed: int

    @abstractmethod
    def curvature(self, kind: str, of_forget: bool = False) -> Tensor:
        """Diagonal of the curvature of the examples that stay (or of those that go): fisher, ggn or hutchinson."""

    @abstractmethod
    def pilot(self, steps: int, damping: float) -> Tensor:
        """The step that all parameters together would take: a short damped solution of H x = v."""

    @abstractmethod
    def activity(self, of_gradient: bool) -> Mapping[str, Tensor]:
        """Mean |output| (or its gradient) of each layer's units on the examples that go: layer -> (units,)."""


class Subspace(Component, ABC):
    """Which parameters an editor may move."""

    @abstractmethod
    def select(self, landscape: Landscape) -> Tensor:
        """Flat indices (int64, ascending, unique, at least one) into the parameters of `landscape.layout`."""
