"""The `config` map of an agent: settings of RLlib's `AlgorithmConfig` that have no argument of their own, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raycipe.framework.words import nearest

Setting = bool | float | str | list[float] | None
ELSEWHERE = {  # settings that Raycipe sets -> where a recipe says it
    "env": "the section `env`",
    "env_config": "the section `env`",
    "observation_space": "the section `env`",
    "action_space": "the section `env`",
    "disable_env_checking": "gymnasium's check runs before the run",
    "num_env_runners": "resources.num_env_runners",
    "num_cpus_per_env_runner": "resources.cpus_per_worker",
    "num_gpus_per_env_runner": "env runners work on CPUs",
    "custom_resources_per_env_runner": "resources.custom",
    "num_learners": "resources.num_learners",
    "num_gpus_per_learner": "resources.gpus_per_learner",
    "num_cpus_per_learner": "resources.cpus_per_worker",
    "num_gpus": "resources.gpus_per_learner",
    "max_num_env_runner_restarts": "resources.max_failures",
    "restart_failed_env_runners": "resources.max_failures",
    "ignore_env_runner_failures": "resources.max_failures",
    "restart_failed_sub_environments": "an environment that fails ends the run",
    "create_local_env_runner": "the launcher evaluates with it",
    "placement_strategy": "resources.placement",
    "seed": "the recipe's `seed`",
    "model": "the section `model`",
    "learner_class": "a recipe holds no code",
    "framework_str": "it is torch",
    "enable_rl_module_and_learner": "Raycipe uses the new API stack",
    "enable_env_runner_and_connector_v2": "Raycipe uses the new API stack",
    "log_level": "Ray's output goes to log.txt",
    "logger_config": "rows go to metrics.jsonl",
    "logger_creator": "rows go to metrics.jsonl",
    "store_buffer_in_checkpoints": "checkpoints hold the replay buffer",
    "explore": "training explores, evaluation does not",
}
PREFIXES = {"evaluation_": "train.eval_every and train.eval_episodes", "callbacks": "a recipe holds no code"}
SIMPLE = (bool, int, float, str)


def check(config: Mapping[str, Any], algorithm_config: Any, arguments: Mapping[str, str]) -> None:
    """Raise ValueError for a key that RLlib does not know, that belongs elsewhere, or whose value has the wrong type.

    Args:
        config: the map of the recipe.
        algorithm_config: a fresh `AlgorithmConfig` of the algorithm: its attributes are what there is.
        arguments: RLlib's name -> the agent's argument that sets it.
    """
    known = settings_of(algorithm_config)
    for name, value in config.items():
        if name in arguments:
            raise ValueError(f"config must not hold `{name}`: it is the agent's argument `{arguments[name]}`")
        reason = ELSEWHERE.get(name) or next((why for start, why in PREFIXES.items() if name.startswith(start)), None)
        if reason:
            raise ValueError(f"config must not hold `{name}`, which Raycipe sets: {reason}")
        if name not in known:
            near = nearest(name, [word for word in known if word not in ELSEWHERE and word not in arguments])
            owned = nearest(name, list(arguments.values()))
            hint = (
                f"did you mean `{near}`?" if near else f"did you mean the agent's argument `{owned}`?" if owned else ""
            )
            raise ValueError(f"config holds `{name}`, which {type(algorithm_config).__name__} does not know; {hint}")
        _check_type(name, value, known[name])


def settings_of(algorithm_config: Any) -> dict[str, Any]:
    """The settings of an `AlgorithmConfig` and their defaults; -1 marks those that RLlib has given up."""
    from ray._common.deprecation import DEPRECATED_VALUE

    return {
        name: value
        for name, value in vars(algorithm_config).items()
        if not name.startswith("_") and not (value == DEPRECATED_VALUE and type(value) is type(DEPRECATED_VALUE))
    }


def _check_type(name: str, value: Any, default: Any) -> None:
    """A value must look like the default that it replaces, where that says enough; a real number may be a schedule."""
    if value is None or type(default) not in SIMPLE:
        return
    if isinstance(default, (bool, str)):
        fits = type(value) is type(default)
    else:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        fits = is_number and (isinstance(default, float) or float(value).is_integer())
        fits = fits or (isinstance(value, list) and isinstance(default, float))
    if not fits:
        raise ValueError(f"config holds {name}: {value!r}, where RLlib's default is {default!r}")


def apply(config: Mapping[str, Any], algorithm_config: Any) -> None:
    """Set the checked settings."""
    for name, value in config.items():
        default = getattr(algorithm_config, name)
        whole = isinstance(default, int) and not isinstance(default, bool) and isinstance(value, float)
        setattr(algorithm_config, name, int(value) if whole else value)
