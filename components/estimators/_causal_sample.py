"""Shared by the causal estimators: arrays as they come → a checked sample, its folds, and how well the arms overlap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from raycipe.framework.contracts import Sample
from raycipe.framework.contracts.causal import Design
from raycipe.framework.streams import numpy_generator

Array = np.ndarray
FEWEST, FEWEST_OF_ARM, FEW = 20, 5, 50
MOST_CLIPPED, SMALLEST_ESS = 0.10, 30.0  # beyond, there is no overlap to speak of
MUCH_CLIPPED, SMALL_ESS = 0.05, 60.0
SHOWN = 5


class Read(NamedTuple):
    """A sample, what was done to it, and what is doubtful."""

    sample: Sample
    notes: list[str]


def read(X: Any, y: Any, roles: Mapping[str, Any], design: Design, level: float | None) -> Read:
    """Raises ValueError naming the role, the columns and the first rows of what can't be used."""
    X = _numbers("X", X)
    X = X.reshape(len(X), -1)
    y = _numbers("y", y)
    if y.ndim == 2 and y.shape[1] != 1:
        raise ValueError(f"y: needs one outcome, not {y.shape[1]}")
    y = y.reshape(-1)
    notes: list[str] = []
    if roles.get("treatment") is None:
        raise ValueError("treatment: the data has none")
    is_binary = design in ("binary", "instrument")
    a = _binary("treatment", roles["treatment"], notes) if is_binary else _numbers("treatment", roles["treatment"])
    z = None
    if design == "instrument":
        if roles.get("instrument") is None:
            raise ValueError("instrument: the data has none, and this estimand needs one")
        z = _binary("instrument", roles["instrument"], notes)
    truth = roles.get("truth")
    sample = Sample(
        X=X,
        y=y,
        treatment=a.reshape(-1),
        instrument=z,
        weights=_weights(roles.get("weights"), len(y)),
        groups=None if roles.get("groups") is None else np.asarray(roles["groups"]).reshape(-1),
        truth=None if truth is None else np.asarray(truth, dtype=np.float64),
    )
    for name, values in vars(sample).items():
        if values is not None and len(values) != len(X):
            raise ValueError(f"{name}: has {len(values)} rows, and X {len(X)}")
    _enough(sample, design, level, notes)
    return Read(sample, notes)


def _numbers(name: str, values: Any) -> Array:
    """float64; NaN and infinities are refused with their place."""
    array = np.asarray(values, dtype=np.float64)
    bad = ~np.isfinite(array)
    if bad.any():
        rows = np.unique(np.nonzero(bad)[0])
        told = ", ".join(map(str, rows[:SHOWN].tolist()))
        columns = np.unique(np.nonzero(bad)[1]).tolist() if array.ndim == 2 else []
        where = f"columns {columns[:SHOWN]}, " if columns else ""
        raise ValueError(f"{name}: {int(bad.sum())} values are missing or infinite ({where}first rows {told})")
    return array


def _binary(name: str, values: Any, notes: list[str]) -> Array:
    """0 and 1; two other values are mapped in sorted order, which is noted."""
    array = np.asarray(values).reshape(-1)
    if array.dtype.kind == "f":
        array = _numbers(name, array)
    distinct = np.unique(array)
    if len(distinct) == 1:
        raise ValueError(f"{name}: has one value only ({distinct[0]})")
    if len(distinct) > 2:
        hint = "take estimand apo, ape or dose_response" if name == "treatment" else "it must have two"
        raise ValueError(f"{name}: has {len(distinct)} values: {hint}")
    if distinct.tolist() not in ([0, 1], [False, True]):
        notes.append(f"{name}: {distinct[0]} is taken as 0 and {distinct[1]} as 1")
    return (array == distinct[1]).astype(np.float64)


def _weights(values: Any, n: int) -> Array | None:
    """Rescaled to mean 1."""
    if values is None:
        return None
    weights = _numbers("weights", values).reshape(-1)
    if len(weights) != n:
        raise ValueError(f"weights: has {len(weights)} rows, and X {n}")
    if (weights < 0).any() or weights.sum() == 0:
        raise ValueError("weights: must be at least 0, and not all 0")
    return weights / weights.mean()


def _enough(sample: Sample, design: Design, level: float | None, notes: list[str]) -> None:
    n, a = len(sample), sample.treatment
    if n < FEWEST:
        raise ValueError(f"X: {n} rows are too few: {FEWEST} at least")
    if sample.y.min() == sample.y.max():
        raise ValueError("y: is constant")
    arms = {"binary": [a == 0, a == 1], "level": [a == level]}.get(design, [])
    if design == "instrument":
        assert sample.instrument is not None
        arms = [sample.instrument == 0, sample.instrument == 1]
    smallest = min((int(arm.sum()) for arm in arms), default=n)
    if design == "level" and smallest == 0:
        raise ValueError(f"treatment: no row has the level {level}: {np.unique(a)[:SHOWN].tolist()}")
    if smallest < FEWEST_OF_ARM:
        raise ValueError(f"treatment: the smallest arm has {smallest} rows: {FEWEST_OF_ARM} at least")
    if design in ("continuous", "dose") and a.min() == a.max():
        raise ValueError("treatment: has one value only")
    if n < FEW or smallest < FEW // 2:
        notes.append(f"few rows: {n}, {smallest} of them in the smallest arm")


# ---------------------------------------------------------------------------------------------- folds


def make_folds(sample: Sample, folds: int, stratify: bool, design: Design, seed: int, level: float | None) -> Array:
    """The number of the fold of each row, (n,): whole clusters, or equal shares of every arm, at random."""
    generator = numpy_generator(seed, "folds")
    n = len(sample)
    if folds == 1:
        return np.zeros(n, dtype=np.int64)
    if sample.groups is not None:
        names, number = np.unique(sample.groups, return_inverse=True)
        if len(names) < folds:
            raise ValueError(f"groups: {folds} folds of {len(names)} groups, which must not be divided")
        return (generator.permutation(len(names)) % folds)[number]
    if not stratify or design in ("continuous", "dose"):
        return generator.permutation(n) % folds
    stratum = sample.treatment if level is None else (sample.treatment == level).astype(np.float64)
    if design == "instrument" and sample.instrument is not None:
        stratum = stratum + 2 * sample.instrument
    found = np.zeros(n, dtype=np.int64)
    start = 0
    for value in np.unique(stratum):
        rows = np.flatnonzero(stratum == value)
        found[generator.permutation(rows)] = (start + np.arange(len(rows))) % folds
        start += len(rows)
    return found


def largest_folds(sample: Sample, folds: int, design: Design) -> int:
    """As many folds as the smaller arm has rows, at most."""
    if design != "binary":
        return folds
    smallest = int(min((sample.treatment == 0).sum(), (sample.treatment == 1).sum()))
    return min(folds, smallest)


# ---------------------------------------------------------------------------------------------- overlap


class Overlap(NamedTuple):
    """How well the arms overlap; `verdict` is `ok`, `weak` or `none`."""

    clipped: float  # share of rows whose propensity had to be clipped
    ess_control: float  # effective sample sizes (sum w)^2 / sum w^2 of the inverse propensity weights
    ess_treated: float
    verdict: str


def arm_weights(e: Array, estimand: str) -> tuple[Array, Array]:
    """The weights with which the estimand counts an untreated and a treated row, (n,) each."""
    if estimand == "att":
        return e / (1 - e), np.ones(len(e))
    if estimand == "atc":
        return np.ones(len(e)), (1 - e) / e
    if estimand == "ato":
        return e, 1 - e
    return 1 / (1 - e), 1 / e


def overlap(e: Array, chosen: Array, clip: float, estimand: str = "ate") -> Overlap:
    """Of probabilities as they were estimated, before clipping, and who was chosen (0 or 1).

    Only the side on which the estimand divides by a small number counts as clipped: for the treated that of e near 1.
    """
    is_low, is_high = e < clip, e > 1 - clip
    bad = {"att": is_high, "atc": is_low, "apo": is_low, "ato": np.zeros(len(e), dtype=bool)}.get(
        estimand, is_low | is_high
    )
    clipped = float(bad.mean())
    control_weights, treated_weights = arm_weights(np.clip(e, max(clip, 1e-12), 1 - max(clip, 1e-12)), estimand)
    treated = effective_size(treated_weights[chosen == 1])
    control = effective_size(control_weights[chosen == 0])
    smallest = treated if estimand == "apo" else min(treated, control)
    verdict = "none" if clipped > MOST_CLIPPED or smallest < SMALLEST_ESS else "ok"
    if verdict == "ok" and (clipped > MUCH_CLIPPED or smallest < SMALL_ESS):
        verdict = "weak"
    return Overlap(clipped, control, treated, verdict)


def effective_size(weights: Array) -> float:
    return float(weights.sum() ** 2 / (weights**2).sum()) if len(weights) else 0.0
