"""A component inside the recipe of its docstring."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from raycipe.framework import catalogue, declaration
from raycipe.framework.check import check
from raycipe.framework.contracts import Batch, Component, Data, Model, Optimizer, Saddle, Split, Task
from raycipe.framework.recipe import load
from raycipe.framework.registry import build, get

SEED = 0
BATCH = 16
SECTIONS = {  # section -> kind
    "data": "data",
    "model": "models",
    "task": "tasks",
    "optimizer": "optimizers",
    "measures": "measures",
    "estimator": "estimators",
    "editor": "editors",
    "study": "studies",
    "env": "envs",
    "agent": "agents",
}


@dataclass
class Example:
    """A component inside the recipe of its docstring, and all that this recipe builds, made at first use."""

    kind: str
    type_: str
    folder: Path

    @property
    def cls(self) -> type[Component]:
        return get(self.kind, self.type_)

    @cached_property
    def text(self) -> str:
        return declaration.block(self.cls, "Recipe:")

    def recipe_with(self, *overrides: str) -> Any:
        """The checked recipe, with overrides. Raises RecipeError."""
        path = self.folder / f"{self.kind}-{self.type_}.yaml"
        path.write_text(f"recipe: 1\nname: example\n{self.text}\n", encoding="utf-8")
        return check(load(str(path), list(overrides)), catalogue.load())

    @cached_property
    def recipe(self) -> Mapping[str, Any]:
        """The resolved recipe, defaults included."""
        plain: Mapping[str, Any] = self.recipe_with().plain
        return plain

    @cached_property
    def path(self) -> str:
        """Where the component stands in its recipe, as in `optimizer.schedule`."""
        found = next(_places(self.recipe, self.kind, self.type_), None)
        assert found is not None, f"the recipe in the docstring of {self.kind}/{self.type_} does not use it"
        return found

    @property
    def plain(self) -> Any:
        """The component's own part of the recipe."""
        value: Any = self.recipe
        for word in self.path.split("."):
            value = value[int(word)] if isinstance(value, list) else value[word]
        return value

    def make(self) -> Any:
        """The component itself (not for optimizers, which need parameters)."""
        return build(self.plain, self.kind, self.path, facts=self.facts if self.kind != "data" else {})

    @cached_property
    def data(self) -> Data:
        data: Data = build(self.recipe["data"], "data", "data")
        self._splits = data.load(SEED)
        return data

    @property
    def splits(self) -> dict[str, Split]:
        assert self.data  # loads them
        return self._splits

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.data.facts if "data" in self.recipe else {}

    def batch(self, split: str = "train", size: int = BATCH) -> Batch:
        from raycipe.framework.training.feed import in_order

        return next(in_order(self.splits[split], size, torch.device("cpu")))

    def model(self, seed: int = SEED) -> Model:
        torch.manual_seed(seed)
        model: Model = build(self.recipe["model"], "models", "model", facts=self.facts)
        return model

    def task(self) -> Task:
        task: Task = build(self.recipe["task"], "tasks", "task", facts=self.facts)
        return task

    def trained_model(self, seed: int = SEED) -> torch.nn.Module:
        """The model with the task's own variables."""
        return self.task().trained(self.model(seed), self.splits)

    def optimizer(self, model: torch.nn.Module, **changes: Any) -> Optimizer:
        recipe = {**self.recipe["optimizer"], **changes}
        parameters: list[Any] = [p for p in model.parameters() if p.requires_grad]
        given = {"params": model.groups() if isinstance(model, Saddle) else parameters}
        optimizer: Optimizer = build(recipe, "optimizers", "optimizer", given, self.facts)
        return optimizer


def _places(value: Any, kind: str, type_: str, path: str = "") -> Iterator[str]:
    """Paths at which a component stands: sections first, then nested arguments."""
    if path.split(".")[0] in SECTIONS and isinstance(value, dict) and value.get("type") == type_:
        is_section = re.fullmatch(r"\w+(\.\d+)?", path) is not None
        if (SECTIONS[path.split(".")[0]] == kind) == is_section:
            yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from _places(child, kind, type_, f"{path}.{key}" if path else str(key))


def cast(batch: Batch, dtype: torch.dtype) -> Batch:
    """The batch with its floating-point entries in `dtype`."""
    return {key: values.to(dtype) if values.is_floating_point() else values for key, values in batch.items()}
