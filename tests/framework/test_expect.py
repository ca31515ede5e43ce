"""The claims of a recipe: how they are read, and how they are judged."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raycipe.framework.expect import Comparison, judge, read, read_metric


def verdict(wanted: str, value: Any, **more: Any) -> dict[str, Any]:
    return judge({"test/accuracy": wanted}, {"test/accuracy": value, **more}, {})[0]


@pytest.mark.parametrize(
    ("wanted", "value", "met", "margin"),
    [
        (">= 0.95", 0.95, True, 0.0),
        (">= 0.95", 0.9, False, -0.05),
        (">=95%", 0.96, True, 0.01),
        ("> 1", 1.0, False, 0.0),
        ("< 1e-3", 0.0, True, 1e-3),
        ("<= .5", 0.75, False, -0.25),
        ("== 3", 3.0, True, 0.0),
        ("== 3", 2.5, False, -0.5),
        ("!= 3", 2.5, True, 0.5),
        ("!= 3", 3, False, 0.0),
        ("~ 2 ± 0.5", 2.5, True, 0.0),
        ("~ 2 +- 0.5", 1.0, False, -0.5),
        ("~ -4 ± 12.5%", -4.5, True, 0.0),
        ("~ -4 ± 12.5%", -4.75, False, -0.25),
        ("0.4 .. 0.6", 0.6, True, 0.0),
        ("0.4..0.6", 0.3, False, -0.1),
        ("-1 .. 1", 0.25, True, 0.75),
    ],
)
def test_each_comparison_has_its_verdict_and_margin(wanted: str, value: float, met: bool, margin: float) -> None:
    found = verdict(wanted, value)
    assert found["verdict"] == ("met" if met else "unmet")
    assert found["margin"] == pytest.approx(margin, abs=1e-12)
    assert (found["metric"], found["wanted"], found["value"]) == ("test/accuracy", wanted, value)


@pytest.mark.parametrize(
    ("wanted", "met", "margin"),
    [
        ("> val/accuracy", True, 0.1),
        (">= val/accuracy + 0.2", False, -0.1),
        ("< 2 * val/accuracy - 0.1", True, 0.6),
        (">= max(val/accuracy)", False, -0.05),
        ("== last(test/accuracy)", True, 0.0),
    ],
)
def test_a_metric_can_be_compared_with_another(wanted: str, met: bool, margin: float) -> None:
    final = {"test/accuracy": 0.9, "val/accuracy": 0.8}
    found = judge({"test/accuracy": wanted}, final, {"val/accuracy": [0.5, 0.95, 0.8]})[0]
    assert found["verdict"] == ("met" if met else "unmet")
    assert found["margin"] == pytest.approx(margin)


@pytest.mark.parametrize(("fun", "value"), [("first", 3), ("last", 2), ("min", 1), ("max", 3), ("mean", 2)])
def test_functions_take_their_value_from_the_whole_run(fun: str, value: float) -> None:
    found = judge({f"{fun}(val/loss)": "> 0"}, {"val/loss": 2}, {"val/loss": [3, 1, 2]})[0]
    assert found["value"] == value


def test_without_rows_a_function_takes_the_final_value() -> None:
    assert judge({"min(val/loss)": "> 0"}, {"val/loss": 2}, {})[0]["value"] == 2


@pytest.mark.parametrize("wanted", [">= 0", "< 0", "!= 0", "== 0", "~ 0 ± 1", "-1 .. 1", "> val/loss"])
def test_a_value_that_is_no_number_never_meets_a_claim(wanted: str) -> None:
    found = judge({"test/loss": wanted}, {"test/loss": "NaN", "val/loss": 1}, {})[0]
    assert (found["verdict"], found["value"], found["margin"]) == ("unmet", "NaN", None)


def test_a_bound_that_is_no_number_never_holds() -> None:
    assert judge({"test/loss": "> val/loss"}, {"test/loss": 1, "val/loss": "NaN"}, {})[0]["verdict"] == "unmet"


def test_nan_on_the_way_spoils_a_mean_but_not_the_last_value() -> None:
    history = {"val/loss": [1.0, "NaN", 2.0]}
    final = {"val/loss": 2.0}
    assert judge({"mean(val/loss)": "> 0"}, final, history)[0]["verdict"] == "unmet"
    assert judge({"first(val/loss)": "> 0"}, final, history)[0]["verdict"] == "met"


def test_infinity_is_shown_by_name() -> None:
    assert verdict("> 0", math.inf)["value"] == "Infinity"
    assert verdict("> 0", "-Infinity")["value"] == "-Infinity"


def test_a_missing_metric_counts_as_missing_and_names_the_nearest() -> None:
    found = judge({"test/accuracy": "> 0"}, {"test/acuracy": 1}, {})[0]
    assert found["verdict"] == "missing"
    assert found["hint"] == "no metric test/accuracy; did you mean `test/acuracy`?"
    assert judge({"a/b": "> 0"}, {}, {})[0]["hint"] == "no metric a/b; reported: nothing"
    assert judge({"a/b": "> x/y"}, {"a/b": 1}, {})[0]["hint"] == "no metric x/y; reported: a/b"


def test_a_smoke_run_is_judged_for_presence_alone() -> None:
    claims = {"test/accuracy": ">= 2", "test/loss": "> 0", "test/f1": "> 0"}
    found = judge(claims, {"test/accuracy": 0.1, "test/loss": "NaN"}, {}, smoke=True)
    assert [entry["verdict"] for entry in found] == ["skipped", "unmet", "missing"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.95", "is no comparison"),
        ("~ 1", "is no comparison"),
        ("=> 1", "is no comparison"),
        (">= 1 2", "is no comparison"),
        (">= 1 or < 0", "is no comparison"),
        (">= __import__('os')", "is no comparison"),
        (">= 1e999", "holds a number that is not finite"),
        ("1 .. 0", "is a range whose lower end is above its upper end"),
        ("~ 1 ± -1", "has a negative tolerance"),
        (">= nan", "is no comparison"),
        ("", "is no comparison"),
    ],
)
def test_what_is_no_comparison_is_told_in_words(text: str, message: str) -> None:
    assert read(text) == message


def test_metrics_are_named_with_or_without_a_function() -> None:
    found = read_metric("min(val/loss)")
    assert found is not None and (found.name, found.fun) == ("val/loss", "min")
    found = read_metric("measure/path_norm/l2-norm@1%")
    assert found is not None and (found.name, found.fun) == ("measure/path_norm/l2-norm@1%", "last")
    assert read_metric("loss") is None
    assert read_metric("median(val/loss)") is None


def test_an_unchecked_claim_is_not_judged() -> None:
    with pytest.raises(ValueError, match="was not checked"):
        judge({"test/accuracy": "high"}, {"test/accuracy": 1}, {})


@given(st.text(max_size=30))
def test_any_text_is_a_comparison_or_a_sentence(text: str) -> None:
    found = read(text)
    assert isinstance(found, (Comparison, str)) and found


@given(st.sampled_from([">=", ">", "<=", "<", "=="]), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_the_margin_of_a_met_claim_is_never_negative(operator: str, bound: float, value: float) -> None:
    found = verdict(f"{operator} {bound!r}", value)
    assert (found["margin"] >= 0) or found["verdict"] == "unmet"
