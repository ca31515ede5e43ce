"""The sections of a recipe that are no components: their keys, ranges, defaults and help.

Read by `framework/schema.py` alone; everything else reads the generated schema. The rules *between* keys and
sections stand in `framework/sections.py`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from raycipe.framework.arguments import Count, Default, InputFile, Length, NonNegative, Pattern, Positive, Range

Mode = Literal["min", "max"]
Whole = Annotated[int, Range(ge=0, le=10**9)]
Workers = Annotated[int, Range(ge=0, le=10**4)]

SECTION_KINDS = {  # section -> kind of its component; `measures` holds a list of them
    "data": "data",
    "model": "models",
    "task": "tasks",
    "optimizer": "optimizers",
    "env": "envs",
    "agent": "agents",
    "estimator": "estimators",
    "editor": "editors",
    "study": "studies",
}


class Paper(TypedDict, total=False):
    """Where a method comes from.

    Args:
        title: title of the paper
        authors: its authors
        venue: where it appeared
        year: year of publication
        url: where to read it
    """

    title: str
    authors: str
    venue: str
    year: Annotated[int, Range(ge=1600, le=3000)]
    url: str


class _Goal(TypedDict):
    metric: str
    mode: Mode


class KeepBest(_Goal, total=False):
    """Which checkpoints are kept as the best ones.

    Args:
        metric: the metric to compare, e.g. val/accuracy
        mode: whether the smallest or the largest value is best
        count: how many of the best stay
    """

    count: Annotated[Count, Default(1)]


class EarlyStop(_Goal, total=False):
    """When training ends early.

    Args:
        metric: the metric to watch, e.g. val/loss
        mode: whether smaller or larger is better
        patience: evaluations without improvement before training stops
        min_delta: smallest change that counts as an improvement
    """

    patience: Annotated[Count, Default(3)]
    min_delta: Annotated[NonNegative, Default(0)]


class Train(TypedDict, total=False):
    """How a model is trained.

    Args:
        epochs: passes over the training examples (10 where neither `epochs` nor `steps` is given)
        steps: optimizer steps, instead of `epochs`
        minutes: stop after this time, whatever is left
        batch_size: examples per optimizer step over all workers
        accumulate: micro-batches per optimizer step
        eval_batch_size: examples per evaluation batch (null: as large as a training micro-batch)
        eval_every: evaluate after this many epochs (steps, if the length is given in steps; null: each epoch)
        checkpoint_every: save after this many epochs (steps, if the length is given in steps; null: each epoch)
        measure_every: take the measures after this many epochs (steps, likewise), too (null: at the end alone)
        keep: newest checkpoints that are kept
        keep_best: also keep the best checkpoints
        early_stop: end training when a metric no longer improves
        clip_norm: largest norm of the whole gradient (null: no clipping)
        precision: number format of the forward and backward pass
        compile: compile the model with torch.compile
        ema: decay of the weights' exponential moving average, at most (1 + t) / (10 + t) after t steps (null: none)
        parallel: how several workers share the model (null: replicas with the exchange that fits the device)
        shuffle: another order of the examples in each epoch
        drop_last: leave out the short batch at an epoch's end
        label_skew: every worker has examples of its own, with shares of the labels from a Dirichlet law of this
            concentration; 0 sorts them by label, null gives all workers a share of the same
        deterministic: use deterministic algorithms where a GPU offers faster ones
        threads: CPU threads per worker (null: its whole CPUs)
        log_every: steps between rows of training metrics
        train_metrics: compute training metrics on a sample of the batches, or on all
        on_nonfinite: end the run at a loss that is not finite, or skip that step
        evaluate_weights: which weights are evaluated and measured
        async_checkpoint: write checkpoints beside training (null: when the model is large)
        dataloader_workers: processes that read map-style examples, per worker
    """

    epochs: Count
    steps: Count
    minutes: Annotated[Positive | None, Default(None)]
    batch_size: Annotated[Count, Default(64)]
    accumulate: Annotated[Count, Default(1)]
    eval_batch_size: Annotated[Count | None, Default(None)]
    eval_every: Annotated[Count | None, Default(None)]
    checkpoint_every: Annotated[Count | None, Default(None)]
    measure_every: Annotated[Count | None, Default(None)]
    keep: Annotated[Count, Default(2)]
    keep_best: Annotated[KeepBest | None, Default(None)]
    early_stop: Annotated[EarlyStop | None, Default(None)]
    clip_norm: Annotated[Positive | None, Default(None)]
    precision: Annotated[Literal["fp32", "bf16", "fp16"], Default("fp32")]
    compile: Annotated[bool, Default(False)]
    ema: Annotated[Annotated[float, Range(gt=0, lt=1)] | None, Default(None)]
    parallel: Annotated[Literal["ddp", "fsdp"] | None, Default(None)]
    shuffle: Annotated[bool, Default(True)]
    drop_last: Annotated[bool, Default(True)]
    label_skew: Annotated[NonNegative | None, Default(None)]
    deterministic: Annotated[bool, Default(True)]
    threads: Annotated[Annotated[int, Range(ge=1, le=1024)] | None, Default(None)]
    log_every: Annotated[Count, Default(50)]
    train_metrics: Annotated[Literal["sampled", "all"], Default("sampled")]
    on_nonfinite: Annotated[Literal["raise", "skip"], Default("raise")]
    evaluate_weights: Annotated[Literal["model", "ema"], Default("model")]
    async_checkpoint: Annotated[bool | None, Default(None)]
    dataloader_workers: Annotated[Annotated[int, Range(ge=0, le=256)], Default(0)]


class Until(TypedDict):
    """A goal that ends training.

    Args:
        metric: the metric to watch, e.g. rl/episode_return
        at_least: training ends when the metric reaches this value
    """

    metric: str
    at_least: float


class TrainAgent(TypedDict, total=False):
    """How an agent is trained.

    Args:
        env_steps: environment steps over all runners
        iterations: training iterations, instead of `env_steps`
        until: end training at a goal
        minutes: stop after this time, whatever is left
        eval_every: environment steps between evaluations
        eval_episodes: episodes per evaluation
        checkpoint_every: environment steps between checkpoints
    """

    env_steps: Count
    iterations: Count
    until: Annotated[Until | None, Default(None)]
    minutes: Annotated[Positive | None, Default(None)]
    eval_every: Annotated[Count | None, Default(None)]
    eval_episodes: Annotated[Count, Default(10)]
    checkpoint_every: Annotated[Count | None, Default(None)]


class Resources(TypedDict, total=False):
    """What a run asks of its machines.

    Args:
        num_workers: training processes; 0 trains in the launching process, [min, max] lets their number vary
        simulated_workers: computed one after the other in a single worker, with the numbers of so many; for studies of
            many workers on a small machine (null: none)
        cpus_per_worker: CPUs per worker, env runner or learner, fractions allowed
        gpus_per_worker: GPUs per worker, fractions allowed
        memory_per_worker: memory per worker, e.g. "8GB" (null: not asked for)
        num_env_runners: processes that play an agent's training episodes; 0 plays them in the launching process
        num_learners: learner processes of an agent; 0 learns in the launching process
        gpus_per_learner: GPUs per learner of an agent, fractions allowed
        placement: workers close together, or spread over the nodes
        max_failures: restarts after a worker, env runner, learner or node is lost
        custom: amounts of a cluster's own resources, by name, per worker or env runner
    """

    num_workers: Annotated[Workers | Annotated[list[Annotated[int, Range(ge=1, le=10**4)]], Length(2, 2)], Default(1)]
    simulated_workers: Annotated[Annotated[int, Range(ge=2, le=1000)] | None, Default(None)]
    cpus_per_worker: Annotated[Annotated[float, Range(gt=0, le=10**4)], Default(1)]
    gpus_per_worker: Annotated[NonNegative, Default(0)]
    memory_per_worker: Annotated[
        Annotated[str, Pattern("^[0-9]+(\\.[0-9]+)?(MB|GB|TB)$", 'a size such as "8GB"')] | None, Default(None)
    ]
    num_env_runners: Annotated[Workers, Default(0)]
    num_learners: Annotated[Workers, Default(0)]
    gpus_per_learner: Annotated[NonNegative, Default(0)]
    placement: Annotated[Literal["pack", "spread"], Default("pack")]
    max_failures: Annotated[Whole, Default(2)]
    custom: Annotated[dict[str, NonNegative], Default({})]


class _Run(TypedDict):
    run: str


class Start(_Run, total=False):
    """The earlier run whose model is taken.

    Args:
        run: its run folder or id
        checkpoint: the last or the best checkpoint, a step, what an editor made of the model (edited), or each one of
            them in turn (all, for measures alone)
        part: only the model, or the optimizer's state and position too
    """

    checkpoint: Annotated[Literal["last", "best", "edited", "all"] | Whole, Default("last")]
    part: Annotated[Literal["model", "all"], Default("model")]


class _Predict(TypedDict):
    path: Annotated[str, InputFile((".parquet", ".csv"), folder=True)]


class Predict(_Predict, total=False):
    """Predictions of the trained model, or the fitted estimator, for the rows of files.

    Args:
        path: a .parquet or .csv file, or a folder of such files, with the columns that `data` reads; relative to the
            recipe
        output: the table of predictions, in the run's artifacts; its ending says the format
        columns: columns of the input that stand in the output too (null: all of them)
        batch_size: rows that are predicted at a time
    """

    output: Annotated[
        Annotated[str, Pattern("^[A-Za-z0-9][A-Za-z0-9_-]{0,63}\\.(parquet|csv)$", "a file name such as rows.parquet")],
        Default("predictions.parquet"),
    ]
    columns: Annotated[list[str] | None, Default(None)]
    batch_size: Annotated[Count, Default(1024)]


class Tracker(TypedDict, total=False):
    """How a run appears in a tracking tool.

    Args:
        project: project to report under
        experiment: name of the experiment in it
        tags: labels of the run
    """

    project: str
    experiment: str
    tags: dict[str, str]


class Trackers(TypedDict, total=False):
    """Tracking tools that get a run's metrics. Addresses and keys belong to the machine, not to a recipe.

    Args:
        tensorboard: event files in the run folder
        mlflow: MLflow
        wandb: Weights & Biases
    """

    tensorboard: Tracker
    mlflow: Tracker
    wandb: Tracker


class _SchedulerType(TypedDict):
    type: Literal["none", "asha", "pbt", "median", "hyperband"]


class Scheduler(_SchedulerType, total=False):
    """What stops or changes trials early.

    Args:
        type: the scheduler
        grace_period: evaluations that each trial gets
        reduction_factor: share of trials that is stopped at each rung, as 1 in so many
        max_t: evaluations of the longest trial
        interval: evaluations between changes of a trial (pbt)
    """

    grace_period: Count
    reduction_factor: Annotated[int, Range(ge=2, le=100)]
    max_t: Count
    interval: Count


class _Space(TypedDict):
    space: dict[str, Any]


class Sweep(_Space, total=False):
    """Many trials of one recipe.

    Args:
        space: dotted path -> values to try: a list, or {uniform: [low, high]} and its relatives
        metric: the metric that tells a good trial from a bad one
        mode: whether the smallest or the largest metric is best
        objectives: metric -> min or max, for several at once (instead of metric and mode)
        trials: number of trials
        search: how the values of the next trial are chosen
        scheduler: what stops trials early
        concurrent: trials at the same time (null: as many as fit)
        max_failures: restarts of a failed trial
        minutes: no new trial after this time
    """

    metric: str
    mode: Mode
    objectives: dict[str, Mode]
    trials: Annotated[int, Range(ge=1, le=10**6)]
    search: Annotated[Literal["random", "grid", "optuna"], Default("random")]
    scheduler: Annotated[Literal["none", "asha", "pbt", "median", "hyperband"] | Scheduler, Default("none")]
    concurrent: Annotated[Count | None, Default(None)]
    max_failures: Annotated[Whole, Default(0)]
    minutes: Annotated[Positive | None, Default(None)]


class Head(TypedDict, total=False):
    """What a recipe says about itself.

    Args:
        recipe: version of the recipe language
        name: short name of the recipe; run folders are named after it
        about: what the recipe shows, in a sentence
        paper: where the method comes from
        seed: everything random derives from it
        start: take the model from an earlier run (folder or id) instead of training from nothing
        track: tracking tools that get the metrics
        expect: metric -> the claim, checked at the end of each run, e.g. test/accuracy: ">= 0.95"
    """

    recipe: Literal[1]
    name: Annotated[
        str,
        Pattern(
            "^[a-z0-9]([a-z0-9_.-]{0,62}[a-z0-9_-])?$",
            "1 to 64 of a-z 0-9 _ . - that begin with a letter or digit and don't end in a dot",
        ),
    ]
    about: str
    paper: Paper
    seed: Annotated[Annotated[int, Range(ge=0, le=2**32 - 1)], Default(0)]
    start: str | Start
    track: list[Literal["tensorboard", "mlflow", "wandb"]] | Trackers
    expect: dict[str, str]
