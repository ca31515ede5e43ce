"""Asynchronous proximal policy optimization."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from ray.rllib.algorithms.appo import APPOConfig

from raycipe.components.agents._agent import RllibAgent, annealed
from raycipe.components.agents._appo_learner import TellingLearner
from raycipe.components.agents._settings import Setting
from raycipe.components.agents._torso import TorsoPPOCatalog
from raycipe.framework.arguments import Count, NonNegative, Positive, Range, Share
from raycipe.framework.registry import register

FEW_RUNNERS = 8


@register
class Appo(RllibAgent):
    """APPO: env runners never wait for the learner, which corrects for their older policies (RLlib's).

    PPO's clipped surrogate on advantages of V-trace: with ρ_t = min(1, π(a_t|s_t) / μ(a_t|s_t)) for the runner's policy
    μ, value targets are v_t = V(s_t) + Σ_k γ^k (Π c) ρ_k delta_k, and r = π / π_target is clipped, where the target
    policy follows from time to time. The learner draws from a buffer of the 8 newest batches, each at most twice. It
    pays with several env runners; how many batches a run makes of its steps depends on the machine, so two runs differ.

    Args:
        lr: Adam's learning rate
        anneal_lr: let it fall linearly to 0 over train.env_steps
        gamma: discount γ of later rewards, per step
        gae_lambda: λ of the traces; nearer to 1 trusts rewards more
        train_batch_size: env steps per update and learner
        fragment_length: env steps that a runner's environment collects before it sends them
        clip: how far the ratio r may leave 1 before its gradient vanishes
        value_coefficient: weight of the value function's loss
        entropy_coefficient: weight of the entropy; larger values explore longer
        target_update: fills of the buffer (16 batches learned from) between copies of the policy into the target policy
        tau: share of the target policy that is replaced then
        grad_clip: largest norm of a gradient; null does not clip
        steps_per_iteration: env steps between rows, evaluations and checkpoints
        num_envs_per_env_runner: environments that each runner steps side by side
        normalize_observations: by their running mean and standard deviation, clipped at 10
        share_model: policy and value function share the torso
        config: further settings of RLlib's APPOConfig by name, e.g. {vtrace: false}

    Reference:
        L. Espeholt et al., IMPALA: Scalable Distributed Deep-RL, ICML 2018 (V-trace).

    Recipe:
        env: {type: gymnasium, id: CartPole-v1}
        agent: {type: appo, lr: 1e-3, train_batch_size: 512}
        train: {env_steps: 20000}
        resources: {num_env_runners: 1}
    """

    algorithm_config: ClassVar[type] = APPOConfig
    catalog: ClassVar[type] = TorsoPPOCatalog
    arguments: ClassVar[Mapping[str, str]] = {
        "lambda_": "gae_lambda",
        "rollout_fragment_length": "fragment_length",
        "clip_param": "clip",
        "vf_loss_coeff": "value_coefficient",
        "entropy_coeff": "entropy_coefficient",
        "target_network_update_freq": "target_update",
        "tau": "tau",
        "min_sample_timesteps_per_iteration": "steps_per_iteration",
        "min_time_s_per_iteration": "steps_per_iteration",
    }

    def __init__(
        self,
        lr: Positive = 5e-4,
        anneal_lr: bool = False,
        gamma: Share = 0.99,
        gae_lambda: Annotated[float, Range(ge=0, le=1)] = 0.95,
        train_batch_size: Count = 512,
        fragment_length: Count = 64,
        clip: Positive = 0.2,
        value_coefficient: NonNegative = 0.5,
        entropy_coefficient: NonNegative = 0.01,
        target_update: Count = 2,
        tau: Share = 1.0,
        grad_clip: Positive | None = 40.0,
        steps_per_iteration: Count = 2000,
        num_envs_per_env_runner: Annotated[int, Range(ge=1, le=10**4)] = 4,
        normalize_observations: bool = False,
        share_model: bool = False,
        config: dict[str, Setting] = {},  # noqa: B006 (never changed)
    ) -> None:
        self.lr = lr
        self.anneal_lr = anneal_lr
        self.gamma = gamma
        self.gae_lambda = gae_lambda
        self.train_batch_size = train_batch_size
        self.fragment_length = fragment_length
        self.clip = clip
        self.value_coefficient = value_coefficient
        self.entropy_coefficient = entropy_coefficient
        self.target_update = target_update
        self.tau = tau
        self.grad_clip = grad_clip
        self.steps_per_iteration = steps_per_iteration
        self.num_envs_per_env_runner = num_envs_per_env_runner
        self.normalize_observations = normalize_observations
        self.share_model = share_model
        self.settings = config
        self.check_settings(config)

    def training(self, recipe: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "lr": annealed(self.lr, self.anneal_lr, recipe),
            "gamma": self.gamma,
            "lambda_": self.gae_lambda,
            "train_batch_size_per_learner": self.train_batch_size,
            "clip_param": self.clip,
            "vf_loss_coeff": self.value_coefficient,
            "entropy_coeff": self.entropy_coefficient,
            "target_network_update_freq": self.target_update,
            "tau": self.tau,
            "grad_clip": self.grad_clip,
            "grad_clip_by": "global_norm",
            "learner_class": TellingLearner,
        }

    def config(self, recipe: Mapping[str, Any], facts: Mapping[str, Any]) -> Any:
        made = super().config(recipe, facts)
        if "use_env_runner_state_server" not in self.settings:
            # RLlib's hands weights out from an actor of their own: half a gigabyte that a few runners do without
            runners = int((recipe.get("resources") or {}).get("num_env_runners") or 0)
            made.env_runners(use_env_runner_state_server=runners > FEW_RUNNERS)
        made.env_runners(rollout_fragment_length=self.fragment_length)
        made.reporting(min_time_s_per_iteration=None, min_sample_timesteps_per_iteration=self.steps_per_iteration)
        return made

    def model_settings(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {"vf_share_layers": self.share_model}
