"""Shared by the measures of curvature: the operator of a run's loss, the learning rate, an estimate's probes."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal

import torch
from torch import Tensor

from raycipe.framework.contracts import Skipped, Trained
from raycipe.framework.curvature import Curvature, probe
from raycipe.framework.splits import Batch, StreamSplit
from raycipe.framework.streams import torch_generator

BATCH = 1024  # examples of one graph: memory alone depends on it
DTYPES = {"float64": torch.float64, "float32": torch.float32}
Precision = Literal["float64", "float32"]
Matrix = Literal["hessian", "ggn"]


def curvature(
    trained: Trained,
    split: str = "train",
    examples: int | None = None,
    matrix: Matrix = "hessian",
    parameters: str = "*",
    precision: Precision = "float64",
) -> Curvature:
    """The operator of the task's loss over (some examples of) a split; made once a run for equal arguments."""
    key = ("curvature", split, examples, matrix, parameters, precision)
    if key not in trained.cache:
        batches = batches_of(trained, split, examples)
        trained.cache[key] = operator(trained, batches, matrix, parameters, precision)
    found: Curvature = trained.cache[key]
    return found


def operator(
    trained: Trained,
    batches: list[Batch],
    matrix: Matrix = "hessian",
    parameters: str = "*",
    precision: Precision = "float64",
) -> Curvature:
    """The operator of the task's loss over these batches. Raises Skipped if the pattern leaves no parameter."""
    assert trained.model is not None and trained.task is not None  # the measures' `needs` say so
    named = {name: p for name, p in trained.model.named_parameters() if p.requires_grad}
    chosen = {name: torch.ones_like(p, dtype=torch.bool) for name, p in named.items() if fnmatchcase(name, parameters)}
    if not chosen:
        raise Skipped(f"no trained parameter's name matches `{parameters}`; there are {', '.join(named)}")
    return Curvature(trained.model, trained.task.loss, batches, kind=matrix, masks=chosen, dtype=DTYPES[precision])


def batches_of(trained: Trained, split: str, examples: int | None) -> list[Batch]:
    """A split in batches, or that many of its examples, drawn once from the run's seed. Raises Skipped without it."""
    from raycipe.framework.training.feed import read_ids

    there = trained.splits.get(split)
    if there is None or examples is None or examples >= len(there):
        return list(trained.batches(split, BATCH))
    if isinstance(there, StreamSplit):
        raise Skipped("single examples of data that are streamed can't be drawn: leave `examples` out")
    ids = torch.randperm(len(there), generator=trained.generator("curvature"))[:examples].sort().values
    return [read_ids(there, part, trained.device) for part in torch.split(ids, BATCH)]


def rate(trained: Trained) -> float | None:
    """The learning rate at the weights' step; None if neither rows nor recipe tell it."""
    told = [row["train/lr"] for row in trained.rows if "train/lr" in row]
    if told:
        return float(told[-1])
    section = optimizer_of(trained)
    if section.get("schedule") is None and isinstance(section.get("lr"), (int, float)):
        return float(section["lr"])
    return None


def optimizer_of(trained: Trained) -> Mapping[str, Any]:
    """The recipe's optimizer, in its long form; empty without one."""
    section = trained.recipe.get("optimizer") or {}
    return {"type": section} if isinstance(section, str) else section


def start_of(found: Curvature, seed: int, name: str) -> Tensor:
    """A random direction for Lanczos, in the operator's dtype and place."""
    return probe(found.size, torch_generator(seed, name), "gaussian", found.dtype, found.device)
