"""What every kind of component promises.

A component is one class in one file: `components/<kind>/<type>.py`, marked with `@register`. Its constructor's
annotations and docstring declare its arguments; the constructor only stores them (a model builds its layers).
Constructor parameters named in `given` come from the framework and are no part of the recipe.

Batches are dicts of tensors whose first dimension counts examples: `x`, `y` and `id` (int64, the example's stable
position in its split) always mean the same; a data component may add more. Tabular roles use the names
`x`, `y`, `treatment`, `instrument`, `weights`, `groups`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from raycipe.framework.splits import Batch as Batch
from raycipe.framework.splits import MapSplit as MapSplit
from raycipe.framework.splits import Split as Split
from raycipe.framework.splits import StreamSplit as StreamSplit
from raycipe.framework.splits import TensorSplit as TensorSplit

if TYPE_CHECKING:
    from raycipe.framework.comm import Comm


class Component:
    """Anything that a recipe can name with `type:`. Raises ValueError, argument's name first, on bad arguments."""

    type_name: ClassVar[str] = ""
    given: ClassVar[tuple[str, ...]] = ()
    at_most_one: ClassVar[tuple[tuple[str, ...], ...]] = ()


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


class Optimizer(Component, torch.optim.Optimizer):
    """A `torch.optim.Optimizer` whose first constructor parameter, `params`, is given by the framework.

    Parameter groups may carry a `role` (`min` or `max`, for minimax tasks). It works alone, in three lines of plain
    PyTorch, too: `prepare` is only called by the training loop. An optimizer with `exchanges = True` gets local
    gradients and communicates in `step()`, called equally often on all ranks; see docs/guide/optimizers.md for the
    members that such an optimizer overrides.
    """

    given: ClassVar[tuple[str, ...]] = ("params",)
    exchanges: ClassVar[bool] = False
    local_weights: ClassVar[bool] = False
    schedule: Schedule | None = None
    synced_at: int | None = None

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


class Compressor(Component, ABC):
    """A tensor → the payload that is really sent → a tensor."""

    @abstractmethod
    def compress(self, tensor: Tensor, generator: torch.Generator) -> Tensor:
        """A contiguous uint8 payload of `payload_bytes(tensor.numel())` bytes."""

    @abstractmethod
    def decompress(self, payload: Tensor, like: Tensor) -> Tensor:
        """The tensor that a payload stands for, in the shape, dtype and device of `like`."""

    @abstractmethod
    def payload_bytes(self, numel: int) -> int:
        """Bytes sent for a tensor of `numel` entries: fixed by the size alone."""

    @abstractmethod
    def contraction(self, numel: int) -> float:
        """alpha in E|C(v) - v|^2 <= (1 - alpha) |v|^2; 1 for the identity."""


class Link(Component, ABC):
    """A network model: how long a message takes."""

    @abstractmethod
    def seconds(self, num_bytes: int, world_size: int) -> float:
        """Time for one exchange of `num_bytes` per worker among `world_size` workers."""


class GradientEstimator(Component, ABC):
    """How a gradient is obtained from loss evaluations: exact, clipped, zeroth-order, ..."""

    @abstractmethod
    def estimate(self, closure: Callable[[], Tensor], params: Sequence[Tensor], generator: torch.Generator) -> None:
        """Fill `.grad` of `params`; `closure` evaluates the loss (a scalar, with graph) on the current batch."""


# ---------------------------------------------------------------------------------------------- after training


@dataclass
class Measured:
    """What a measure, an editor or a study found. Keys of `values` are names without a group, e.g. `ece`.

    `figures` draw lazily: each returns a `matplotlib.figure.Figure`; `tables` are lists of rows with equal keys.
    """

    values: dict[str, float] = field(default_factory=dict)
    figures: dict[str, Callable[[], Any]] = field(default_factory=dict)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    text: dict[str, str] = field(default_factory=dict)


class Skipped(Exception):
    """Raised by a measure that can't say anything here; the run records the reason and goes on."""


@dataclass
class Trained:
    """A trained model (or estimator, or agent) and everything around it. What is missing is None or empty."""

    recipe: Mapping[str, Any]  # resolved
    splits: Mapping[str, Split] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    model: nn.Module | None = None  # consensus weights, eval mode
    initial_model: Callable[[], nn.Module] | None = None  # rebuilds the untrained model
    task: Task | None = None
    estimator: Any = None
    agent: Any = None
    checkpoints: Sequence[tuple[int, Callable[[], nn.Module]]] = ()  # (step, loads the model), oldest first
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    seed: int = 0
    cache: dict[Any, Any] = field(default_factory=dict)  # shared by the measures of one run
    fan_out: Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]] = map

    def generator(self, name: str) -> torch.Generator:
        """A fresh random stream for the use `name`, equal in every run with the same seed."""
        from raycipe.framework.streams import torch_generator

        return torch_generator(self.seed, name)

    def batches(self, split: str, batch_size: int = 1024) -> Iterator[Batch]:
        """The split in id order on `device`, with `id`; the last batch is short. Skipped if there is no such split."""
        from raycipe.framework.training.feed import in_order

        if split not in self.splits:
            raise Skipped(f"the data has no `{split}` split")
        return in_order(self.splits[split], batch_size, self.device)


class Measure(Component, ABC):
    """A trained model or a run, plus data → numbers, curves, a picture.

    `needs` names the fields of `Trained` that must be there; otherwise the measure is skipped with the reason.
    Values are reported as `measure/<type>/<name>`; `reports` lists the names (empty leaves them open).
    """

    needs: ClassVar[tuple[str, ...]] = ("model",)
    reports: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def measure(self, trained: Trained) -> Measured: ...


class Forget(Component, ABC):
    """A request to an editor: which training examples change, and how."""

    @abstractmethod
    def select(self, trained: Trained) -> Tensor:
        """Ids (int64, sorted, unique) of the training examples concerned."""


class Editor(Component, ABC):
    """A trained model (or a sample) and a request → the edited one and the evidence."""

    needs: ClassVar[tuple[str, ...]] = ("model", "task", "splits")

    @abstractmethod
    def edit(self, trained: Trained) -> tuple[nn.Module, Measured]:
        """The edited model (the given one stays as it is) and what was measured meanwhile."""


class InverseHVP(Component, ABC):
    """Solves H v = g for a curvature operator H given by its matrix-vector product."""

    @abstractmethod
    def solve(self, product: Callable[[Tensor], Tensor], g: Tensor) -> tuple[Tensor, dict[str, float]]:
        """(v, diagnostics such as `residual` and `products`); tensors are flat."""


class Subspace(Component, ABC):
    """Which parameters an editor may move."""

    @abstractmethod
    def select(self, trained: Trained) -> dict[str, Tensor]:
        """Parameter name → boolean mask in the parameter's shape."""


class Study(Component, ABC):
    """Many variations of one recipe → one finding. `run(change)` runs the recipe with dotted-path changes and returns
    its final metrics; runs fan out, are recorded as they end, and are skipped on resume."""

    @abstractmethod
    def changes(self, recipe: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The variations, each a map from dotted path to value; known before anything runs."""

    @abstractmethod
    def conclude(self, changes: Sequence[dict[str, Any]], results: Sequence[Mapping[str, Any]]) -> Measured: ...


# ---------------------------------------------------------------------------------------------- estimators


class Estimator(Component, ABC):
    """scikit-learn's contract: parameters only stored, `fit` returns self, fitted attributes end in `_`, clonable.

    A component also derives from `sklearn.base.BaseEstimator`, which supplies `get_params` and `set_params`.
    """

    @abstractmethod
    def fit(self, X: Any, y: Any = None, **roles: Any) -> Any:
        """`roles`: `treatment`, `instrument`, `weights`, `groups` where the data has them."""


class Estimand(Component, ABC):
    """The quantity that an estimator targets."""

    @abstractmethod
    def value(self, **nuisances: np.ndarray) -> np.ndarray:
        """The estimand at given nuisance values, one entry per example or one scalar."""


class CausalLoss(Component, ABC):
    """A loss of the target parameter given nuisances, differentiable in the parameter."""

    @abstractmethod
    def loss(
        self, theta: np.ndarray, roles: Mapping[str, np.ndarray], nuisances: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """One value per example."""


class Nuisance(Component, ABC):
    """A first-stage model, cross-fitted: an outcome regression or a propensity."""

    @abstractmethod
    def fit_predict(self, train: Mapping[str, np.ndarray], test: Mapping[str, np.ndarray]) -> np.ndarray:
        """Fit on `train`, return one prediction per example of `test`."""


class Prior(Component, ABC):
    """A density over parameters."""

    @abstractmethod
    def log_density(self, theta: Tensor) -> Tensor:
        """(..., d) → (...)."""


class Posterior(Component, ABC):
    """How a generalized posterior is computed from a log density."""

    @abstractmethod
    def sample(
        self, log_density: Callable[[Tensor], Tensor], start: Tensor, draws: int, generator: torch.Generator
    ) -> Tensor:
        """(draws, d)."""


class Calibration(Component, ABC):
    """Chooses the posterior's learning rate or corrects its spread."""

    @abstractmethod
    def calibrate(self, draws: Tensor, scores: Tensor, hessian: Tensor) -> Tensor:
        """Corrected draws (draws, d) from per-example scores (n, d) and the mean Hessian (d, d)."""


class WeakLearner(Component, ABC):
    """A learner that is fitted to weighted examples."""

    @abstractmethod
    def fit(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """A function X → labels in {-1, +1}."""


class Vote(Component, ABC):
    """Combines the predictions of many learners into one."""

    @abstractmethod
    def combine(self, predictions: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """(learners, examples) and (learners,) → (examples,)."""


# ---------------------------------------------------------------------------------------------- reinforcement learning


class Env(Component, ABC):
    """An environment, or a family of them with tasks."""

    @abstractmethod
    def make(self, task: Any = None) -> Any:
        """A fresh `gymnasium.Env`; picklable arguments only."""

    def tasks(self, count: int, generator: np.random.Generator) -> list[Any]:
        """Tasks of the family (meta-RL), drawn with `generator`; an ordinary environment has the one task None."""
        return [None] * count


class Agent(Component, ABC):
    """An RLlib `AlgorithmConfig` on the new API stack."""

    @abstractmethod
    def config(self, env_name: str, recipe: Mapping[str, Any]) -> Any:
        """The configuration for a registered environment, without resources (the launcher sets those)."""


KINDS: dict[str, type] = {
    "data": Data,
    "models": Model,
    "tasks": Task,
    "optimizers": Optimizer,
    "schedules": Schedule,
    "compressors": Compressor,
    "links": Link,
    "gradients": GradientEstimator,
    "measures": Measure,
    "editors": Editor,
    "forget": Forget,
    "ihvp": InverseHVP,
    "subspaces": Subspace,
    "studies": Study,
    "estimators": Estimator,
    "estimands": Estimand,
    "losses": CausalLoss,
    "nuisances": Nuisance,
    "priors": Prior,
    "posteriors": Posterior,
    "calibrations": Calibration,
    "weak_learners": WeakLearner,
    "votes": Vote,
    "envs": Env,
    "agents": Agent,
}
