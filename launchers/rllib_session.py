"""The training of an agent: iterations of an RLlib algorithm, evaluations, rows, checkpoints.

`step` counts environment steps of training. RLlib is imported here, hence after Ray's settings are made.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from ray.exceptions import RayActorError

from raycipe.framework import plugins
from raycipe.framework.comm import LocalComm
from raycipe.framework.contracts import Agent, Env
from raycipe.framework.episodes import Episode, evaluation_seeds, summary
from raycipe.framework.errors import RunError
from raycipe.framework.registry import build
from raycipe.framework.training.due import TIMED_CHECKPOINT_S
from raycipe.framework.training.plan import Summary
from raycipe.framework.training.precision import machine, threads_of
from raycipe.framework.training.rows import Rows
from raycipe.framework.training.saved import Checkpoint
from raycipe.framework.training.signals import Watch
from raycipe.framework.training.state import capture_rng, restore_rng, seed_all
from raycipe.framework.training.store import Job, Store, pt_writer, safetensors_writer
from raycipe.launchers.rllib_build import build_algorithm, evaluate
from raycipe.launchers.rllib_failures import Health, check_tensors, failure_of
from raycipe.launchers.rllib_metrics import Recent, env_steps_of, episodes_of, learning_of
from raycipe.launchers.rllib_results import finish

FOLDER = "rllib"  # RLlib's own checkpoint inside of ours
KEEP = 2


def train(config: Mapping[str, Any]) -> dict[str, Any]:
    """Train what the recipe says; begins again from the newest checkpoint when a learner or this run's Ray lost one."""
    plugins.adopt([tuple(root) for root in config["roots"]])
    allowed = int((config["recipe"].get("resources") or {}).get("max_failures", 2))
    warnings: list[str] = []
    for failures in range(allowed + 1):
        session = Session({**config, "resume": config["resume"] or failures > 0}, warnings)
        try:
            return asdict(session.train())
        except KeyboardInterrupt:  # a second signal: Ray's own end ends the actors, whatever they are doing
            session.forget()
            raise
        except RayActorError as death:
            if failures == allowed:
                text = f"a learner died (restarted {failures} times before)"
                raise RunError("worker", text, "see log.txt; resources.max_failures allows more tries") from death
            session.warn(f"a learner died: starting again from the newest checkpoint ({failures + 1} of {allowed})")
        finally:
            session.close()
    raise AssertionError("the loop above always ends by itself")


class Session:
    """One attempt at a run."""

    def __init__(self, config: Mapping[str, Any], warnings: list[str]) -> None:
        self.recipe: Mapping[str, Any] = config["recipe"]
        self.run_dir, self.resume = Path(config["run_dir"]), bool(config["resume"])
        self.roots = config["roots"]
        self.section: Mapping[str, Any] = self.recipe["train"]
        self.seed = int(self.recipe.get("seed") or 0)
        self.summary = Summary(warnings=warnings)
        self.rows = Rows(self.run_dir / "metrics.jsonl")
        self.store = Store(self.run_dir / "checkpoints", LocalComm(), KEEP, self.warn, self.rows.flush)
        self.step = self.iteration = self.attempt = 0
        self.evaluated_at = self.saved_at = -1
        self.owes_evaluation = False
        self.seconds_before, self.started = 0.0, time.monotonic()
        self.saved_clock = self.started
        self.first_step_at: float | None = None
        self.resumed_from: int | None = None
        self.latest: dict[str, float] = {}
        self.recent = Recent()
        self.parameter_count = 0
        self.episodes: list[Episode] = []  # of the last evaluation
        self.checkpoint: Checkpoint | None = None  # that this attempt goes on from
        self.algorithm: Any = None
        self.watch: Any = None

    def train(self) -> Summary:
        self.checkpoint = self.store.newest() if self.resume else None
        self.step = self.checkpoint.step if self.checkpoint else 0  # the first news of progress come before the rest
        threads = threads_of(self.recipe)  # RLlib gives its actors as many; networks this small lose by more
        with machine(threads, False, torch.device("cpu")), Watch(self.run_dir, self.news) as watch:
            self.watch = watch
            try:
                self.build()
                self._restore()
                self._run()
            except BaseException as error:
                self.rows.flush(sync=False)
                raise failure_of(error, self) from error
            self.rows.close()
        return self.summary

    def close(self) -> None:
        if self.algorithm is not None:
            self.algorithm.stop()
            self.forget()

    def forget(self) -> None:
        """Leave the algorithm as it is."""
        if self.algorithm is not None:
            folder = Path(self.algorithm.logdir)  # RLlib makes one in the home folder for each algorithm
            self.algorithm = None
            with suppress(OSError):  # it goes unless somebody has put something there
                folder.rmdir()

    # ------------------------------------------------------------------------------------------ start

    def build(self) -> None:
        seed_all(self.seed)
        self.env: Env = build(self.recipe["env"], "envs", "env")
        self.facts = self.env.facts()
        self.agent: Agent = build(self.recipe["agent"], "agents", "agent", facts=self.facts)
        self.algorithm = build_algorithm(self.recipe, self.agent, self.facts, str(self.run_dir), self.roots)
        self.health = Health(self)
        policy = self.agent.policy(self.algorithm)
        self.parameter_count = sum(parameter.numel() for parameter in policy.module.parameters())

    def _restore(self) -> None:
        """Take up the newest checkpoint; without one metrics.jsonl starts empty."""
        checkpoint = self.checkpoint
        self.attempt = (self.rows.last_attempt() if self.resume else -1) + 1
        if checkpoint is None:
            self.rows.cut(0)
            return
        state = checkpoint.load("state.pt")
        self.algorithm.restore_from_path(str((checkpoint.path / FOLDER).absolute()))
        self.agent.load_extra_state(self.algorithm, checkpoint.load("rank0.pt"))
        restore_rng(state["rng"])
        self.step, self.iteration, self.evaluated_at = state["step"], state["iteration"], state["evaluated_at"]
        self.owes_evaluation = state.get("owes_evaluation", False)
        self.seconds_before, self.summary.best = state["seconds"], state["best"]
        self.latest = dict(state["latest"])
        self.recent.load(state["recent"])
        self.rows.cut(state["rows"])
        self.saved_at = self.resumed_from = self.step

    # ------------------------------------------------------------------------------------------ the loop

    def _run(self) -> None:
        if self.owes_evaluation:
            self.evaluate()
        while not self._is_over():
            before = self.step
            self.iterate()
            if self._is_due("eval_every", before):
                self.evaluate()
            is_time = time.monotonic() - self.saved_clock >= TIMED_CHECKPOINT_S
            if (self._is_due("checkpoint_every", before) or is_time) and self.saved_at != self.step:
                self.save()
        if self.summary.stopped != "user" and self.evaluated_at != self.step:
            self.evaluate()
        if self.saved_at != self.step or self.store.failures:
            self.save(final=True)
        self._summarise()
        if self.summary.stopped != "user":
            finish(self)

    def iterate(self) -> None:
        """One iteration of RLlib's and its row."""
        before, began = self.step, time.monotonic()
        result = self.algorithm.train()
        self.health.check(result)
        self.step, self.iteration = env_steps_of(result), self.iteration + 1
        self.first_step_at = self.first_step_at or time.time()
        self.recent.add(episodes_of(result))
        metrics = {**self.recent.metrics(), **learning_of(result)}
        metrics["time/env_steps_per_s"] = (self.step - before) / (time.monotonic() - began)
        self.row(metrics)
        self._judge(metrics)

    def _is_over(self) -> bool:
        """Whether training has reached its length or its goal, or was asked to stop."""
        stopped = self.summary.stopped
        if self.watch.requested:
            stopped = "user"
        elif self.section.get("minutes") and self.seconds() >= 60 * self.section["minutes"]:
            stopped = stopped or "minutes"
        self.summary.stopped = stopped
        steps, iterations = self.section.get("env_steps"), self.section.get("iterations")
        reached = self.step >= steps if steps else self.iteration >= (iterations or 0)
        return stopped is not None or reached

    def _is_due(self, cadence: str, before: int) -> bool:
        every = int(self.section.get(cadence) or 0)
        return every > 0 and self.step // every > before // every

    def _judge(self, metrics: Mapping[str, float]) -> None:
        """Keep the best of each return, and stop at the goal."""
        for name in ("rl/episode_return", "rl/eval_return"):
            best = self.summary.best.get(name)
            if name in metrics and (best is None or metrics[name] > best["value"]):
                self.summary.best[name] = {"value": metrics[name], "step": self.step}
        until = self.section.get("until")
        if until and metrics.get(until["metric"], float("-inf")) >= until["at_least"]:
            self.summary.stopped = self.summary.stopped or "until"

    def evaluate(self) -> None:
        """Play the evaluation's episodes with the present policy: always the same ones, and none of the training's.

        One that is stopped midway says nothing, and one that fails takes no training with it.
        """
        seeds = evaluation_seeds(self.seed, int(self.section.get("eval_episodes") or 10))
        policy = self.agent.policy(self.algorithm)
        self.owes_evaluation = True
        try:
            episodes = evaluate(self.algorithm, policy, self.recipe, self.roots, seeds, str(self.run_dir))
        except RunError as error:
            if error.kind != "nonfinite":  # weights that are not finite are worth nothing
                self.save()
            raise
        if len(episodes) < len(seeds):
            self.summary.stopped = "user"
            return
        self.episodes = episodes
        metrics = summary(self.episodes)
        self.evaluated_at, self.owes_evaluation = self.step, False
        self.row(metrics)
        self._judge(metrics)
        if self.best_step == self.step:
            self.save()

    @property
    def best_step(self) -> int | None:
        """When the best evaluation was: the checkpoint of that step stays."""
        best = self.summary.best.get("rl/eval_return")
        return None if best is None else int(best["step"])

    def save(self, final: bool = False) -> None:
        self.saved_at, self.saved_clock = self.step, time.monotonic()
        state = {
            "step": self.step,
            "iteration": self.iteration,
            "evaluated_at": self.evaluated_at,
            "owes_evaluation": self.owes_evaluation,
            "seconds": self.seconds(),
            "best": self.summary.best,
            "latest": self.latest,
            "recent": self.recent.state(),
            "rows": self.rows.count,
            "rng": capture_rng(),
        }
        writers = {
            "model.safetensors": safetensors_writer(self._tensors()),
            "state.pt": pt_writer(state),
            "rank0.pt": pt_writer(self.agent.extra_state(self.algorithm)),
            FOLDER: lambda path: self.algorithm.save_to_path(str(path.absolute())),
        }
        best = [] if self.best_step is None else [self.best_step]
        about = {"kind": "agent", "tied": {}, "best": [{"step": step} for step in best], "sharded": False}
        self.store.save(Job(self.step, writers, about, keep=best), final=final)

    def _tensors(self) -> dict[str, Any]:
        tensors = self.agent.policy(self.algorithm).tensors()
        check_tensors(tensors, self.step)
        return {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}

    def _summarise(self) -> None:
        found = self.summary
        found.status = "interrupted" if found.stopped == "user" else "done"
        found.final, found.steps, found.examples = dict(self.latest), self.step, self.step
        found.checkpoints = [
            {"path": f"checkpoints/step-{step:08d}", "step": step, "best": step == self.best_step}
            for step in self.store.steps()
        ]

    # ------------------------------------------------------------------------------------------ small things

    def row(self, metrics: Mapping[str, float]) -> None:
        """One row of metrics.jsonl at the present step."""
        self.latest.update(metrics)
        head = {"step": self.step, "epoch": None, "seconds": self.seconds(), "attempt": self.attempt}
        self.rows.add({**head, **metrics})

    def seconds(self) -> float:
        return round(self.seconds_before + time.monotonic() - self.started, 3)

    def news(self) -> dict[str, Any]:
        """What the progress display needs."""
        total = self.section.get("env_steps")
        if not total and self.iteration:
            total = round(self.step * self.section["iterations"] / self.iteration)
        return {
            "step": self.step,
            "total_steps": total,
            "epoch": None,
            "examples": self.step,
            "unit": "env steps",
            "parameters": self.parameter_count,
            "resumed_from": self.resumed_from,
            "first_step_at": self.first_step_at,
            "time": time.time(),
            "warnings": list(self.summary.warnings),
        }

    def warn(self, text: str) -> None:
        self.summary.warnings.append(text)
