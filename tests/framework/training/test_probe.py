"""A model that does not fit its task is told before training."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from raycipe.framework.errors import RunError
from raycipe.framework.registry import build
from raycipe.framework.training.probe import probe
from raycipe.framework.training.state import capture_rng

FACTS = {"num_classes": 10, "num_outputs": 10, "vocab_size": 50}
X = torch.zeros(8, 4)
TOKENS = torch.zeros(8, 6, dtype=torch.int64)
CLASSES = {"x": X, "y": torch.zeros(8, dtype=torch.int64), "id": torch.arange(8)}
TARGETS = {"x": X, "y": torch.zeros(8, 2), "id": torch.arange(8)}
WORDS = {"x": TOKENS, "y": TOKENS, "id": torch.arange(8)}
FOR_X = "for x of (8, 4) float32; tasks/X needs (8, 10) floating: one logit a class"
TARGET = "(8, 2) floating: one number a target dimension"
LOGITS = "(8, 6, 50) floating: a logit for each token of the vocabulary"


class Gives(nn.Module):
    def __init__(self, outputs: Any) -> None:
        super().__init__()
        self.outputs = outputs

    def forward(self, x: torch.Tensor) -> Any:
        return self.outputs(x) if callable(self.outputs) else self.outputs


def look(task: str, batch: dict[str, torch.Tensor], outputs: Any) -> None:
    probe(Gives(outputs), build(task, "tasks", facts=FACTS), batch, nullcontext)


@pytest.mark.parametrize(
    ("task", "batch", "outputs", "words"),
    [
        ("classification", CLASSES, torch.zeros(8, 3), f"(8, 3) float32 {FOR_X}"),
        ("classification", CLASSES, torch.zeros(1, 10), f"(1, 10) float32 {FOR_X}"),
        ("classification", CLASSES, TOKENS[:, 0], f"(8,) int64 {FOR_X}"),
        ("classification", CLASSES, None, f"None {FOR_X}"),
        ("classification", CLASSES, (X, X), f"a tuple {FOR_X}"),
        ("regression", TARGETS, torch.zeros(8, 1), TARGET),
        ("regression", TARGETS, torch.zeros(16), TARGET),
        ("language_modeling", WORDS, torch.zeros(8, 50), LOGITS),
    ],
)
def test_outputs_that_do_not_fit_are_told_with_both_shapes(task: str, batch: Any, outputs: Any, words: str) -> None:
    with pytest.raises(RunError) as caught:
        look(task, batch, outputs)
    text = str(caught.value)
    assert text.startswith("models/Gives gives ") and text.endswith(words.replace("tasks/X", f"tasks/{task}"))
    assert caught.value.where == "model"


@pytest.mark.parametrize(
    ("task", "batch", "shape"),
    [
        ("classification", CLASSES, (8, 10)),
        ("regression", TARGETS, (8, 2)),
        ("regression", {**TARGETS, "y": torch.zeros(8)}, (8, 1)),
        ("regression", {**TARGETS, "y": torch.zeros(8)}, (8,)),
        ("language_modeling", WORDS, (8, 6, 50)),
    ],
)
def test_outputs_that_fit_pass(task: str, batch: Any, shape: tuple[int, ...]) -> None:
    look(task, batch, torch.zeros(shape))
    look(task, batch, torch.zeros(shape, dtype=torch.bfloat16).float())


def test_an_error_inside_the_model_names_it_and_what_it_was_given() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied") as caught:
        look("classification", CLASSES, nn.Linear(5, 10))
    assert caught.value.__notes__ == [
        "models/Gives was given x of (8, 4) float32, y of (8,) int64, for tasks/classification"
    ]


def test_a_look_leaves_no_trace() -> None:
    model = nn.Sequential(nn.Linear(4, 10), nn.BatchNorm1d(10), nn.Dropout(0.5))
    before, rng = {name: value.clone() for name, value in model.state_dict().items()}, capture_rng()
    probe(model, build("classification", "tasks", facts=FACTS), CLASSES, nullcontext)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(rng["torch"], capture_rng()["torch"])
    assert model.training and all(parameter.grad is None for parameter in model.parameters())
    assert not model._forward_hooks


def test_a_run_whose_model_does_not_fit_does_not_start(toy: Any, fit: Any, run_dir: Path) -> None:
    with pytest.raises(RunError, match=r"models/net gives \(8, 5\) .*; tasks/classification needs \(8, 3\)"):
        fit(toy(model={"type": "net", "outputs": 5}), run_dir)
    assert not (run_dir / "metrics.jsonl").exists()
