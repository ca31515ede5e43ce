"""The values of a sweep's trials: distributions, conditions, grids, and that they depend on seed and number alone."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from raycipe.framework.spaces import Distribution, Random, choose, count_of, distribution_of, drawn


def sweep(space: dict[str, Any], trials: int = 1000, search: str = "random") -> dict[str, Any]:
    return {"space": space, "trials": trials, "search": search}


def values(form: Any, count: int = 2000) -> list[Any]:
    return [drawn(sweep({"a": form}), 0, number)["a"] for number in range(1, count + 1)]


def test_whole_numbers_include_both_ends_and_are_equally_likely() -> None:
    counts = Counter(values({"randint": [1, 4]}, 4000))
    assert set(counts) == {1, 2, 3, 4}
    assert all(abs(count - 1000) < 5 * math.sqrt(750) for count in counts.values())  # 5 standard deviations


def test_logarithmic_values_are_uniform_in_their_logarithm() -> None:
    found = np.log10(values({"loguniform": [1e-4, 1.0]}))
    assert found.min() >= -4 and found.max() <= 0
    assert abs(found.mean() + 2) < 5 * (4 / math.sqrt(12)) / math.sqrt(len(found))
    whole = values({"lograndint": [1, 100]})
    assert min(whole) == 1 and max(whole) == 100 and all(isinstance(value, int) for value in whole)
    assert abs(np.mean(np.array(whole) <= 10) - math.log(10.5 / 0.5) / math.log(100.5 / 0.5)) < 0.06


@pytest.mark.parametrize(
    ("form", "steps"),
    [
        ({"quniform": [0.0, 1.0, 0.25]}, [0.0, 0.25, 0.5, 0.75, 1.0]),
        ({"qrandint": [8, 20, 4]}, [8, 12, 16, 20]),
        ({"quniform": [0.0, 1.0, 0.4]}, [0.0, 0.4, 0.8]),
        ({"qloguniform": [1, 8, 1]}, [1, 2, 3, 4, 5, 6, 7, 8]),
    ],
)
def test_quantised_values_stand_on_their_steps_and_reach_both_ends(form: Any, steps: list[float]) -> None:
    assert sorted(set(values(form))) == steps


def test_a_normal_value_has_its_mean_and_spread_and_is_clipped() -> None:
    found = np.array(values({"normal": [3.0, 0.5]}))
    assert abs(found.mean() - 3) < 0.06 and abs(found.std() - 0.5) < 0.05
    clipped = values({"normal": [0.0, 1.0], "clip": [-0.5, 0.5]})
    assert min(clipped) == -0.5 and max(clipped) == 0.5


def test_only_the_chosen_branch_of_a_component_is_drawn() -> None:
    asked: list[str] = []

    class Listening(Random):
        def number(self, name: str, distribution: Distribution) -> Any:
            asked.append(name)
            return super().number(name, distribution)

    form = {"choice": [{"type": "topk", "ratio": {"uniform": [0, 1]}}, "none", {"type": "randk", "ratio": 0.5}]}
    found = [choose({"c": form}, Listening(np.random.default_rng(seed)))["c"] for seed in range(60)]
    assert set(asked) == {"c[0].ratio"}
    assert len(asked) == sum(isinstance(value, dict) and value["type"] == "topk" for value in found) > 0
    assert "none" in found and {"type": "randk", "ratio": 0.5} in found


def test_a_list_is_a_choice_whose_entries_may_be_lists() -> None:
    assert {tuple(value) for value in values([[32], [64, 64]], 40)} == {(32,), (64, 64)}


def test_a_grid_runs_through_every_combination_and_the_last_path_varies_fastest() -> None:
    grid = {"space": {"a": [1, 2], "b": {"grid": ["x", "y", "z"]}}, "search": "random"}
    found = [drawn(grid, 0, number) for number in range(1, count_of(grid) + 1)]
    assert [(entry["a"], entry["b"]) for entry in found] == [(a, b) for a in (1, 2) for b in "xyz"]


def test_a_trial_depends_on_seed_and_number_alone() -> None:
    space = sweep({"a": {"uniform": [0, 1]}, "b": [1, 2, 3]})
    assert drawn(space, 7, 5) == drawn(space, 7, 5) != drawn(space, 8, 5)
    assert drawn(space, 7, 5) != drawn(space, 7, 6)


def test_what_is_no_distribution_is_a_value() -> None:
    assert distribution_of({"type": "topk"}) is None and distribution_of(3) is None
    assert distribution_of({"normal": [0, 1], "clip": [0, 2]}) == Distribution("normal", (0, 1), (0, 2))
