"""What RLlib's failures mean, without RLlib."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from raycipe.framework.environments import report_failure
from raycipe.framework.errors import RunError
from raycipe.launchers.rllib_failures import Health, check_tensors, failure_of
from raycipe.launchers.rllib_metrics import Recent, episodes_of, learning_of


@pytest.fixture
def session(tmp_path: Path) -> Any:
    said: list[str] = []
    recipe = {"resources": {"num_env_runners": 2}}
    return SimpleNamespace(run_dir=tmp_path, step=0, recipe=recipe, warn=said.append, said=said)


def result(steps: int | None = 10, restarts: int = 0, healthy: int = 2, **learner: float) -> dict[str, Any]:
    return {
        "env_runners": {} if steps is None else {"num_env_steps_sampled_lifetime": steps},
        "fault_tolerance": {"num_remote_worker_restarts": restarts, "num_healthy_workers": healthy},
        "learners": {"default_policy": learner},
    }


def test_what_an_env_runner_left_ends_the_run_once(session: Any) -> None:
    report_failure(str(session.run_dir), RunError("env", "it broke", "hint", "env"))
    health = Health(session)
    with pytest.raises(RunError, match="it broke"):
        health.check(result())
    health.check(result())


def test_a_restart_is_told_once(session: Any) -> None:
    health = Health(session)
    for restarts in (0, 1, 1):
        health.check(result(restarts=restarts))
    assert session.said == ["an env runner died and was started again (1 so far)"]


def test_no_env_runner_left_ends_the_run(session: Any) -> None:
    health = Health(session)
    for _ in range(4):
        health.check(result(steps=None, healthy=0))
    with pytest.raises(RunError, match="no env runner is left"):
        health.check(result(steps=None, healthy=0))


def test_an_infinite_loss_and_weights_that_are_not_finite_are_told(session: Any) -> None:
    with pytest.raises(RunError, match="the loss became infinite after 0 environment steps"):
        Health(session).check(result(total_loss=float("inf")))
    check_tensors({"a": torch.ones(2), "b": torch.tensor([1, 2])}, 5)
    with pytest.raises(RunError, match="weights became NaN or infinite after 5 environment steps"):
        check_tensors({"a": torch.tensor([1.0, float("nan")])}, 5)


def test_the_error_behind_others_is_found(session: Any) -> None:
    outer = RuntimeError("RLlib's")
    outer.__cause__ = RunError("env", "the real one", "", "env")
    assert str(failure_of(outer, session)) == "the real one"
    nan = ValueError("Expected parameter logits to satisfy the constraint ..., but found invalid values: tensor([nan])")
    assert "the policy's outputs became NaN" in str(failure_of(nan, session))
    other = KeyError("unknown")
    assert failure_of(other, session) is other


def test_returns_are_of_the_last_100_episodes_and_missing_before_the_first() -> None:
    recent = Recent()
    assert recent.metrics() == {}
    recent.add([(float(i), 2 * i) for i in range(150)])
    assert recent.metrics() == {"rl/episode_return": 99.5, "rl/episode_length": 199.0, "rl/episodes": 150.0}
    again = Recent()
    again.load(recent.state())
    assert again.metrics() == recent.metrics()


@pytest.mark.parametrize(
    ("reported", "episodes"),
    [([(1.0, 2), (3.0, 4)], [(1.0, 2), (3.0, 4)]), ((1.0, 2), [(1.0, 2)]), (float("nan"), []), ([], []), (None, [])],
)
def test_rllibs_ways_to_report_no_one_and_many_episodes(reported: Any, episodes: list[tuple[float, int]]) -> None:
    assert episodes_of({"env_runners": {"raycipe_episodes": reported}}) == episodes


def test_learning_has_one_name_in_all_algorithms_and_what_is_missing_stays_missing() -> None:
    learner = {"vf_loss": 2.0, "mean_kl_loss": float("nan"), "policy_learning_rate": 1e-3, "unknown": 3.0}
    assert learning_of(result(**learner)) == {"train/value_loss": 2.0, "train/lr": 1e-3}
    assert learning_of({}) == {}
    assert learning_of(result(mean_kl_loss=0.0, entropy=0.0)) == {"train/entropy": 0.0}
    assert learning_of(result(mean_kl_loss=0.01)) == {"train/kl": 0.01}
