"""Report, comparison, difference and reproduction, on run folders written by hand."""

from __future__ import annotations

import json
import math
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from raycipe.framework.errors import RunError
from raycipe.framework.files import finite
from raycipe.framework.results import compare, curves, diff, report, reproduce
from raycipe.framework.runs import Run, create

RECIPE = "recipe: 1\nname: toy\nabout: A <toy>.\nseed: 0\noptimizer:\n  type: sgd\n  lr: {lr}\n"


def toy(storage: Path, lr: float = 0.1, loss: float = 0.5, **changes: Any) -> Run:
    run = create(storage, "toy")
    for file in ("recipe.yaml", "resolved.yaml"):
        run.write(file, RECIPE.replace("{lr}", str(lr)))
    rows = [{"step": step, "epoch": 1.0, "train/loss": loss / step, "val/loss": 2 * loss / step} for step in (1, 2, 3)]
    run.write("metrics.jsonl", "".join(str(row).replace("'", '"') + "\n" for row in rows))
    (run.artifacts / "p.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (run.artifacts / "t.csv").write_text("a,b\n1,2\n")
    result = {
        "format": 1, "status": "done", "steps": 3, "seconds": 1.5, "attempts": 1, "final": {"test/accuracy": 0.9},
        "expect": [{"metric": "test/accuracy", "wanted": ">= 0.8", "value": 0.9, "verdict": "met", "margin": 0.1}],
        "artifacts": [
            {"path": "artifacts/p.svg", "kind": "plot", "title": "A picture"},
            {"path": "artifacts/t.csv", "kind": "table", "title": "A table"},
        ],
        "skipped": [{"component": "measures/x", "why": "no val split"}], "error": None,
    }  # fmt: skip
    run.write("result.json", result | changes)
    run.write("provenance.json", {"format": 1, "python": "3.11", "packages": {"torch": "2"}, "seed": 0})
    return run


class Loader(HTMLParser):
    """Addresses that a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {"img": "src", "script": "src", "link": "href", "iframe": "src"}
        self.fetched += [value or "" for name, value in attrs if name == names.get(tag)]


def test_the_report_is_one_file_with_verdicts_curves_and_artifacts(tmp_path: Path) -> None:
    page = report.write_report(toy(tmp_path)).read_text()
    loader = Loader()
    loader.feed(page)
    assert all(address.startswith("data:") for address in loader.fetched) and loader.fetched
    for part in ("test/<wbr>accuracy", "&gt;= 0.8", ">met<", "no val split", "A picture", "A &lt;toy&gt;.", "lr: 0.1"):
        assert part in page, part
    assert page.count("<svg") == 1  # one panel holds train/loss and val/loss


def test_the_report_of_a_failed_run_shows_the_error_and_the_logs_end(tmp_path: Path) -> None:
    error = {"type": "nonfinite", "message": "loss is NaN <b>", "step": 7, "where": None, "trial": None}
    run = toy(tmp_path, status="failed", error=error, final={}, expect=[])
    run.write("log.txt", "last words\n")
    page = report.render(run)
    assert "loss is NaN &lt;b&gt;" in page and "at step 7" in page and "last words" in page


@pytest.mark.parametrize(
    "path", ["../secret.txt", "/etc/hostname", "javascript:alert(1)", "artifacts/link.txt", None, 3]
)
def test_the_report_shows_nothing_from_outside_the_run_folder(tmp_path: Path, path: Any) -> None:
    run = toy(tmp_path, artifacts=[{"path": path, "kind": "text", "title": "stranger"}])
    (run.path.parent / "secret.txt").write_text("SECRET")
    (run.artifacts / "link.txt").symlink_to(run.path.parent / "secret.txt")
    (run.path / "recipe.yaml").unlink()
    (run.path / "recipe.yaml").symlink_to(run.path.parent / "secret.txt")
    page = report.render(run)
    assert "SECRET" not in page and "javascript" not in page and "no such file in the run folder" in page


def write_rows(run: Run, rows: list[dict[str, Any]]) -> None:
    run.write("metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def test_an_agents_report_begins_with_its_returns_and_folds_the_other_curves(tmp_path: Path) -> None:
    returns = {f"rl/eval_return{end}": 1.0 for end in ("", "_low", "_high", "_min", "_max")}
    run = toy(tmp_path, artifacts=[{"path": report.RETURNS, "kind": "plot", "title": "returns"}])
    (run.path / report.RETURNS).write_text("<svg></svg>")
    write_rows(run, [{"step": step, "train/loss": 1.0 / step, "train/lr": 0.1, **returns} for step in (1, 2)])
    found = report.curves_of(run)
    assert len(found.shown) == 1 and "95 % band" in found.shown[0] and len(found.folded) == 1
    assert found.constant == {"train/lr": 0.1}
    page = report.render(run)
    assert page.count("<svg") == 2 and "1 more curve:" in page and "<code>train/lr</code> 0.1." in page
    assert "artifacts/returns.svg" not in page


def test_a_studys_report_shows_figure_and_summary_first_and_folds_single_runs(tmp_path: Path) -> None:
    names = ("grid-runs.csv", "grid-runs.parquet", "grid-cells.csv", "grid-cells.parquet", "grid-cells.svg")
    items = [
        {"path": f"artifacts/{name}", "kind": "plot" if "svg" in name else "table", "title": name} for name in names
    ]
    run = toy(tmp_path, artifacts=items, final={"study/grid/1/runs": 2.0, "study/grid/1/high": 1.218})
    table = pd.DataFrame({"seed": [0, 1], "gone": [0.5, math.nan]})
    for name in names:
        if name.endswith("csv"):
            table.to_csv(run.artifacts / name, index=False)
        elif name.endswith("parquet"):
            table.to_parquet(run.artifacts / name)
        else:
            (run.artifacts / name).write_text("<svg></svg>")
    shown = report.artifacts_of(run, run.read("result.json"))
    assert [item["path"] for item in shown] == [
        f"artifacts/grid-{end}" for end in ("cells.svg", "cells.csv", "runs.csv")
    ]
    assert [item["folded"] for item in shown] == [False, False, True]
    assert shown[1]["others"] == ["artifacts/grid-cells.parquet"]
    page = report.render(run)
    assert "nan" not in page and page.index("Findings") < page.index("Final values")
    assert "stand on as few as 2 runs each" in page and "12.7 standard errors" in page


def test_a_killed_run_still_has_a_report(tmp_path: Path) -> None:
    assert ">killed<" in report.render(create(tmp_path, "toy"))


def test_repeated_steps_count_once_and_the_last_one_wins() -> None:
    rows = [{"step": 1, "a/b": 1.0}, {"step": 2, "a/b": 2.0}, {"step": 2, "a/b": 3.0}, {"step": 3, "a/b": "text"}]
    assert curves.series(rows) == {"a/b": [(1, 1.0), (2, 3.0)]}


def test_panels_join_the_splits_of_one_metric() -> None:
    names = ["val/loss", "train/loss", "test/accuracy", "comm/bytes"]
    assert curves.panels(names) == {
        "loss": ["train/loss", "val/loss"], "accuracy": ["test/accuracy"], "comm/bytes": ["comm/bytes"]
    }  # fmt: skip


def test_a_curve_with_nan_is_drawn() -> None:
    assert curves.draw("loss", {"train/loss": [(1, 1.0), (2, math.nan), (3, math.inf)]}).startswith("<svg")


def test_the_report_says_why_training_ended_and_where_the_best_is(tmp_path: Path) -> None:
    best = {"val/accuracy": {"value": 0.95, "step": 2}}
    kept = [{"step": 2, "path": "checkpoints/step-00000002", "best": True}]
    page = report.render(toy(tmp_path, stopped="early_stop", best=best, checkpoints=kept))
    assert "stopped early at step 3" in page
    assert "best val/accuracy 0.95 at step 2, checkpoints/step-00000002" in page


def test_many_points_are_smoothed_over_their_faint_curve() -> None:
    values = [float(index % 2) for index in range(400)]
    smooth = curves.smoothed([*values, math.nan])
    assert all(abs(value - 0.5) < 0.07 for value in smooth[10:390]) and math.isfinite(smooth[-1])


def test_compare_shows_only_differing_settings_and_all_finals(tmp_path: Path) -> None:
    runs = [toy(tmp_path, lr=0.1), toy(tmp_path, lr=0.2, final={"test/accuracy": 0.95})]
    found = compare.compare(runs)
    assert found.settings == {"optimizer.lr": ["0.1", "0.2"]}
    assert found.metrics == {"test/accuracy": [0.9, 0.95]}
    compare.write_page(found, tmp_path / "c.html")
    page = (tmp_path / "c.html").read_text()
    assert page.count("<svg") == 2 and 'class="best">0.95' in page


def test_compare_refuses_one_run(tmp_path: Path) -> None:
    run = toy(tmp_path)
    with pytest.raises(RunError, match="two different runs"):
        compare.compare([run, run])


@pytest.mark.parametrize(
    ("metric", "values", "best"),
    [
        ("test/accuracy", [0.1, 0.3, None], 1),
        ("val/loss", [0.1, 0.3], 0),
        ("val/loss", [math.nan, 0.3, 0.2], 2),
        ("val/loss", [0.3, 0.3], None),
        ("comm/bytes", [1, 2], None),
    ],
)
def test_the_best_run_is_marked_where_the_good_direction_is_known(metric: str, values: list[Any], best: Any) -> None:
    assert compare.leading(metric, values) == best


def test_differences_are_by_meaning() -> None:
    left = {"a": {"type": "x", "p": 1}, "b": [1, {"c": 2}], "d": 1}
    right = {"a": {"type": "y", "q": 1}, "b": [1, {"c": 3}], "d": 1.0, "e": True}
    found = {item.path: (diff.shown(item.left), diff.shown(item.right)) for item in diff.differences(left, right)}
    assert found == {
        "a": ('{"type": "x", "p": 1}', '{"type": "y", "q": 1}'), "b.1.c": ("2", "3"), "e": ("(not set)", "true"),
    }  # fmt: skip


def test_true_and_one_differ() -> None:
    assert [item.path for item in diff.differences({"a": True}, {"a": 1})] == ["a"]


def test_equal_runs_reproduce_bitwise_and_others_say_what_differs(tmp_path: Path) -> None:
    first, second = toy(tmp_path), toy(tmp_path)
    assert reproduce.compare_runs(first, second).same == "bitwise"
    close = toy(tmp_path, final={"test/accuracy": 0.9 * (1 + 1e-7)})
    assert reproduce.compare_runs(first, close).same == "within tolerance"
    far = toy(tmp_path, loss=0.6)
    far.write("provenance.json", {"format": 1, "python": "3.12", "packages": {"torch": "2"}})
    verdict = reproduce.compare_runs(first, far)
    assert verdict.same == "different" and verdict.mismatches[0][:2] == ("train/loss", 1)
    assert verdict.versions == {"python": ("3.11", "3.12")}


def test_a_missing_metric_is_no_reproduction_and_nan_equals_nan(tmp_path: Path) -> None:
    first = toy(tmp_path, final=finite({"test/a": math.nan}))
    assert reproduce.compare_runs(first, toy(tmp_path, final=finite({"test/a": math.nan}))).same == "bitwise"
    verdict = reproduce.compare_runs(first, toy(tmp_path, final={}))
    assert verdict.same == "different" and verdict.missing == ["test/a"]


def test_times_do_not_count(tmp_path: Path) -> None:
    first, second = (toy(tmp_path, final={"time/total": value, "test/a": 1.0}) for value in (1.0, 9.0))
    assert reproduce.compare_runs(first, second).same == "bitwise"
