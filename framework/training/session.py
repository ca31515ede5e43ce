"""The training loop: one for every number of workers, with and without Ray.

Construction: threads and RNG, data, model, average, exchange (with its warm pass), optimizer, state of a checkpoint.
Restoring is the last act before the first batch, since all of the former may draw random numbers. Between due events
nothing synchronises but the exchange of gradients.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from raycipe.framework.comm import Comm, LocalComm
from raycipe.framework.contracts import Batch, Optimizer, OptimizerRun
from raycipe.framework.splits import digests
from raycipe.framework.training import checkpointing
from raycipe.framework.training.build import build_optimizer, build_parts, check_equal, copy_for_average
from raycipe.framework.training.due import Due, assess, checkpoint, is_time_over, run_due, score
from raycipe.framework.training.exchange import FSDP, choose, shard
from raycipe.framework.training.failures import enough_memory, memory_error, nonfinite_loss, out_of_memory
from raycipe.framework.training.feed import Feed, Step, check_batch, in_order, order_of
from raycipe.framework.training.gradients import Gradients, Losses
from raycipe.framework.training.judge import Judge, check_targets
from raycipe.framework.training.plan import Length, Settings, Summary, TrainPlan
from raycipe.framework.training.players import Players
from raycipe.framework.training.precision import Precision, machine, threads_of
from raycipe.framework.training.probe import probe
from raycipe.framework.training.resumable import start_over
from raycipe.framework.training.rows import Interval, Rows
from raycipe.framework.training.signals import Watch, stop_file
from raycipe.framework.training.skew import skewed_order
from raycipe.framework.training.state import Average, capture_rng, restore_rng, seed_all
from raycipe.framework.training.store import Store

Hook = Callable[["Session", str], None]
MAX_SKIPPED = 10  # steps in a row that `on_nonfinite: skip` leaves out
FEW_EXAMPLES = 8  # of a pass before training


def train(
    plan: TrainPlan,
    comm: Comm | None = None,
    device: torch.device | str = "cpu",
    hooks: Sequence[Hook] = (),
    after: Callable[[Session], None] | None = None,
    store: Store | None = None,
    rows: Rows | None = None,
) -> Summary:
    """Train what the plan says, from its newest checkpoint if it resumes. Every rank calls this.

    A hook is called with the session and one of `start log evaluate checkpoint end`, at the same step on all ranks; it
    must leave random generators, parameters and gradients alone. `after` is called at the end of a complete run, when
    the session's model holds the final weights. Raises RunError for what a user can act on.
    """
    settings = Settings.of(plan.recipe)
    where = torch.device(device)
    with machine(threads_of(plan.recipe), settings.deterministic, where):
        session = Session(plan, settings, comm or LocalComm(), where, hooks, store, rows)
        with Watch(plan.run_dir, session.news, session.comm.rank == 0) as watch:
            session.watch = watch
            try:
                session.run()
                if after is not None and session.stopped != "user":
                    after(session)
            except BaseException as error:
                session.rows.flush(sync=False)
                if out_of_memory(error):
                    raise memory_error(error, session) from error
                raise
            finally:
                session.feed.close()
            session.rows.close()
    return session.summary


class Session:
    """One rank's run. Attributes that hooks and checkpoints read: `step`, `latest` (metric -> value), `model`."""

    def __init__(
        self,
        plan: TrainPlan,
        settings: Settings,
        comm: Comm,
        device: torch.device,
        hooks: Sequence[Hook],
        store: Store | None,
        rows: Rows | None,
    ) -> None:
        self.plan, self.settings, self.comm, self.device, self.hooks = plan, settings, comm, device, hooks
        self.seed = int(plan.recipe.get("seed") or 0)
        self.run_dir = Path(plan.run_dir)
        self.rows = rows or Rows(self.run_dir / "metrics.jsonl", write=comm.rank == 0)
        self.store = store or Store(self.run_dir / "checkpoints", comm, settings.keep)
        self.store.warn, self.store.flush = self.warn, self.rows.flush
        self.watch: Any = None
        self.summary = Summary()
        self.step = self.examples = self.skipped = 0
        self.current = Step(0, 0, 0, torch.zeros(0, dtype=torch.int64), [], [])  # before the first batch
        self.attempt, self.seconds_before = 0, 0.0
        self.started = time.monotonic()
        self.first_step_at: float | None = None
        self.resumed_from: int | None = None
        self.latest: dict[str, float] = {}
        self.judge = Judge(plan.recipe, settings)
        self.stopped: str | None = None
        self.closed = False  # the optimizer's last exchange is done
        self.saved_at = time.monotonic()
        self.gradient_norm: Tensor | None = None
        self._build()

    # ------------------------------------------------------------------------------------------ construction

    def _build(self) -> None:
        settings = self.settings
        if self.comm.world_size > 1:
            self.store.check_shared()
        self.precision = Precision(settings.precision, self.device)
        seed_all(self.seed, self.comm.rank)
        parts = build_parts(self.plan, self.device, self.seed)
        self.splits, self.model, self.task, self.data = parts.splits, parts.model, parts.task, parts.data
        self.initial_model = parts.initial_model
        self.parameter_count = sum(parameter.numel() for parameter in self.model.parameters())
        self.data_digests = {name: digests(split) for name, split in self.splits.items()}
        check_equal(self.model, self.comm)
        check_batch(self.splits["train"], settings.batch_size, self.comm.world_size, settings.accumulate)
        check_targets(self.plan.recipe, self.splits, self.task)
        with enough_memory(parts.section, self.data.facts):
            probe(self.model, self.task, self._few_examples(), self.precision.autocast)
            self._build_for_training()

    def _build_for_training(self) -> None:
        """What distributes, reads, optimizes and averages."""
        settings, split = self.settings, self.splits["train"]
        average = copy_for_average(self.model, settings.ema)
        owns, clips = _exchanges(self.plan.recipe), settings.clip_norm is not None
        self.exchange = choose(self.model, self.comm, settings.parallel, owns, clips, self.device)
        self.sharded = isinstance(self.exchange, FSDP)
        called: Any = torch.compile(self.exchange.module) if settings.compile else self.exchange.module
        how = (settings.batch_size, self.seed, settings.shuffle, settings.drop_last)
        if settings.label_skew is None:
            self.order = order_of(split, *how)
        else:
            self.order = skewed_order(split, self.comm.world_size, settings.label_skew, *how)
        self.feed = Feed(
            split,
            self.order,
            self.comm.rank,
            self.comm.world_size,
            settings.accumulate,
            self.device,
            settings.dataloader_workers,
            self.exchange.collective_backward,
        )
        self.exchange.warm(self._warm_backward)
        self.average = self._average(average)
        self.length = Length.of(settings, self.order.steps_per_epoch)
        self._build_optimizer()
        self.interval = Interval()
        checks = settings.on_nonfinite == "skip" or (self.exchange.per_step_flags and self.device.type == "cpu")
        kind = Gradients if self.optimizer.uses_gradients else Losses
        self.gradients = kind(self.task, called, self.exchange, self.precision, self.comm, checks)

    def _average(self, copy: torch.nn.Module | None) -> Average | None:
        if copy is None or self.settings.ema is None:
            return None
        if self.sharded:
            shard(copy, self.comm.world_size)
        return Average(self.model, copy, self.settings.ema)

    def _build_optimizer(self) -> None:
        self.optimizer = build_optimizer(self.plan.recipe, self.model, self.data.facts)
        self.base_rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        comm = self.comm.group() if self.optimizer.exchanges else self.comm
        self.optimizer_comm = comm
        problem = Players(self) if self.task.saddle else None
        again = lambda: self.gradients.again(self.current)  # noqa: E731
        examples = lambda: self.current.own  # noqa: E731
        self.optimizer.prepare(OptimizerRun(self.length.total_steps, comm, self.seed, again, problem, examples))
        if self.optimizer.whole_batch:
            self.feed.replicate()

    def _warm_backward(self) -> None:
        rng, buffers = capture_rng(), [buffer.clone() for buffer in self.model.buffers()]
        with self.precision.autocast():
            loss = self.task.loss(self.exchange.module, self._few_examples())
        loss.value.backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for buffer, old in zip(self.model.buffers(), buffers, strict=True):
                buffer.copy_(old)
        restore_rng(rng)

    def _few_examples(self) -> Batch:
        split = self.splits["train"]
        return next(in_order(split, min(FEW_EXAMPLES, len(split)), self.device))

    # ------------------------------------------------------------------------------------------ the loop

    def run(self) -> None:
        self.begin()
        if self._is_stop_asked():
            self.stopped = "user"
        while self.step < self.length.total_steps and self.stopped is None:
            self.advance()
        self._finish()

    def _is_stop_asked(self) -> bool:
        """Whether somebody asked to stop while the workers were starting; all ranks agree."""
        asked = torch.tensor(float(stop_file(self.run_dir).exists()), device=self.device)
        return bool(self.comm.all_reduce(asked, "max"))

    def begin(self) -> None:
        """Take up a checkpoint, if there is one; the next thing is a step."""
        self._restore()
        self.hook("start")
        self.model.train()
        self.due = Due(self._cadences(), self.step, self.length.total_steps)

    def advance(self) -> None:
        """One step, and what is due after it."""
        self._train_step()
        if self.comm.world_size == 1 and self.stopped is None and is_time_over(self):
            self.stopped = "minutes"  # many workers agree on it at the next row of training
        if self.step >= self.due.next or self.stopped is not None:
            run_due(self)

    def _cadences(self) -> dict[str, int]:
        cadences = {"log": self.settings.log_every, "checkpoint": self.length.checkpoint_every}
        if "val" in self.splits or self.judge.needed:
            cadences["evaluate"] = self.length.eval_every
        if self.length.measure_every and self.plan.recipe.get("measures"):
            cadences["measure"] = self.length.measure_every
        return cadences

    def _train_step(self) -> None:
        step = self.current = self.feed.next()
        schedule = self.optimizer.schedule
        if schedule is not None:
            factor = schedule.factor(self.step, self.length.total_steps)
            for group, rate in zip(self.optimizer.param_groups, self.base_rates, strict=True):
                group["lr"] = rate * factor
        bad = self.gradients.compute(step, self.step + 1, self.interval, self._scores_due(step))
        exchange = self.exchange
        exchange.finish(stop=self.watch.requested, nonfinite=bad)
        stops, bad_ranks = exchange.flags
        if stops and exchange.per_step_flags:
            self.stopped = "user"
        if self.settings.on_nonfinite == "skip" and not exchange.per_step_flags:
            bad_ranks = float(self.comm.all_reduce(torch.tensor(bad_ranks, device=self.device), "max"))
        if bad_ranks:
            self._skip_step()
        else:
            self.skipped = 0
            self._update()
        self.step += 1
        self.examples += step.size
        if self.first_step_at is None:
            self.first_step_at = time.time()

    def _scores_due(self, step: Step) -> bool:
        """Every rank must know the names of the scores, hence not where one has no examples."""
        if step.size < self.comm.world_size:
            return False
        done = self.step + 1
        judged = self.judge.needs_log and (done % self.length.eval_every == 0 or done >= self.length.total_steps)
        return self.settings.train_metrics == "all" or done % self.settings.log_every == 0 or judged

    def _update(self) -> None:
        self.precision.unscale(self.optimizer, self.exchange, self.comm)
        if self.settings.clip_norm is not None:
            self.gradient_norm = self.exchange.clip(self.settings.clip_norm)
        synced = self.optimizer.synced_at
        self.precision.step(self.optimizer)
        self.exchange.zero()
        if self.average is not None:
            if not self.optimizer.local_weights:
                self.average.update()
            elif self.optimizer.synced_at != synced:
                with self.optimizer.consensus():
                    self.average.update()

    def _skip_step(self) -> None:
        """A loss of some rank is not finite: no rank moves."""
        self.skipped += 1
        if self.settings.on_nonfinite == "raise" or self.skipped > MAX_SKIPPED:
            raise nonfinite_loss(self)
        self.exchange.zero()
        if self.interval.losses and not bool(torch.isfinite(self.interval.losses[-1])):
            self.interval.drop_last()
        self.warn(f"step {self.step + 1} was left out: its loss is not finite")

    # ------------------------------------------------------------------------------------------ start and end

    def _restore(self) -> None:
        """Take up the newest checkpoint; without one (a fresh run) metrics.jsonl starts empty."""
        checkpoint = self.store.newest() if self.plan.resume else None
        before = self.rows.last_attempt() if self.plan.resume else -1
        self.attempt = self.comm.broadcast_object(before) + 1
        if checkpoint is None:
            if self.plan.resume:
                start_over(self)
            seed_all(self.seed, self.comm.rank)
            self.rows.cut(0)
        else:
            checkpointing.restore(self, checkpoint)
        self.resumed_from = checkpoint.step if checkpoint else None

    def close_optimizer(self) -> None:
        """The last exchange of an optimizer that exchanges by itself: then its weights are the common ones."""
        if self.optimizer.exchanges and not self.closed:
            self.optimizer.finish()
            if self.average is not None and self.optimizer.local_weights:
                self.average.update()
        self.closed = True

    def _finish(self) -> None:
        if self.stopped in ("early_stop", "minutes") and not self.closed:
            self.close_optimizer()
            if self.optimizer.exchanges:
                assess(self)
                checkpoint(self, final=True)
        self.store.poll(wait=True, final=True)
        if self.stopped != "user" and "test" in self.splits:
            self.row(score(self, "test"))
        self._summarise()
        self.hook("end")

    def _summarise(self) -> None:
        summary = self.summary
        summary.status = "interrupted" if self.stopped == "user" else "done"
        summary.stopped, summary.final = self.stopped, dict(self.latest)
        summary.best = self.judge.summary()
        summary.steps, summary.epochs, summary.examples = self.step, self.epoch(), self.examples
        summary.bytes_sent = sum(self.comm.gather_objects(self.optimizer_comm.bytes_sent))
        best = {entry["step"] for entry in self.judge.kept()}
        summary.checkpoints = [
            {"path": f"checkpoints/step-{step:08d}", "step": step, "best": step in best} for step in self.store.steps()
        ]

    # ------------------------------------------------------------------------------------------ small things

    def row(self, metrics: Mapping[str, float]) -> None:
        """One row of metrics.jsonl at the current step."""
        self.latest.update(metrics)
        head = {"step": self.step, "epoch": self.epoch(), "seconds": self.seconds(), "attempt": self.attempt}
        self.rows.add({**head, **metrics})

    def epoch(self) -> float:
        """Epochs done, as a number that ends an epoch at a whole one."""
        order = self.order
        return order.epoch + min(1.0, order.offset / (order.steps_per_epoch * order.batch_size))

    def seconds(self) -> float:
        return round(self.seconds_before + time.monotonic() - self.started, 3)

    def news(self) -> dict[str, Any]:
        """What the progress display needs."""
        return {
            "step": self.step,
            "total_steps": self.length.total_steps,
            "epoch": self.epoch(),
            "examples": self.examples,
            "parameters": self.parameter_count,
            "resumed_from": self.resumed_from,
            "first_step_at": self.first_step_at,
            "time": time.time(),
            "warnings": list(self.summary.warnings),
        }

    def warn(self, text: str) -> None:
        self.summary.warnings.append(text)

    def hook(self, event: str) -> None:
        for hook in self.hooks:
            hook(self, event)


def _exchanges(recipe: Any) -> bool:
    """Whether the recipe's optimizer exchanges gradients by itself: asked before it can be built."""
    from raycipe.framework.registry import get

    section = recipe["optimizer"]
    if isinstance(section, Optimizer):
        return section.exchanges
    cls: Any = get("optimizers", section if isinstance(section, str) else section["type"])
    return bool(cls.exchanges)
