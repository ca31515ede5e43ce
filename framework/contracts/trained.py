"""Measures, editors and studies: what looks at, changes or repeats what was trained."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from raycipe.framework.contracts.component import Component
from raycipe.framework.contracts.reinforcement import Env, Policy
from raycipe.framework.contracts.training import Task
from raycipe.framework.splits import Batch, Split


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
    agent: Policy | None = None
    env: Env | None = None
    checkpoints: Sequence[tuple[int, Callable[[], nn.Module]]] = ()  # (step, loads the model), oldest first
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    seed: int = 0
    step: int | None = None  # of the weights
    rows: Sequence[Mapping[str, Any]] = ()  # of metrics.jsonl up to this step, in their order
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
    Values are reported as `measure/<type>/<name>`; `reports` lists the names (empty leaves them open). One that is too
    costly to be taken in the middle of training as well (`train.measure_every`), or says nothing there, has
    `in_training` False.
    """

    needs: ClassVar[tuple[str, ...]] = ("model",)
    in_training: ClassVar[bool] = True
    reports: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def measure(self, trained: Trained) -> Measured: ...


class Forget(Component, ABC):
    """A request: which training examples are to be removed, weighed or labelled anew."""

    @abstractmethod
    def select(self, splits: Mapping[str, Split], seed: int) -> Tensor:
        """Ids (int64, ascending, unique) of the examples of `train` concerned. Raises RunError (`data`) if none are."""

    def related(self, split: Split) -> Tensor | None:
        """Ids of the examples of another split that the request means as well (its class); None if it means none."""
        return None


class Editor(Component, ABC):
    """A trained model (or a sample) and a request → the edited one and the evidence.

    The values of the evidence are reported as `edit/<name>`, beside the task's figures before and after the edit
    (`edit/before/test/accuracy`). The edited weights are saved as the checkpoint `edited`, and measures see them.
    """

    needs: ClassVar[tuple[str, ...]] = ("model", "task", "splits")
    reports: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def edit(self, trained: Trained) -> tuple[nn.Module, Measured]:
        """The edited model (the given one stays as it is) and what was measured meanwhile."""


class Variation(NamedTuple):
    """One run of a study: the recipe with `changes` (dotted path -> plain value, as `framework.variation.vary` takes).

    `name` names its run folder; `labels` tell it from the others, and are columns of the study's table.
    """

    name: str
    changes: Mapping[str, Any]
    labels: Mapping[str, Any]


@dataclass(frozen=True)
class Ended:
    """A variation that has ended: what its run folder says.

    Most studies look at `final` alone. Some need more of a run, and so get its folder: `rows` for curves over training,
    `checkpoints` for weights to compare (two runs on neighbouring data, a retrained model), `artifacts` for tables that
    an estimator or a measure wrote (posterior draws, intervals).
    """

    variation: Variation
    folder: Path
    result: Mapping[str, Any]  # result.json

    @property
    def is_done(self) -> bool:
        return self.result.get("status") == "done"

    @property
    def final(self) -> dict[str, float]:
        """The final metrics; empty for a run that failed."""
        from raycipe.framework.runs import final_values

        return final_values(dict(self.result)) if self.is_done else {}

    def rows(self) -> list[dict[str, Any]]:
        """The rows of metrics in their order."""
        from raycipe.framework.files import read_rows

        return list(read_rows(self.folder / "metrics.jsonl"))

    def checkpoints(self) -> list[tuple[int, Path]]:
        """(step, folder with `model.safetensors`), oldest first."""
        there = self.result.get("checkpoints") or []
        return [(int(entry["step"]), self.folder / entry["path"]) for entry in there]

    def artifact(self, name: str) -> Path:
        return self.folder / "artifacts" / name


class Study(Component, ABC):
    """Many variations of one recipe → one finding. The recipe itself is not run: its variations are.

    They are known before anything runs, so that each is checked first; they run in any order and at the same time, are
    recorded as they end, and are skipped on resume. A variation that fails is told and left out: `conclude` gets it
    with `is_done` False. Values are reported as `study/<type>/<name>`; `reports` lists the last words of the names
    (empty leaves them open), e.g. `mean` of `study/repeat/sgd/mean`.

    An argument annotated `Variations` holds dotted paths and the values to put there, and is checked with the recipe;
    one named `metric` is a metric that the recipe must be able to report.
    """

    reports: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def variations(self, recipe: Mapping[str, Any]) -> list[Variation]:
        """The runs of the resolved recipe, each with a name of its own. Raises ValueError, argument's name first."""

    @abstractmethod
    def conclude(self, recipe: Mapping[str, Any], runs: Sequence[Ended]) -> Measured:
        """The finding, from all runs in the order of `variations`. Figures and tables become files of the run."""
