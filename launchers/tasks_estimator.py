"""Fits an estimator on `train`, scores it on the held-out splits, and cross-validates it if it says so."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from raycipe.framework.recorded import mapped, real

if TYPE_CHECKING:
    from raycipe.framework.contracts import Trained
    from raycipe.launchers.tasks import Job


def fit(job: Job) -> Trained:
    """The fitted estimator and everything around it.

    A fitted estimator is never saved: its files would be pickles, which run code when they are read. It is fitted again
    from the recipe where a run starts from one, with the same numbers.
    """
    from raycipe.framework.contracts import Trained
    from raycipe.framework.measuring import write
    from raycipe.framework.tables import roles_of, tables
    from raycipe.framework.training.loading import load_data
    from raycipe.launchers.fan_out import mapper

    data, splits = load_data(job.plain)
    is_ours = "estimator" in job.recipe.plain
    if is_ours:
        job.keep_to_data(splits)
    found = tables(splits)
    shared = {"recipe": job.plain, "facts": data.facts, "train": found["train"], "roots": job.roots}
    estimator = build_estimator(shared)
    estimator.check(data.facts, found)
    estimator.fan_out = mapper(job.places)
    job.on_info(f"fitting {job.plain['estimator']['type']} on {len(found['train']['X']):,} examples ...")
    with threads(job.plain):
        train = found["train"]
        estimator.fit(train["X"], train["y"], **roles_of(train))
        for split in ("val", "test") if is_ours else ():
            if split in found:
                part = found[split]
                scores = estimator.scores(data.facts, part["X"], part["y"], **roles_of(part))
                job.find({f"{split}/{name}": value for name, value in scores.items()})
    if is_ours:
        evidence = estimator.evidence()
        values = {f"estimator/{name}": value for name, value in evidence.values.items()}
        job.find(values, write(evidence, "estimator", job.run.path, parquet=True))
        job.outcome["examples"] = len(train["X"])
        if estimator.folds:
            cross_validate(job, shared, estimator.folds)
    return Trained(
        recipe=job.plain,
        splits=splits,
        facts=data.facts,
        estimator=estimator,
        seed=job.seed,
        fan_out=mapper(job.places),
    )


def build_estimator(shared: Mapping[str, Any]) -> Any:
    from raycipe.framework.registry import build
    from raycipe.framework.training.loading import seed_of

    recipe = shared["recipe"]
    seed = {"seed": seed_of(recipe, "estimator")}
    return build(recipe["estimator"], "estimators", "estimator", seed, shared["facts"])


@contextmanager
def threads(recipe: Mapping[str, Any]) -> Iterator[None]:
    """As many threads as the recipe reserves CPUs, wherever this runs: sums in another order would be other numbers."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(max(1, int((recipe.get("resources") or {}).get("cpus_per_worker", 1)))):
        yield


# ---------------------------------------------------------------------------------------------- cross-validation


def are_scores(content: Any) -> bool:
    """Whether this is what a fold that has ended leaves: a figure at least."""
    return bool(content) and mapped(real)(content)


def cross_validate(job: Job, shared: Mapping[str, Any], folds: int) -> None:
    """The mean and standard deviation of each score over the folds of `train`: `estimator/cv_<score>` and `_sd`."""
    from raycipe.framework.contracts import Measured
    from raycipe.framework.files import number, to_json, write_atomic
    from raycipe.framework.measuring import write
    from raycipe.framework.tables import folds_of
    from raycipe.launchers.fan_out import Tally, fan_out

    held_out = folds_of(shared["train"], shared["facts"], folds, job.seed)
    files = [job.unit(f"fold-{fold:04d}") for fold in range(folds)]
    left = [fold for fold in range(folds) if job.recorded(files[fold], are_scores) is None]
    tally = Tally("fold", folds, folds - len(left), job.progress)

    def ended(place: int, scores: dict[str, float]) -> None:
        write_atomic(files[left[place]], to_json(scores))
        tally.end()

    items = [held_out[fold] for fold in left]
    fan_out(score_fold, shared, items, job.places, on_end=ended, is_stopped=job.stop.exists)
    rows = [{"fold": fold, **json.loads(file.read_text(encoding="utf-8"))} for fold, file in enumerate(files)]
    names = [name for name in rows[0] if name != "fold" and all(name in row for row in rows)]
    columns = {name: [float(number(row[name])) for row in rows] for name in names}
    values = {f"estimator/cv_{name}": float(np.mean(column)) for name, column in columns.items()}
    values.update({f"estimator/cv_{name}_sd": float(np.std(column, ddof=1)) for name, column in columns.items()})
    table = [{"fold": row["fold"], **{name: number(row.get(name)) for name in names}} for row in rows]
    job.find(values, write(Measured(tables={"folds": table}), "estimator", job.run.path, parquet=True))


def score_fold(shared: Mapping[str, Any], held_out: np.ndarray) -> dict[str, float]:
    """Fit without the fold, score on it; runs in whatever process."""
    from raycipe.framework import plugins
    from raycipe.framework.tables import roles_of, rows_of

    plugins.adopt([tuple(root) for root in shared["roots"]])
    train = shared["train"]
    seen = rows_of(train, np.setdiff1d(np.arange(len(train["y"])), held_out))
    unseen = rows_of(train, held_out)
    estimator = build_estimator(shared)
    with threads(shared["recipe"]):
        estimator.fit(seen["X"], seen["y"], **roles_of(seen))
        scores: dict[str, float] = estimator.scores(shared["facts"], unseen["X"], unseen["y"], **roles_of(unseen))
    return scores
