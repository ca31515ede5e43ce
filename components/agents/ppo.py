"""Proximal policy optimization."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from ray.rllib.algorithms.ppo import PPOConfig

from raycipe.components.agents._agent import RllibAgent, annealed
from raycipe.components.agents._settings import Setting
from raycipe.components.agents._torso import TorsoPPOCatalog
from raycipe.framework.arguments import Count, NonNegative, Positive, Range, Share
from raycipe.framework.registry import register


@register
class Ppo(RllibAgent):
    """PPO: several epochs over fresh episodes, each step bounded by a clipped ratio (RLlib's).

    With r = π(a|s) / π_old(a|s) and advantages A by GAE (delta_t = r_t + γ V(s_{t+1}) - V(s_t), A_t = Σ (γλ)^k
    delta_{t+k}), standardised per batch, each minibatch minimises
    -min(r A, clip(r, 1 - clip, 1 + clip) A) + value_coefficient · min((V - R)², value_clip)
    - entropy_coefficient · H(π) + kl_coefficient · KL(π_old, π), where kl_coefficient adapts to kl_target (0: no term).

    Args:
        lr: Adam's learning rate
        anneal_lr: let it fall linearly to 0 over train.env_steps
        gamma: discount γ of later rewards, per step
        gae_lambda: λ; nearer to 1 trusts rewards more (less bias), nearer to 0 the value function (less variance)
        train_batch_size: env steps per iteration and learner, over all env runners
        minibatch_size: env steps per gradient step
        num_epochs: passes over each batch
        clip: how far the ratio r may leave 1 before its gradient vanishes
        value_clip: largest squared error of the value that counts; rewards of larger scale need larger values
        value_coefficient: weight of the value function's loss (1 unless policy and value share the model)
        entropy_coefficient: weight of the entropy; larger values explore longer
        kl_coefficient: initial weight of the KL term; 0 turns it off
        kl_target: KL per batch that the weight is adapted to
        grad_clip: largest norm of a gradient, policy and value together; null does not clip
        num_envs_per_env_runner: environments that each runner steps side by side
        normalize_observations: by their running mean and standard deviation, clipped at 10
        share_model: policy and value function share the torso
        free_log_std: for Box actions: a standard deviation of its own instead of one that depends on the state
        config: further settings of RLlib's PPOConfig by name, e.g. {batch_mode: complete_episodes}

    Reference:
        J. Schulman et al., Proximal Policy Optimization Algorithms, 2017.

    Recipe:
        env: {type: gymnasium, id: CartPole-v1}
        model: {type: mlp, hidden: [64], num_outputs: 64}
        agent: {type: ppo, lr: 1e-3, train_batch_size: 1024, num_envs_per_env_runner: 8}
        train: {env_steps: 20000}
    """

    algorithm_config: ClassVar[type] = PPOConfig
    catalog: ClassVar[type] = TorsoPPOCatalog
    arguments: ClassVar[Mapping[str, str]] = {
        "lambda_": "gae_lambda",
        "minibatch_size": "minibatch_size",
        "num_epochs": "num_epochs",
        "clip_param": "clip",
        "vf_clip_param": "value_clip",
        "vf_loss_coeff": "value_coefficient",
        "entropy_coeff": "entropy_coefficient",
        "kl_coeff": "kl_coefficient",
        "use_kl_loss": "kl_coefficient",
        "kl_target": "kl_target",
    }

    def __init__(
        self,
        lr: Positive = 3e-4,
        anneal_lr: bool = False,
        gamma: Share = 0.99,
        gae_lambda: Annotated[float, Range(ge=0, le=1)] = 0.95,
        train_batch_size: Count = 2048,
        minibatch_size: Count = 128,
        num_epochs: Annotated[int, Range(ge=1, le=1000)] = 10,
        clip: Positive = 0.2,
        value_clip: Positive = 1e4,
        value_coefficient: NonNegative = 1.0,
        entropy_coefficient: NonNegative = 0.0,
        kl_coefficient: NonNegative = 0.0,
        kl_target: Positive = 0.01,
        grad_clip: Positive | None = None,
        num_envs_per_env_runner: Annotated[int, Range(ge=1, le=10**4)] = 8,
        normalize_observations: bool = False,
        share_model: bool = False,
        free_log_std: bool = True,
        config: dict[str, Setting] = {},  # noqa: B006 (never changed)
    ) -> None:
        if minibatch_size > train_batch_size:
            raise ValueError(f"minibatch_size must be at most train_batch_size, {train_batch_size}")
        self.lr = lr
        self.anneal_lr = anneal_lr
        self.gamma = gamma
        self.gae_lambda = gae_lambda
        self.train_batch_size = train_batch_size
        self.minibatch_size = minibatch_size
        self.num_epochs = num_epochs
        self.clip = clip
        self.value_clip = value_clip
        self.value_coefficient = value_coefficient
        self.entropy_coefficient = entropy_coefficient
        self.kl_coefficient = kl_coefficient
        self.kl_target = kl_target
        self.grad_clip = grad_clip
        self.num_envs_per_env_runner = num_envs_per_env_runner
        self.normalize_observations = normalize_observations
        self.share_model = share_model
        self.free_log_std = free_log_std
        self.settings = config
        self.check_settings(config)

    def training(self, recipe: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "lr": annealed(self.lr, self.anneal_lr, recipe),
            "gamma": self.gamma,
            "lambda_": self.gae_lambda,
            "train_batch_size_per_learner": self.train_batch_size,
            "minibatch_size": self.minibatch_size,
            "num_epochs": self.num_epochs,
            "clip_param": self.clip,
            "vf_clip_param": self.value_clip,
            "vf_loss_coeff": self.value_coefficient,
            "entropy_coeff": self.entropy_coefficient,
            "use_kl_loss": self.kl_coefficient > 0,
            "kl_coeff": self.kl_coefficient,
            "kl_target": self.kl_target,
            "grad_clip": self.grad_clip,
            "grad_clip_by": "global_norm",
        }

    def model_settings(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {"vf_share_layers": self.share_model, "free_log_std": self.free_log_std and "action_shape" in facts}
