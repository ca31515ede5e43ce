"""Data, models, tasks, optimizers and what serves them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from raycipe.framework.contracts.component import Component
from raycipe.framework.eager import make_eager
from raycipe.framework.splits import Batch, Split

if TYPE_CHECKING:
    from raycipe.framework.comm import Comm
    from raycipe.framework.contracts.saddle import Problem

# ---------------------------------------------------------------------------------------------- data


class Data(Component, ABC):
    """Named splits of examples, and facts about them.

    `load` reads or makes everything, the same on every process, and returns at least `train`; `val` and `test` where
    they exist. It also sets `facts`, which fill the `FromData` arguments of others: `input_shape` (list of int,
    one example's), `num_features` (their product), `num_outputs` (classes or target dimensions), `num_classes`
    (classification only), `class_names`, `vocab_size`, `context_length`. `missing` may tell why a
    fact is absent and what to do about it (a dict by fact), `note` what the plan says of the data beside its sizes.
    Raises `RunError("data", ...)` for a missing, empty or malformed source, naming file and line or row.
    """

    facts: dict[str, Any]

    @abstractmethod
    def load(self, seed: int) -> dict[str, Split]:
        """Read or generate the splits; what is random derives from `seed` alone."""

    @property
    def table_columns(self) -> list[str]:
        """The columns that `features_of` reads, known after `load`; none where no table can be read."""
        return []

    def features_of(self, table: Any) -> Tensor:
        """`x` of further rows, a pyarrow table with `table_columns`, made as those of the splits: for predictions.

        Only asked where `table_columns` names some.
        """
        raise NotImplementedError(f"data/{self.type_name} names table_columns, so it must have features_of")


# ---------------------------------------------------------------------------------------------- models and tasks


class Model(Component, nn.Module):
    """An `nn.Module` that maps `x` (first dimension: examples) to outputs. The constructor builds the layers,
    draws initial weights from torch's global generator, and works on the meta device."""

    def shards(self) -> list[nn.Module]:
        """The blocks that FSDP shards one by one (the root comes after them)."""
        return [child for child in self.children() if any(True for _ in child.parameters())]


@dataclass
class Loss:
    """What a task computes from one batch: `value` is the mean over `weight` units (default: examples)."""

    value: Tensor  # scalar, with graph
    outputs: Any  # the model's outputs, for scores and metrics
    weight: Tensor | None = None  # scalar float: number of units, if not the number of examples


class Task(Component, ABC):
    """How a model is trained and scored.

    Metric names come without their group: `loss`, `accuracy`; the loop reports them as `train/loss`, `val/accuracy`.
    `reports` names them all, so that a recipe's `expect` can be checked before it runs; empty leaves them open.
    """

    reports: ClassVar[tuple[str, ...]] = ()
    saddle: ClassVar[bool] = False  # a minimax task, see `SaddleTask`

    def trained(self, model: nn.Module, splits: Mapping[str, Split]) -> nn.Module:
        """What is trained: the model, or the model with variables of the task's own."""
        return model

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """One forward pass and the loss, a mean over units."""

    def scores(self, outputs: Any, batch: Batch) -> dict[str, Tensor]:
        """Additive scores: sums over units (float64 or int64 scalars); sum / weight is the metric. Detached."""
        return {}

    def metrics(self) -> dict[str, Any]:
        """Metrics that do not add up: fresh `torchmetrics.Metric`s with `sync_on_compute=False`, for evaluation."""
        return {}

    def update(self, metrics: Mapping[str, Any], outputs: Any, batch: Batch) -> None:
        """Feed one batch to the metrics of `metrics()`."""

    def finish(self, values: dict[str, float]) -> dict[str, float]:
        """Final numbers from the means (`loss` and the scores): may add e.g. `perplexity`, `rmse`."""
        return values

    def reported(self) -> tuple[str, ...] | None:
        """The names out of `reports` that this instance reports; None leaves them open."""
        return self.reports or None

    def check_outputs(self, outputs: Any, batch: Batch) -> str | None:
        """What the model should have given, e.g. "(8, 10) floating: one logit a class", if `outputs` do not fit.

        Asked once, before training, with a few examples.
        """
        return None

    def check(self, facts: Mapping[str, Any], splits: Mapping[str, Split]) -> None:
        """Raise `RunError("data", ...)` if the data does not fit: wrong dtype, labels out of range (which example)."""


# ---------------------------------------------------------------------------------------------- optimizers


class Schedule(Component, ABC):
    """A learning-rate schedule as a function of the step: the rate is the group's base rate times `factor`."""

    @abstractmethod
    def factor(self, step: int, total_steps: int) -> float:
        """Multiplier at `step` (0-based, of `total_steps`); a pure function, so that a resumed run agrees."""


@dataclass
class OptimizerRun:
    """What an optimizer is given beside its parameters."""

    total_steps: int
    comm: Comm
    seed: int  # for its own random streams: (seed, "compress", rank, step)
    evaluate: Callable[[], Tensor]  # zero_grad, loss on the same batch again, backward; returns the loss
    problem: Problem | None = None  # of a minimax task
    examples: Callable[[], int] = lambda: 1  # how many examples this worker had in the current step


class Optimizer(Component, torch.optim.Optimizer):
    """A `torch.optim.Optimizer` whose first constructor parameter, `params`, is given by the framework.

    Parameter groups may carry a `role` (`min` or `max`, for minimax tasks; see `Problem`). It works alone, in three
    lines of plain PyTorch, too: `prepare` is only called by the training loop. An optimizer with `exchanges = True`
    gets local gradients and communicates in `step()`, called equally often on all ranks; see docs/guide/optimizers.md
    for the members that such an optimizer overrides.
    """

    given: ClassVar[tuple[str, ...]] = ("params",)
    exchanges: ClassVar[bool] = False
    saddle: ClassVar[bool] = False  # for minimax tasks, and for them alone
    uses_gradients: bool = True  # False: the loop computes losses only, and the optimizer asks for what it needs
    whole_batch: bool = False  # True: every worker is given the whole batch, not its share
    local_weights: ClassVar[bool] = False
    schedule: Schedule | None = None
    synced_at: int | None = None

    def __init_subclass__(cls, **words: Any) -> None:
        super().__init_subclass__(**words)
        make_eager(cls)

    def prepare(self, run: OptimizerRun) -> None:
        """Called once, after construction and before any state is loaded."""

    def consensus(self) -> Any:
        """A context in which the parameters are the common weights; restores private weights bit for bit on exit."""
        from contextlib import nullcontext

        return nullcontext()

    def finish(self) -> None:
        """End of training: a last exchange of a started round; then the parameters are the consensus."""

    def rank_state_dict(self) -> dict[str, Any]:
        """The part of the state that belongs to this rank (error buffers, local weights, counters)."""
        return {}

    def load_rank_state(self, mine: dict[str, Any] | None, all_ranks: list[dict[str, Any]]) -> None:
        """`mine` where the number of workers is unchanged, else None and every saved rank's part."""

    def stats(self) -> dict[str, Tensor | float]:
        """Detached numbers for the log (`comm/bytes`, buffer norms); read at log events only."""
        return {}
