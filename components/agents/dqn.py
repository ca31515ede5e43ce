"""Deep Q-learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from gymnasium.spaces import Discrete
from ray.rllib.algorithms.dqn import DQN, DQNConfig

from raycipe.components.agents._agent import RllibAgent
from raycipe.components.agents._settings import Setting
from raycipe.components.agents._torso import TorsoDQNCatalog
from raycipe.components.agents._transitions import ReplayTraining, load_replay_state, replay_state
from raycipe.framework.arguments import Count, Positive, Range, Share, Width
from raycipe.framework.registry import register


class ReplayDqn(ReplayTraining, DQN):  # type: ignore[misc]
    """RLlib's DQN with replay from arrays."""


@register
class Dqn(RllibAgent):
    """DQN with double Q-learning, dueling heads and n-step returns, for discrete actions (RLlib's).

    With a* = argmax_a Q(s', a) (the target network's own with double_q false), Q(s, a) moves to
    r + γ Q'(s', a*) under the Huber or squared loss; actions are random with probability epsilon, which falls linearly;
    the target network follows Q' <- tau Q + (1 - tau) Q' every target_update env steps.

    Args:
        lr: Adam's learning rate
        gamma: discount γ of later rewards, per step
        epsilon: probability of a random action, at the start and from epsilon_steps on
        epsilon_steps: env steps over which epsilon falls
        train_batch_size: transitions per update
        training_intensity: replayed transitions per env step; train_batch_size means one update per step, less is
            cheaper and learns less from each step
        target_update: env steps between updates of the target network
        tau: share of the target network that is replaced then
        double_q: choose the next action by the online network
        dueling: separate heads for the state's value and the actions' advantages
        n_step: rewards that are summed before the Q function takes over
        loss: huber cares less about outliers
        replay_capacity: transitions that the buffer keeps
        learning_starts: env steps before the first update
        fragment_length: env steps that each environment collects between updates
        grad_clip: largest norm of a gradient; null does not clip
        steps_per_iteration: env steps between rows, evaluations and checkpoints
        num_envs_per_env_runner: environments that each runner steps side by side
        normalize_observations: by their running mean and standard deviation, clipped at 10
        hidden: width of the layers where the recipe has no model
        config: further settings of RLlib's DQNConfig by name, e.g. {num_atoms: 51}

    Reference:
        V. Mnih et al., Human-level control through deep reinforcement learning, Nature 518, 2015.

    Recipe:
        env: {type: gymnasium, id: CartPole-v1}
        agent: {type: dqn, lr: 1e-3, training_intensity: 16, num_envs_per_env_runner: 4}
        train: {env_steps: 4000}
    """

    algorithm_config: ClassVar[type] = DQNConfig
    catalog: ClassVar[type] = TorsoDQNCatalog
    activation: ClassVar[str] = "relu"
    arguments: ClassVar[Mapping[str, str]] = {
        "epsilon": "epsilon",
        "training_intensity": "training_intensity",
        "n_step": "n_step",
        "target_network_update_freq": "target_update",
        "tau": "tau",
        "double_q": "double_q",
        "dueling": "dueling",
        "rollout_fragment_length": "fragment_length",
        "td_error_loss_fn": "loss",
        "replay_buffer_config": "replay_capacity",
        "num_steps_sampled_before_learning_starts": "learning_starts",
        "min_sample_timesteps_per_iteration": "steps_per_iteration",
        "min_time_s_per_iteration": "steps_per_iteration",
        "hiddens": "hidden",
    }

    def __init__(
        self,
        lr: Positive = 5e-4,
        gamma: Share = 0.99,
        epsilon: tuple[Annotated[float, Range(ge=0, le=1)], Annotated[float, Range(ge=0, le=1)]] = (1.0, 0.05),
        epsilon_steps: Count = 10_000,
        train_batch_size: Count = 64,
        training_intensity: Positive | None = None,
        target_update: Count = 500,
        tau: Share = 1.0,
        double_q: bool = True,
        dueling: bool = True,
        n_step: Annotated[int, Range(ge=1, le=1000)] = 1,
        loss: Literal["huber", "mse"] = "huber",
        replay_capacity: Count = 50_000,
        fragment_length: Count = 1,
        learning_starts: Annotated[int, Range(ge=0, le=10**9)] = 1000,
        grad_clip: Positive | None = 10.0,
        steps_per_iteration: Count = 1000,
        num_envs_per_env_runner: Annotated[int, Range(ge=1, le=10**4)] = 1,
        normalize_observations: bool = False,
        hidden: list[Width] = [128, 128],  # noqa: B006 (never changed)
        config: dict[str, Setting] = {},  # noqa: B006 (never changed)
    ) -> None:
        self.lr = lr
        self.gamma = gamma
        self.epsilon = epsilon
        self.epsilon_steps = epsilon_steps
        self.train_batch_size = train_batch_size
        self.training_intensity = training_intensity
        self.target_update = target_update
        self.tau = tau
        self.double_q = double_q
        self.dueling = dueling
        self.n_step = n_step
        self.loss = loss
        self.replay_capacity = replay_capacity
        self.learning_starts = learning_starts
        self.fragment_length = fragment_length
        self.grad_clip = grad_clip
        self.steps_per_iteration = steps_per_iteration
        self.num_envs_per_env_runner = num_envs_per_env_runner
        self.normalize_observations = normalize_observations
        self.hidden = hidden
        self.settings = config
        self.check_settings(config)

    def actions_misfit(self, space: Any) -> str | None:
        if isinstance(space, Discrete):
            return None
        return f"dqn takes Discrete actions; this environment's are {space} (sac and ppo take Box actions)"

    def training(self, recipe: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "lr": self.lr,
            "gamma": self.gamma,
            "epsilon": [(0, self.epsilon[0]), (self.epsilon_steps, self.epsilon[1])],
            "train_batch_size_per_learner": self.train_batch_size,
            "training_intensity": float(self.training_intensity or self.train_batch_size),
            "target_network_update_freq": self.target_update,
            "tau": self.tau,
            "double_q": self.double_q,
            "dueling": self.dueling,
            "n_step": self.n_step,
            "td_error_loss_fn": self.loss,
            "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": self.replay_capacity},
            "num_steps_sampled_before_learning_starts": self.learning_starts,
            "grad_clip": self.grad_clip,
            "grad_clip_by": "global_norm",
        }

    def config(self, recipe: Mapping[str, Any], facts: Mapping[str, Any]) -> Any:
        made = super().config(recipe, facts)
        made.algo_class = ReplayDqn
        made.env_runners(rollout_fragment_length=self.fragment_length)
        made.reporting(min_time_s_per_iteration=None, min_sample_timesteps_per_iteration=self.steps_per_iteration)
        return made

    def model_settings(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {"fcnet_hiddens": self.hidden, "fcnet_activation": "relu", "head_fcnet_hiddens": []}

    def extra_state(self, algorithm: Any) -> dict[str, Any]:
        return replay_state(algorithm)

    def load_extra_state(self, algorithm: Any, state: Mapping[str, Any]) -> None:
        load_replay_state(algorithm, state)
