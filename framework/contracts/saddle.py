"""Minimax problems: tasks with two players, what their optimizers are given, and estimators of the gradient.

    min over w, max over v of F(w, v) = mean over examples z of f(w, v; z)

w and v are flat tensors: (d_w,) and (d_v,) in a training run, (runs, d_w) and (runs, d_v) where many runs are simulated
side by side. The mathematics of optimizers and estimators works on the last dimension and so serves both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from raycipe.framework.contracts.component import Component
from raycipe.framework.contracts.training import Loss, Task
from raycipe.framework.splits import Batch, Split

if TYPE_CHECKING:
    from raycipe.framework.comm import Comm

Point = tuple[Tensor, Tensor]  # (w, v), flat
Role = Literal["min", "max"]
Draw = Callable[[torch.Generator], Tensor]


class Saddle(nn.Module):
    """A model and the variables that a minimax task adds to it: what is trained, saved and measured.

    Args:
        model: gives w's first part, and the outputs.
        minimized: further variables of the minimizing player, by name.
        maximized: the variables of the maximizing player.
        constants: numbers of the task that the data fix; saved, never trained.
        dtype: number format of all of it.
    """

    def __init__(
        self,
        model: nn.Module,
        minimized: Mapping[str, Tensor],
        maximized: Mapping[str, Tensor],
        constants: Mapping[str, Tensor],
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.model = model
        self.min = nn.ParameterDict({name: nn.Parameter(values) for name, values in minimized.items()})
        self.max = nn.ParameterDict({name: nn.Parameter(values) for name, values in maximized.items()})
        for name, values in constants.items():
            self.register_buffer(name, values)
        self.to(dtype)

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    def forward(self, x: Tensor) -> Any:
        return self.model(x.to(self.dtype) if x.is_floating_point() else x)

    def role(self, role: Role) -> Iterator[tuple[str, nn.Parameter]]:
        """Names and trained parameters of one player, in the order of `parameters()`."""
        for name, parameter in self.named_parameters():
            if parameter.requires_grad and name.startswith("max.") == (role == "max"):
                yield name, parameter

    def groups(self) -> list[dict[str, Any]]:
        """The optimizer's parameter groups, one a player."""
        return [{"params": [parameter for _, parameter in self.role(role)], "role": role} for role in ("min", "max")]


class SaddleTask(Task):
    """min over w, max over v of the mean of f(w, v; z): how both players are made, valued, kept in bounds and judged.

    `evaluate` must value each example by itself; `loss`, the mean, follows from it. In evaluation mode examples may be
    held-out ones, which `evaluate_held_out` values: a task with variables for each training example overrides it.
    """

    saddle: ClassVar[bool] = True

    def trained(self, model: nn.Module, splits: Mapping[str, Split]) -> Saddle:
        return self.variables(model, splits)

    @abstractmethod
    def variables(self, model: nn.Module, splits: Mapping[str, Split]) -> Saddle:
        """The model with the variables of both players, at their start values."""

    @abstractmethod
    def evaluate(self, saddle: Saddle, batch: Batch) -> tuple[Tensor, Any]:
        """(f of each training example of the batch, (batch,), with graph; the model's outputs)."""

    def evaluate_held_out(self, saddle: Saddle, batch: Batch) -> tuple[Tensor, Any]:
        return self.evaluate(saddle, batch)

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        assert isinstance(model, Saddle)  # made by `variables`
        values, outputs = (self.evaluate if model.training else self.evaluate_held_out)(model, batch)
        return Loss(values.mean(), outputs)

    def project(self, saddle: Saddle, w: Tensor, v: Tensor) -> Point:
        """The nearest allowed point; flat, on the last dimension."""
        return w, v

    def best_response(self, saddle: Saddle, batch: Batch) -> Tensor | None:
        """The flat v that maximizes the batch's mean at the module's w, in closed form; None if there is none."""
        return None

    def population(self, saddle: Saddle, facts: Mapping[str, Any]) -> tuple[float, float] | None:
        """(max over v of the expected value at the module's w, its least value), in `unit`s; None for unknown laws."""
        return None

    def unit(self, saddle: Saddle) -> float:
        """What values of f are told in: measures divide by it."""
        return 1.0

    def strongly_concave(self) -> bool:
        """Whether f is strongly concave in v or v is bounded, so that plain descent-ascent does not circle for ever."""
        return True

    def cautions(self) -> list[str]:
        """What a user should know of this problem before it runs: a line each."""
        return []


class Problem(ABC):
    """What a minimax optimizer and its estimators see of task, batch and workers. Points are never changed in place.

    Between `draw`s all evaluations are of one batch. `evaluations` counts those of f on a batch; a gradient is one.
    """

    step: int  # finished optimizer steps
    total_steps: int
    size: int  # examples of the batch over all workers
    num_examples: int  # n, of the training split
    evaluations: int
    comm: Comm

    @abstractmethod
    def point(self) -> Point:
        """The current (w, v)."""

    @abstractmethod
    def move(self, w: Tensor, v: Tensor) -> None:
        """Make (w, v) the current point."""

    @abstractmethod
    def project(self, w: Tensor, v: Tensor) -> Point:
        """The nearest allowed point."""

    @abstractmethod
    def gradients(self, w: Tensor, v: Tensor) -> Point:
        """The gradients in w and v of the mean over the whole batch, equal on all workers. May move to (w, v)."""

    @abstractmethod
    def sample_gradients(self, w: Tensor, v: Tensor) -> Point:
        """Those of each of this worker's examples: (..., batch, d_w) and (..., batch, d_v)."""

    @abstractmethod
    def values(self, w: Tensor, v: Tensor) -> Tensor:
        """f of each of this worker's examples, (..., K, batch), for w (..., K, d_w) and v (..., K, d_v).

        K counts points for each run; a size of 1 in one of them stands for all K.
        """

    @abstractmethod
    def draw(self) -> None:
        """Take the next batch from the same sampler."""

    @abstractmethod
    def random(self, name: str, draw: Draw) -> Tensor:
        """What `draw` gives from a generator keyed by (seed, name, step, number of the call in this step): equal on all
        workers and in all runs of one seed. Leading dimensions of simulated runs are added."""

    @abstractmethod
    def add_up(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Sums over workers, in one exchange of one flat tensor."""

    @abstractmethod
    def probe(self, count: int) -> Point:
        """`sample_gradients` of the first `count` training examples at the current point, equal on all workers."""

    @property
    @abstractmethod
    def noisy_layers(self) -> list[str]:
        """Names of layers whose outputs are random (dropout)."""

    @abstractmethod
    def warn(self, text: str) -> None:
        """Tell the user, once."""


class Estimate(NamedTuple):
    """Gradients in w and v, equal on all workers, and figures for the log (scalar tensors, named without `train/`)."""

    w: Tensor
    v: Tensor
    info: Mapping[str, Tensor] = {}


class GradientEstimator(Component, ABC):
    """How the gradients of a minimax problem are obtained: exact, clipped, from values alone, ...

    An estimator is given the problem and a point and returns flat gradients. Those of `max` players are gradients of f,
    too: the optimizer ascends.

    `uses_gradients` tells whether it asks for gradients at all; with `whole_batch` every worker is given the whole
    batch. `state` holds what it keeps between steps, tensors and numbers only: it is saved with the run.
    """

    uses_gradients: bool = True
    whole_batch: bool = False

    def prepare(self, problem: Problem) -> None:
        """Called once before the first step of a run that is not resumed."""

    @abstractmethod
    def estimate(self, problem: Problem, w: Tensor, v: Tensor, players: str = "wv") -> Estimate:
        """Estimates at (w, v); what is not in `players` may be left zero."""

    def state(self) -> dict[str, Any]:
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` gave."""

    def nested(self) -> Iterable[GradientEstimator]:
        """The estimators that this one stands on."""
        return ()
