"""What a fit of zboost says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from raycipe.components.estimators import _boost as boosting
from raycipe.components.estimators._masses import Adaptive, Query
from raycipe.components.weak_learners.amplified import Mixture
from raycipe.components.z_sets import _geometry as geometry
from raycipe.framework.contracts import Measured
from raycipe.framework.errors import RunError

if TYPE_CHECKING:
    from raycipe.components.estimators.zboost import Zboost

NAMES = (
    *(
        "rounds",
        "queries",
        "separated",
        "separated_at",
        "pair_loss",
        "pair_bound",
        "least_edge",
        "mean_p",
        "low",
        "high",
    ),
    *("gamma", "p_star", "round_bound", "violations", "phase", "least_error"),
    *("amplified_eps", "amplified_depth"),
)
SOURCE = (
    "Known of the paper on Z-learners: its abstract (the promise, a complete test, boosting, amplification). "
    "Derived from it here: the test by segments, the search for label masses, the constants."
)


def trivial(found: geometry.Boostability) -> RunError:
    """The refusal of a promise that a coin keeps, with the coin."""
    p, fp, fn = found.coin[len(found.coin) // 2]
    message = f"z is {found.verdict}: a coin keeps this promise, so it can't be boosted"
    coin = f"at label mass {p:.2f} the coin has FP {fp:.4g} and FN {fn:.4g}, in z; measures/boostability shows all"
    return RunError("recipe", message, f"{coin}\ntighten z, or set force: true to see it fail", "estimator.z")


def broken(number: int, query: Query, promised: float) -> RunError:
    message = f"the learner broke its promise in round {number}: |tpr - fpr| = {query.edge:.4g} < {promised:.4g}"
    hint = f"asked at label mass {query.p:.4g}; widen z, or set on_violation: adapt"
    return RunError("data", message, hint, "estimator.weak")


def least_error(X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """What FP + FN can't fall below on these rows (n, d): equal rows with both labels contradict each other."""
    rows = np.ascontiguousarray(X + 0.0).view(np.dtype((np.void, X.dtype.itemsize * X.shape[1]))).ravel()
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    starts = np.concatenate([[0], np.nonzero(ordered[1:] != ordered[:-1])[0] + 1])
    if len(starts) == len(rows):
        return 0.0
    positive = np.add.reduceat(np.where(y, weights, 0.0)[order], starts)
    negative = np.add.reduceat(np.where(y, 0.0, weights)[order], starts)
    return float(np.minimum(positive, negative).sum() / weights.sum())


def evidence(fitted: Zboost) -> Measured:
    boosted = fitted.boosted_
    edges = [each.edge for each in boosted.rounds]
    values: dict[str, float] = {
        "rounds": len(boosted.rounds),
        "queries": len(boosted.asked),
        "separated": float(boosted.is_separated),
        "pair_loss": fitted.pair_loss_,
        "violations": boosted.violations,
        "least_error": fitted.least_error_,
        "low": float(np.clip(fitted.thresholds_[0], 0, 1)),
        "high": float(np.clip(fitted.thresholds_[1], 0, 1)),
    }
    if boosted.separated_at is not None:
        values["separated_at"] = boosted.separated_at
    if edges:
        values["pair_bound"] = boosted.rounds[-1].bound
        values["least_edge"] = min(edges)
        values["mean_p"] = float(np.mean([each.p for each in boosted.rounds]))
    mixed = [h for h in boosted.hypotheses if isinstance(h, Mixture)]
    if mixed:
        values["amplified_eps"] = float(np.mean([h.eps for h in mixed]))
        values["amplified_depth"] = float(np.mean([h.depth for h in mixed]))
    if fitted.test_ is not None:
        values["gamma"] = fitted.test_.gamma
        if fitted.test_.is_boostable:
            values["p_star"] = fitted.test_.p_star
    if fitted.bound_ is not None:
        values["round_bound"] = fitted.bound_
    if isinstance(fitted.search_, Adaptive):
        values["phase"] = fitted.search_.phase
    return Measured(
        values=values,
        text={"verdict": verdict(fitted)},
        tables={
            name: rows for name, rows in (("rounds", round_rows(boosted)), ("queries", query_rows(boosted))) if rows
        },
        figures={"rounds": lambda: draw(boosted)} if edges else {},
    )


def verdict(fitted: Zboost) -> str:
    """The fit in sentences."""
    boosted, test = fitted.boosted_, fitted.test_
    lines = [f"Positive class: {fitted.positive_}. Label mass: {fitted.masses_}."]
    if test is not None:
        lines.append(f"The promise is {test.verdict}: gamma {test.gamma:.6g} at label mass {test.p_star:.6g}.")
    ends = {
        "separated": "all training labels were separated",
        "rounds": "the rounds were used up",
        "stalled": f"no edge in {fitted.patience} rounds in a row: nothing is left to learn at the masses asked at",
    }
    bound = f" (bound {fitted.bound_})" if fitted.bound_ is not None else ""
    lines.append(f"{len(boosted.rounds)} rounds{bound}, {len(boosted.asked)} queries; {ends[boosted.stop]}.")
    if boosted.separated_at is not None and boosted.stop != "separated":
        lines.append(f"All training labels were separated after {boosted.separated_at} rounds.")
    if boosted.violations:
        lines.append(f"The learner broke its promise {boosted.violations} times.")
    if fitted.least_error_:
        least = f"FP + FN can't fall below {fitted.least_error_:.4g} on the training examples"
        lines.append(f"Equal rows with both labels: {least}.")
    return "\n".join([*lines, SOURCE]) + "\n"


def round_rows(boosted: boosting.Boosted) -> list[dict[str, Any]]:
    return [{"round": t, **each._asdict()} for t, each in enumerate(boosted.rounds)]


def query_rows(boosted: boosting.Boosted) -> list[dict[str, Any]]:
    """Every pair that the learner gave, before any flip."""
    return [{"round": t, "p": p, "fp": fp, "fn": fn} for t, p, fp, fn in boosted.asked]


def draw(boosted: boosting.Boosted) -> Any:
    """The edge and the bound on the pair loss, round by round."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 4.5), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    top.plot([each.edge for each in boosted.rounds], color="#4c78a8")
    top.set(ylabel="|tpr - fpr|", ylim=(0, None))
    bottom.semilogy([max(each.bound, 1e-300) for each in boosted.rounds], color="#f58518")
    bottom.set(xlabel="round", ylabel="bound on the pair loss")
    return figure
