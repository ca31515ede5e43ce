"""What a training run is told: the resolved recipe, its run folder, and the train section with every default filled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from raycipe.framework.errors import RunError


@dataclass(frozen=True)
class TrainPlan:
    """Plain data only, so that it travels to workers."""

    recipe: Mapping[str, Any]  # resolved
    run_dir: str
    resume: bool = False
    start_dir: str | None = None  # the run folder that `start` names, found by the driver
    took_over: bool = False  # the newest checkpoint comes from a run with other values, which are not taken over
    spacing_s: float = 0.0  # a cadence's checkpoint is left out that comes sooner than this after the one before
    keeps_data: bool = False  # in this process, for the next training


@dataclass(frozen=True)
class Target:
    """A metric to judge by: `mode` says whether `min` or `max` is better."""

    metric: str
    mode: Literal["min", "max"] = "min"

    def better(self, value: float, than: float | None) -> bool:
        """Strictly better: ties keep the earlier, NaN never counts."""
        if value != value:
            return False
        if than is None:
            return True
        return value < than if self.mode == "min" else value > than


@dataclass(frozen=True)
class KeepBest(Target):
    count: int = 1  # how many of the best checkpoints stay


@dataclass(frozen=True)
class EarlyStop(Target):
    patience: int = 3  # evaluations without an improvement
    min_delta: float = 0.0


@dataclass(frozen=True)
class Settings:
    """The `train` section. `eval_every`, `checkpoint_every` and `measure_every` count epochs if `epochs` is given, else
    steps; None stands for once an epoch, of `measure_every` for never."""

    epochs: int | None = None
    steps: int | None = None
    minutes: float | None = None
    batch_size: int = 64
    accumulate: int = 1
    eval_batch_size: int | None = None
    eval_every: int | None = None
    checkpoint_every: int | None = None
    measure_every: int | None = None
    keep: int = 2
    keep_best: KeepBest | None = None
    early_stop: EarlyStop | None = None
    clip_norm: float | None = None
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    compile: bool = False
    ema: float | None = None
    parallel: Literal["ddp", "fsdp"] | None = None
    shuffle: bool = True
    drop_last: bool = True
    label_skew: float | None = None
    deterministic: bool = True
    threads: int | None = None
    log_every: int = 50
    train_metrics: Literal["sampled", "all"] = "sampled"
    on_nonfinite: Literal["raise", "skip"] = "raise"
    evaluate_weights: Literal["model", "ema"] = "model"
    async_checkpoint: bool | None = None
    dataloader_workers: int = 0

    @staticmethod
    def of(recipe: Mapping[str, Any]) -> Settings:
        """From a resolved recipe; entries that belong to other kinds of training are left alone."""
        section = dict(recipe.get("train") or {})
        if section.get("keep_best"):
            section["keep_best"] = KeepBest(**section["keep_best"])
        if section.get("early_stop"):
            section["early_stop"] = EarlyStop(**section["early_stop"])
        names = {entry.name for entry in fields(Settings)}
        settings = Settings(**{name: value for name, value in section.items() if name in names})
        if settings.evaluate_weights == "ema" and settings.ema is None:
            raise RunError("recipe", "`evaluate_weights: ema` needs `train.ema`", where="train.evaluate_weights")
        return settings


@dataclass
class Length:
    """A run's length and cadences in optimizer steps."""

    steps_per_epoch: int
    total_steps: int
    eval_every: int
    checkpoint_every: int
    measure_every: int | None = None

    @staticmethod
    def of(settings: Settings, steps_per_epoch: int) -> Length:
        if settings.steps is not None:
            total, unit = settings.steps, 1
        else:
            total, unit = (settings.epochs or 10) * steps_per_epoch, steps_per_epoch

        def cadence(every: int | None) -> int:
            return steps_per_epoch if every is None else every * unit

        return Length(
            steps_per_epoch,
            total,
            cadence(settings.eval_every),
            cadence(settings.checkpoint_every),
            settings.measure_every and cadence(settings.measure_every),
        )


@dataclass
class Summary:
    """What a training run leaves behind."""

    status: Literal["done", "interrupted"] = "done"
    stopped: str | None = None  # why it ended before its length: user, early_stop, minutes
    final: dict[str, float] = field(default_factory=dict)
    best: dict[str, dict[str, float]] = field(default_factory=dict)  # metric -> {value, step}
    steps: int = 0
    epochs: float = 0.0
    examples: int = 0
    bytes_sent: int = 0
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    skipped: list[dict[str, str]] = field(default_factory=list)
    artifacts: list[dict[str, str]] = field(default_factory=list)
