"""The loop's defaults are those that the recipe's reader documents."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from raycipe.framework import records
from raycipe.framework.arguments import Default
from raycipe.framework.training.plan import EarlyStop, KeepBest, Settings, Target


def defaults(record: Any) -> dict[str, Any]:
    """Key -> default of a section's record, None where it has none."""
    found = {}
    for name, annotation in get_type_hints(record, include_extras=True).items():
        words = getattr(annotation, "__metadata__", ())
        found[name] = next((word.value for word in words if isinstance(word, Default)), None)
    return found


@pytest.mark.parametrize(
    ("ours", "record"), [(Settings, records.Train), (KeepBest, records.KeepBest), (EarlyStop, records.EarlyStop)]
)
def test_settings_and_the_recipes_sections_agree(ours: Any, record: Any) -> None:
    required = {"metric", "mode"}
    mine = {entry.name: entry.default for entry in fields(ours) if entry.name not in required}
    assert mine == {name: value for name, value in defaults(record).items() if name not in required}


def test_better_is_strict_and_never_nan() -> None:
    small, large = Target("val/loss", "min"), Target("val/accuracy", "max")
    assert small.better(1.0, None) and small.better(1.0, 2.0) and not small.better(2.0, 2.0)
    assert large.better(2.0, 1.0) and not large.better(1.0, 1.0)
    assert not small.better(float("nan"), None) and not large.better(float("nan"), 1.0)
