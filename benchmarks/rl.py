"""Environment steps a second: the rllib launcher against RLlib by hand, and against PPO in one file.

    python benchmarks/rl.py [--iterations N]

All three train PPO on HalfCheetah-v5 with the same settings and networks, in one process and thread; blocks of one
iteration alternate (by hand, ours, in one file, by hand again), and CPU time is counted. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="token", OMP_NUM_THREADS="1")

ENV = "HalfCheetah-v5"
STEPS, ENVS, EPOCHS, MINIBATCH = 2048, 8, 10, 128  # per iteration
LR, GAMMA, GAE_LAMBDA, CLIP = 3e-4, 0.99, 0.95, 0.2
HIDDEN = [64, 64]
Block = Callable[[], None]


def by_hand() -> Block:
    """RLlib as its manual shows it."""
    from ray.rllib.algorithms.ppo import PPOConfig

    config = (
        PPOConfig()
        .environment(ENV)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=ENVS)
        .learners(num_learners=0)
        .training(
            lr=LR,
            gamma=GAMMA,
            lambda_=GAE_LAMBDA,
            clip_param=CLIP,
            train_batch_size_per_learner=STEPS,
            minibatch_size=MINIBATCH,
            num_epochs=EPOCHS,
            use_kl_loss=False,
            vf_clip_param=1e4,
        )
        .rl_module(model_config={"fcnet_hiddens": HIDDEN, "head_fcnet_hiddens": [], "free_log_std": True})
        .debugging(seed=0, log_level="ERROR")
    )
    algorithm = config.build_algo()
    return lambda: algorithm.train()


def ours(folder: Path) -> Block:
    """What `launch` runs: seeded and watched environments, rows, the torso from a recipe's `model`."""
    from raycipe.launchers.rllib_session import Session

    (folder / "checkpoints").mkdir(parents=True)
    recipe: dict[str, Any] = {
        "name": "rl",
        "seed": 0,
        "env": {"type": "gymnasium", "id": ENV},
        # the last of RLlib's hidden layers is the torso's output
        "model": {"type": "mlp", "hidden": HIDDEN[:-1], "num_outputs": HIDDEN[-1], "activation": "tanh"},
        "agent": {
            "type": "ppo",
            "lr": LR,
            "gamma": GAMMA,
            "gae_lambda": GAE_LAMBDA,
            "clip": CLIP,
            "train_batch_size": STEPS,
            "minibatch_size": MINIBATCH,
            "num_epochs": EPOCHS,
            "num_envs_per_env_runner": ENVS,
        },
        "train": {"env_steps": 10**9},
    }
    session = Session({"recipe": recipe, "run_dir": str(folder), "resume": False, "roots": []}, [])
    session.build()
    return session.iterate


def in_one_file() -> Block:
    """PPO as single-file implementations write it: one vector of environments, two networks, plain torch."""
    import gymnasium
    import numpy as np
    import torch
    from torch import nn

    torch.manual_seed(0)
    vector = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(ENV) for _ in range(ENVS)])
    size, actions = vector.single_observation_space.shape[0], vector.single_action_space.shape[0]

    def network(outputs: int) -> nn.Module:
        first, second = HIDDEN
        return nn.Sequential(
            nn.Linear(size, first), nn.Tanh(), nn.Linear(first, second), nn.Tanh(), nn.Linear(second, outputs)
        )

    policy, value, log_std = network(actions), network(1), nn.Parameter(torch.zeros(actions))
    optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters(), log_std], lr=LR)
    length = STEPS // ENVS
    state = {"observation": torch.as_tensor(vector.reset(seed=0)[0], dtype=torch.float32)}

    def distribution(observations: torch.Tensor) -> torch.distributions.Normal:
        return torch.distributions.Normal(policy(observations), log_std.exp())

    def block() -> None:
        observations = torch.zeros(length + 1, ENVS, size)
        chosen, log_probs = torch.zeros(length, ENVS, actions), torch.zeros(length, ENVS)
        rewards, ended = torch.zeros(length, ENVS), torch.zeros(length, ENVS)
        for t in range(length):
            observations[t] = state["observation"]
            with torch.no_grad():
                found = distribution(observations[t])
                chosen[t] = found.sample()
                log_probs[t] = found.log_prob(chosen[t]).sum(-1)
            following, reward, terminated, truncated, _ = vector.step(np.clip(chosen[t].numpy(), -1, 1))
            state["observation"] = torch.as_tensor(following, dtype=torch.float32)
            rewards[t] = torch.as_tensor(reward)
            ended[t] = torch.as_tensor(terminated | truncated, dtype=torch.float32)
        observations[length] = state["observation"]
        with torch.no_grad():
            values = value(observations).squeeze(-1)
        advantages, last = torch.zeros(length, ENVS), torch.zeros(ENVS)
        for t in reversed(range(length)):
            delta = rewards[t] + GAMMA * values[t + 1] * (1 - ended[t]) - values[t]
            last = delta + GAMMA * GAE_LAMBDA * (1 - ended[t]) * last
            advantages[t] = last
        returns = (advantages + values[:-1]).flatten()
        advantages = advantages.flatten()
        advantages = (advantages - advantages.mean()) / advantages.std()
        flat, acts, olds = observations[:-1].flatten(0, 1), chosen.flatten(0, 1), log_probs.flatten()
        for _ in range(EPOCHS):
            for part in torch.randperm(STEPS).split(MINIBATCH):
                ratio = (distribution(flat[part]).log_prob(acts[part]).sum(-1) - olds[part]).exp()
                clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
                loss = -torch.min(ratio * advantages[part], clipped * advantages[part]).mean()
                loss = loss + (value(flat[part]).squeeze(-1) - returns[part]).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    return block


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=12, help="measured blocks of each")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    import mujoco
    import ray
    import torch

    mujoco.set_mju_user_warning(lambda message: None)  # else it writes them to a file in the current folder
    torch.set_num_threads(1)
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    with tempfile.TemporaryDirectory() as scratch:
        hand = by_hand()
        rows = {"RLlib by hand": hand, "launch": ours(Path(scratch) / "rl" / "run"), "one file": in_one_file()}
        rows["RLlib by hand, again"] = hand
        times: dict[str, list[float]] = {name: [] for name in rows}
        for number in range(args.iterations + 1):
            for name, block in rows.items():
                before = time.process_time()
                block()
                if number:  # the first pays for warming up
                    times[name].append(time.process_time() - before)
            print(number, "of", args.iterations, file=sys.stderr, flush=True)
    rates = {name: STEPS / statistics.median(found) for name, found in times.items()}
    hands = [rates["RLlib by hand"], rates["RLlib by hand, again"]]
    print("| PPO on HalfCheetah-v5 | env steps per CPU second, median | to the mean of RLlib by hand |\n|---|---|---|")
    for name, rate in rates.items():
        print(f"| {name} | {rate:,.0f} | {rate / statistics.mean(hands):.2f} |")


if __name__ == "__main__":
    main()
