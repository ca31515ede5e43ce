"""The page of a sweep: what it draws, and what it says where it draws nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from raycipe.framework.results.coordinates import BROAD, MOST_UPRIGHT, NARROW, Axis, coordinates
from raycipe.framework.results.sweep_page import render
from raycipe.framework.results.trials import Trial, read_trials
from raycipe.framework.runs import Run, create

LOSS = {"val/loss": "min"}
BOTH = {"val/loss": "min", "val/f1": "max"}


def trials(count: int, paths: int) -> list[Trial]:
    found = []
    for number in range(count):
        changes = {f"optimizer.argument_number_{n}": number * (n + 1.0) for n in range(paths)}
        values = {"val/loss": 1.0 + number, "val/f1": float(number % 2)}
        found.append(Trial(Run(Path(f"{number:04d}")), "done", changes, values, values, {}))
    return found


def right_ends(svg: str) -> list[float]:
    return [float(x) for x in re.findall(r'<text x="([0-9.]+)"', svg)] + [
        float(x) for x in re.findall(r'x2="([0-9.]+)"', svg)
    ]


@pytest.mark.parametrize("paths", [1, 3, 8, MOST_UPRIGHT + 5])
def test_parallel_coordinates_fit_and_end_with_the_outcome(paths: int) -> None:
    given = trials(4, paths)
    found = coordinates(given, list(given[0].settings), LOSS)
    for svg, most in ((found.broad, BROAD), (found.narrow, NARROW)):
        (width,) = map(int, re.findall(r'viewBox="0 0 (\d+) ', svg))
        assert width <= most and max(right_ends(svg)) <= width and f"max-width:{width}px" in svg
        assert svg.count("<path") == 4 and svg.count('class="axis"') == paths + 1
        assert re.findall(r'class="axis">([^<]+)', svg)[-1] == "val/loss (min)"


def test_values_that_do_not_vary_are_told_instead_of_drawn() -> None:
    given = [trial._replace(changes={**trial.changes, "model": {"type": "mlp"}}) for trial in trials(3, 1)]
    found = coordinates(given, ["optimizer.argument_number_0", "model"], LOSS)
    assert found.same == {"model": "mlp"} and ">model<" not in found.broad


def test_each_objective_has_an_axis_and_the_front_is_red() -> None:
    found = coordinates(trials(4, 2), list(trials(1, 2)[0].settings), BOTH)
    assert re.findall(r'class="axis">([^<]+)', found.broad)[-2:] == ["val/loss (min)", "val/f1 (max)"]
    red = re.findall(r'stroke="#dc2626"[^>]*><title>trial (\d+)', found.broad)
    assert sorted(red) == ["0000", "0001"]  # the least loss, and the least of those with f1 1


def test_an_axis_places_numbers_words_and_what_is_missing() -> None:
    assert [Axis([1, 10, 100]).place(value) for value in (1, 10, 100, None)] == pytest.approx([0, 0.5, 1, None])
    assert Axis(["b", "a", None]).ticks() == [(0.0, "a"), (1.0, "b")]
    assert len(Axis([f"word {n:02d}" for n in range(50)]).ticks()) <= 12


def sweep(tmp_path: Path, goals: dict[str, str], points: list[int]) -> Run:
    """A finished sweep with a trial for each number of reported points."""
    run = create(tmp_path, "toy")
    told: dict[str, Any] = {"objectives": goals, "search": "random", "scheduler": "asha"}
    run.write("resolved.yaml", json.dumps({"recipe": 1, "name": "toy", "sweep": told}))
    run.write("provenance.json", {"format": 1})
    for number, count in enumerate(points):
        folder = run.path / "trials" / f"{number:04d}"
        folder.mkdir(parents=True)
        trial = Run(folder)
        trial.write("provenance.json", {"format": 1, "changes": {"optimizer.lr": 0.1 * (number + 1)}})
        final = {"val/loss": 1.0 + number, "val/f1": 0.5}
        stopped = "asha" if count == 1 else None
        trial.write("result.json", {"format": 1, "status": "done", "stopped": stopped, "final": final})
        rows = [{"step": step, "val/loss": 2.0 - step / 10, "val/f1": 0.5} for step in range(count)]
        trial.write("metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return run


def test_what_is_not_drawn_is_explained(tmp_path: Path) -> None:
    page = render(sweep(tmp_path, LOSS, [5, 3, 1, 1]))
    assert "It takes 8 trials that ended with a value to say anything; 4 of 4 did." in page
    assert "2 trials reported it once, a point each; the scheduler stopped 2 of them then." in page
    assert "<b>val/loss 1</b> (min) in" in page


def test_the_table_has_the_values_first_in_the_order_of_the_space(tmp_path: Path) -> None:
    from raycipe.launchers.tune_end import write_table

    run = sweep(tmp_path, LOSS, [2, 2])
    told = run.resolved()
    told["sweep"]["space"] = {"optimizer.type": {}, "optimizer.lr": {}, "model": {}}
    run.write("resolved.yaml", json.dumps(told))
    changes: list[Any] = [
        {"model": {"type": "linear"}, "optimizer.lr": 0.1},
        {"model": {"type": "mlp", "hidden": [8]}, "optimizer.lr": 0.2, "optimizer.type": "sgd"},
    ]
    for folder, change in zip(sorted((run.path / "trials").iterdir()), changes, strict=True):
        Run(folder).write("provenance.json", {"format": 1, "changes": change})
    write_table(run, read_trials(run, told["sweep"]), ["val/loss"])
    head, first, _ = (run.path / "trials.csv").read_text().splitlines()
    assert head == "trial,status,optimizer,optimizer.lr,model,model.hidden,val/loss,val/f1,steps,seconds"
    assert first == "0000,done,,0.1,linear,,1.0,0.5,,"


def test_a_page_of_several_objectives_names_its_front_and_draws_each_curve(tmp_path: Path) -> None:
    page = " ".join(render(sweep(tmp_path, BOTH, [4] * 3)).split())
    assert "No other trial beats this one in every objective:" in page
    assert "<b>val/loss 1</b> (min), <b>val/f1 0.5</b> (max): <code>optimizer.lr=0.1</code>" in page
    assert "Learning curves of val/loss" in page and "Learning curves of val/f1" in page
    assert page.count("It takes 8 trials") == 1
