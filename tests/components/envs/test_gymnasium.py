"""Registered environments: what is wrong with an id, an argument or a wrapper is told in words."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from raycipe.components.envs import _mujoco
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"id": "CartPol-v1"}, "id no environment is registered as `CartPol-v1`; did you mean `CartPole-v1`?"),
        (
            {"id": "Pendulum-v9"},
            "id `Pendulum-v9` is not registered in this version of gymnasium; known: Pendulum-v1",
        ),
        (
            {"id": "CartPole-v1", "wrappers": ["frame_stak"]},
            "wrappers: no wrapper `frame_stak`; did you mean `frame_st",
        ),
        (
            {"id": "CartPole-v1", "wrappers": [{"wrapper": "frame_stack", "size": 4}]},
            "wrappers: `frame_stack` has no argument `size`",
        ),
        ({"id": "CartPole-v1", "wrappers": [{"stack_size": 4}]}, "an entry with arguments names its wrapper"),
        ({"id": "CartPole-v1", "kwargs": {"render_mode": "human"}}, "kwargs must not hold `render_mode`: Raycipe sets"),
    ],
)
def test_a_wrong_argument_is_told(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as caught:
        make("envs/gymnasium", **arguments)
    assert words in str(caught.value)


def test_an_argument_that_the_environment_does_not_take_is_told_at_its_place() -> None:
    with pytest.raises(RunError) as caught:
        make("envs/gymnasium", id="Pendulum-v1", kwargs={"gravity": 9.81}).make()
    assert str(caught.value) == "Pendulum-v1 has no argument `gravity`; known: g"
    assert caught.value.where == "env.kwargs"


def test_a_wrapper_that_does_not_fit_is_told_at_its_place() -> None:
    env = make("envs/gymnasium", id="CartPole-v1", wrappers=["flatten_observation", "grayscale_observation"])
    with pytest.raises(RunError) as caught:
        env.make()
    assert "`grayscale_observation` can't wrap this environment" in str(caught.value)
    assert caught.value.where == "env.wrappers.1"


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    real = builtins.__import__

    def without_mujoco(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "mujoco":
            raise ImportError("No module named 'mujoco'", name="mujoco")
        return real(name, *rest, **more)

    for name in [name for name in sys.modules if name.startswith(("mujoco", "gymnasium.envs.mujoco"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without_mujoco)
    with pytest.raises(RunError) as caught:
        make("envs/gymnasium", id="HalfCheetah-v5").make()
    assert "HalfCheetah-v5 needs a package that is not installed" in str(
        caught.value
    ) and "pip install 'raycipe[rl]'" in str(caught.value)


def test_wrappers_stand_around_it_in_their_order_and_kwargs_reach_it() -> None:
    wrappers = ["flatten_observation", {"wrapper": "frame_stack", "stack_size": 3}]
    env = make("envs/gymnasium", id="Pendulum-v1", wrappers=wrappers, kwargs={"g": 2.5}, max_episode_steps=7).make()
    observation, _ = env.reset(seed=0)
    assert np.asarray(observation).shape == (3, 3) and env.unwrapped.g == 2.5
    ends = [env.step(env.action_space.sample())[3] for _ in range(7)]
    assert ends == [False] * 6 + [True]


def test_facts_fill_the_arguments_of_models() -> None:
    facts = make("envs/gymnasium", id="CartPole-v1").facts()
    assert (facts["input_shape"], facts["num_features"], facts["num_actions"]) == ([4], 4, 2)
    facts = make("envs/gymnasium", id="Pendulum-v1").facts()
    assert facts["action_shape"] == [1] and "num_actions" not in facts
    model = make("models/mlp", facts=facts, hidden=[8])
    assert model.num_features == 3 and model.num_outputs == 64


def test_mujocos_warnings_go_to_the_log_once_and_to_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_mujoco, "_told", set())
    caplog.set_level("WARNING", "mujoco")
    env = make("envs/gymnasium", id="HalfCheetah-v5").make()
    for _ in range(2):
        env.reset(seed=0)
        env.unwrapped.data.qpos[0] = np.nan
        env.step(env.action_space.sample())
    env.close()
    assert not list(tmp_path.iterdir())
    assert [record.message for record in caplog.records if "unstable" in record.message] == [
        "MuJoCo: Nan, Inf or huge value in QPOS at DOF 0. The simulation is unstable."
    ]
