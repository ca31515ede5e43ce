"""Many runs as rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from raycipe.framework.results.compare import Comparison, compare
from raycipe.framework.results.turned import WIDEST, cut, main_metrics, short_metrics, short_names, turn
from raycipe.framework.runs import Run, create

RECIPE = """recipe: 1
name: toy
optimizer: {type: TYPE, lr: LR, momentum: MOMENTUM}
model: {type: mlp, hidden: HIDDEN}
"""


def toy(storage: Path, number: int) -> Run:
    run = create(storage, "toy")
    values = {
        "TYPE": ("sgd", "adam")[number % 2],
        "LR": f"{0.001 * (number + 1):g}",
        "MOMENTUM": f"0.{number}",
        "HIDDEN": str([64] * (1 + number)),
    }
    text = RECIPE
    for word, value in values.items():
        text = text.replace(word, value)
    run.write("resolved.yaml", text)
    final = {f"measure/confusion_matrix/recall_{digit}": number / 100 for digit in range(8)}
    final |= {"train/loss": 1.0 / (number + 1), "measure/parameter_count/total": 100, "test/loss": 2.0}
    final |= {"test/accuracy": 0.5 + number / 100, "val/accuracy": 0.4 + number / 100}
    result = {
        "format": 1,
        "status": "done",
        "final": final,
        "expect": [{"metric": "max(val/accuracy)", "wanted": ">= 0.1", "value": 0.4, "verdict": "met", "margin": 0.3}],
    }
    run.write("result.json", result)
    return run


@pytest.fixture
def thirty(tmp_path: Path) -> Comparison:
    return compare([toy(tmp_path, number) for number in range(30)])


def test_judged_metrics_come_first_and_equal_ones_not_at_all(thirty: Comparison) -> None:
    names = main_metrics(thirty)
    assert names[:2] == ["val/accuracy", "test/accuracy"] and names[-1] == "train/loss"
    assert "test/loss" not in names and "measure/parameter_count/total" not in names


@pytest.mark.parametrize("room", [80, 120])
def test_the_rows_fit_and_hold_settings_and_main_metrics(thirty: Comparison, room: int) -> None:
    columns, left_out = turn(thirty, room)
    assert sum(column.width for column in columns) + 2 * (len(columns) - 1) <= room
    titles = [column.title for column in columns]
    assert titles[0] == "run" and {"lr", "momentum", "optimizer.type"} < set(titles)
    assert {"val/accuracy", "test/accuracy"} <= set(titles)
    assert all(len(column.cells) == 30 for column in columns)
    assert columns[titles.index("test/accuracy")].best == 29
    assert len(columns) - 1 + len(left_out) == len(thirty.settings) + len(main_metrics(thirty))


def test_a_wider_terminal_shows_more(thirty: Comparison) -> None:
    assert len(turn(thirty, 120).columns) > len(turn(thirty, 80).columns)
    assert not turn(thirty, 1000).left_out


def test_short_names_tell_paths_apart() -> None:
    assert short_names(["optimizer.lr", "optimizer.type", "model.type", "measures.0.k", "agent.lr", "a.lr.b"]) == {
        "optimizer.lr": "optimizer.lr",
        "optimizer.type": "optimizer.type",
        "model.type": "model.type",
        "measures.0.k": "k",
        "agent.lr": "agent.lr",
        "a.lr.b": "b",
    }
    assert short_names(["optimizer.lr", "seed"]) == {"optimizer.lr": "lr", "seed": "seed"}


def test_a_measures_number_is_told_by_its_last_word_where_it_is_alone() -> None:
    names = ["val/loss", "measure/a/ece", "measure/a/total", "measure/b/total"]
    assert short_metrics(names) == dict(zip(names, ["val/loss", "ece", *names[2:]], strict=True))


def test_long_cells_are_cut() -> None:
    assert cut("x" * WIDEST) == "x" * WIDEST
    assert cut("x" * 100) == "x" * (WIDEST - 1) + "…"
