"""Replay: n-step windows by hand, the ring, and its state."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from raycipe.components.agents._transitions import Transitions, windows


def episode(name: str, rewards: list[float], first: int = 0, end: str = "") -> Any:
    """A chunk of RLlib's form whose observations count the steps."""
    steps = len(rewards)
    return SimpleNamespace(
        id_=name,
        get_observations=lambda: np.arange(first, first + steps + 1, dtype=np.float64)[:, None],
        get_actions=lambda: np.arange(first, first + steps),
        get_rewards=lambda: np.array(rewards),
        is_terminated=end == "terminated",
        is_truncated=end == "truncated",
    )


def test_windows_sum_discounted_rewards() -> None:
    found = windows(np.array([1.0, 2.0, 4.0]), n=2, gamma=0.5, is_done=False)
    assert found.returns.tolist() == [2.0, 4.0] and found.ends.tolist() == [2, 3]
    found = windows(np.array([1.0, 2.0, 4.0]), n=2, gamma=0.5, is_done=True)
    assert found.returns.tolist() == [2.0, 4.0, 4.0]
    assert found.ends.tolist() == [2, 3, 3] and found.lengths.tolist() == [2, 2, 1]
    assert windows(np.array([1.0]), n=3, gamma=0.9, is_done=False).returns.size == 0


def rows(store: Transitions) -> list[tuple[float, float, float, bool, float]]:
    columns = store.columns
    names = ("obs", "new_obs", "rewards", "terminateds", "n_step")
    parts = [columns[name][: store.size].reshape(store.size) for name in names]
    return [tuple(part[i].item() for part in parts) for i in range(store.size)]  # type: ignore[misc]


def test_windows_go_on_over_chunks_and_end_with_the_episode() -> None:
    store = Transitions(capacity=10, n_step=2, gamma=0.5, seed=0)
    assert store.add([episode("a", [1.0])]) == 1 and store.size == 0
    store.add([episode("b", [9.0], end="truncated")])
    store.add([episode("a", [2.0, 4.0], first=1, end="terminated")])
    assert rows(store) == [
        (0.0, 1.0, 9.0, False, 1.0),
        (0.0, 2.0, 2.0, False, 2.0),
        (1.0, 3.0, 4.0, True, 2.0),
        (2.0, 3.0, 4.0, True, 1.0),
    ]
    assert store.open == {}


def test_the_oldest_are_overwritten() -> None:
    store = Transitions(capacity=3, n_step=1, gamma=1.0, seed=0)
    store.add([episode("a", [0.0, 1.0]), episode("b", [2.0, 3.0])])
    assert store.size == 3 and sorted(row[2] for row in rows(store)) == [1.0, 2.0, 3.0]


def test_a_loaded_state_draws_the_same_and_needs_no_pickle() -> None:
    store = Transitions(capacity=50, n_step=1, gamma=1.0, seed=7)
    store.add([episode("a", [float(i) for i in range(20)], end="terminated")])
    store.sample(8)
    file = io.BytesIO()
    torch.save(store.state(), file)
    file.seek(0)
    other = Transitions(capacity=50, n_step=1, gamma=1.0, seed=0)
    other.load(torch.load(file, weights_only=True))
    assert torch.equal(store.sample(16)["rewards"], other.sample(16)["rewards"])
    assert rows(store) == rows(other) and other.position == 20


def test_draws_are_uniform_and_typed_as_learners_want() -> None:
    store = Transitions(capacity=4, n_step=1, gamma=1.0, seed=0)
    store.add([episode("a", [0.0, 1.0, 2.0, 3.0])])
    batch = store.sample(4000)
    counts = torch.bincount(batch["rewards"].long(), minlength=4)
    assert counts.min() > 900  # 1000 expected, standard deviation 27
    assert batch["obs"].dtype == torch.float32 and batch["terminateds"].dtype == torch.bool
    assert batch["weights"].tolist() == pytest.approx([1.0] * 4000)
