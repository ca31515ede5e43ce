"""What a launch prints, on a terminal and into a pipe."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from raycipe.launchers import display
from raycipe.launchers.display import Display, bar_line, clock, plain_line

ROW = {"step": 50, "total_steps": 200, "epoch": 2.5, "examples_per_s": 12345.6, "eta_s": 75.0, "train/loss": 0.25}
RESULT = {
    "final": {"test/accuracy": 0.9},
    "skipped": [{"component": "measures/x", "why": "no val split"}],
    "expect": [
        {"metric": "test/accuracy", "wanted": ">= 0.95", "value": 0.9, "verdict": "unmet"},
        {"metric": "test/acc", "wanted": "> 0 [x]", "value": None, "verdict": "missing", "hint": "try test/accuracy"},
    ],
}  # fmt: skip


def shown(width: int = 100, terminal: bool = False, quiet: bool = False) -> tuple[Display, io.StringIO]:
    made, text = Display(quiet), io.StringIO()
    made.console = Console(file=text, width=width, force_terminal=terminal, highlight=False, soft_wrap=True)
    return made, text


def test_a_pipe_gets_plain_lines_with_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    made, text = shown()
    now = [1000.0]
    monkeypatch.setattr(display.time, "monotonic", lambda: now[0])
    made.progress(ROW)
    made.progress({**ROW, "step": 51})  # too soon
    now[0] += 10
    made.progress({**ROW, "step": 60})
    made.progress({**ROW, "step": 200, "eta_s": None})
    made.progress({**ROW, "step": 200, "eta_s": None})  # the end is told once
    lines = text.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == ["50/200", "60/200", "200/200"]
    assert "train/loss 0.25" in lines[0] and "12,346 examples/s" in lines[0] and "1:15 left" in lines[0]


def test_a_terminal_gets_a_bar_that_ends_before_the_results() -> None:
    made, text = shown(terminal=True)
    made.progress(ROW)
    made.results(RESULT, "runs/a/b")
    assert made.bar is None and "50/200" in text.getvalue()


def test_results_show_each_verdict_with_its_value_and_hint_word_for_word() -> None:
    made, text = shown()
    made.results(RESULT, "runs/a/b")
    out = text.getvalue()
    assert "unmet   test/accuracy >= 0.95 (0.9)" in out
    assert "missing test/acc > 0 [x]  try test/accuracy" in out
    assert "measures/x skipped: no val split" in out and "runs/a/b/report.html" in out


def test_quiet_leaves_verdicts_and_the_run_folder() -> None:
    made, text = shown(quiet=True)
    made.plan("title", {"what": "x"})
    made.progress(ROW)
    made.info("something")
    made.results(RESULT, "runs/a/b")
    out = text.getvalue()
    assert "title" not in out and "something" not in out and "50/200" not in out
    assert "unmet" in out and "runs/a/b" in out


def test_quiet_shows_held_out_figures_and_what_an_estimator_and_measures_claim() -> None:
    made, text = shown(quiet=True)
    found = ("train/loss", "test/accuracy", "estimator/cv_accuracy", "measure/calibration_error/ece", "comm/bytes")
    made.results({"final": dict.fromkeys(found, 0.5)}, "runs/a/b")
    out = text.getvalue()
    assert [name for name in found if name in out] == list(found[1:4])


def test_a_launch_outlives_the_reader_of_its_output() -> None:
    made, _ = shown()
    reader, writer = os.pipe()
    os.close(reader)
    made = Display()
    made.console.file = os.fdopen(writer, "w", buffering=1)
    made.line("nobody reads this")
    made.progress({**ROW, "step": 200})
    made.results(RESULT, "runs/a/b")
    assert made.console.quiet


def test_warnings_of_a_launcher_are_shown_even_by_a_quiet_launch(tmp_path: Path) -> None:
    made, text = shown(quiet=True)
    made.log_to(tmp_path / "log.txt")
    made.say("warning: checkpoint step-00000075 is damaged")
    made.say("starting Ray ...")
    assert text.getvalue() == "warning: checkpoint step-00000075 is damaged\n"
    assert (tmp_path / "log.txt").read_text().endswith("starting Ray ...\n")


def test_the_bar_never_drops_step_and_time_left_and_always_fits() -> None:
    latest = {"train/loss": 0.25, "val/accuracy": 0.9}
    for width in (40, 60, 100, 160):
        line = bar_line(ROW, latest, width)
        assert len(line) <= width and line.startswith("  step 50/200 ") and "1:15 left" in line
    assert "val/accuracy 0.9" in bar_line(ROW, latest, 160) and "━" in bar_line(ROW, latest, 60)


def test_why_a_run_ended_and_its_best_checkpoint_are_told() -> None:
    made, text = shown()
    best = {"val/loss": {"value": 0.1, "step": 4}}
    made.results({**RESULT, "steps": 9, "stopped": "early_stop", "best": best, "checkpoints": []}, "runs/a/b")
    assert "stopped early at step 9" in text.getvalue() and "best val/loss 0.1 at step 4" in text.getvalue()


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (75, "1:15"), (3675, "1:01:15"), (-3, "0:00")])
def test_time_left_is_a_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_a_row_without_rate_or_metrics_is_still_a_line() -> None:
    row: dict[str, Any] = {"step": 0, "total_steps": None, "epoch": None}
    assert plain_line(row, {}) == "step 0"


def test_the_live_line_shows_what_most_people_look_for_first() -> None:
    latest = dict.fromkeys(("rl/eval_length", "rl/entropy", "rl/episodes", "rl/eval_high", "rl/eval_return"), 1.0)
    assert display.shown_metrics(latest)[0] == "rl/eval_return 1"
    latest = {"comm/bytes": 1.0, "val/accuracy": 2.0, "train/grad_norm": 3.0, "train/loss": 4.0}
    assert display.shown_metrics(latest) == ["train/loss 4", "val/accuracy 2", "train/grad_norm 3"]
