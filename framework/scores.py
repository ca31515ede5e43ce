"""The figures of a fitted estimator on held-out examples, under the names that tasks use."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raycipe.framework.errors import RunError
from raycipe.framework.expect import read_metric

if TYPE_CHECKING:
    from raycipe.framework.contracts import Estimator, Study

CLASSIFICATION = ("accuracy", "f1", "auroc", "loss")
REGRESSION = ("rmse", "mae", "r2", "loss")
NAMES = tuple(dict.fromkeys((*CLASSIFICATION, *REGRESSION)))


def scores(estimator: Any, facts: Mapping[str, Any], X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Classes: accuracy and macro f1, with probabilities the loss (cross-entropy, nats) and auroc too.
    Numbers: rmse, mae, r2 and loss, the mean squared error. X (n, d), y (n,) or (n, targets).

    A figure that the examples do not define (auroc where a class is absent) is left out.
    """
    if "num_classes" in facts:
        return _of_classes(estimator, facts["num_classes"], X, y)
    from sklearn import metrics

    predicted = np.asarray(estimator.predict(X)).reshape(y.shape)
    squared = float(metrics.mean_squared_error(y, predicted))
    found = {"loss": squared, "rmse": squared**0.5, "mae": float(metrics.mean_absolute_error(y, predicted))}
    return {**found, "r2": float(metrics.r2_score(y, predicted))} if len(y) > 1 else found


def _of_classes(estimator: Any, num_classes: int, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    from sklearn import metrics

    predicted = estimator.predict(X)
    found = {
        "accuracy": float(metrics.accuracy_score(y, predicted)),
        "f1": float(metrics.f1_score(y, predicted, average="macro", zero_division=0.0)),
    }
    probabilities = class_probabilities(estimator, num_classes, X)
    if probabilities is None:
        return found
    found["loss"] = float(metrics.log_loss(y, probabilities, labels=np.arange(num_classes)))
    if len(np.unique(y)) == num_classes:
        shown = probabilities[:, 1] if num_classes == 2 else probabilities
        with warnings.catch_warnings():  # of rows that sum to one within float32 alone
            warnings.simplefilter("ignore", UserWarning)
            found["auroc"] = float(metrics.roc_auc_score(y, shown, multi_class="ovr", average="macro"))
    return found


def class_probabilities(estimator: Any, num_classes: int, X: np.ndarray) -> np.ndarray | None:
    """(n, num_classes), zero for classes that the training examples lack; None if the estimator tells none."""
    if not hasattr(estimator, "predict_proba"):
        return None
    given = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    whole = np.zeros((len(given), num_classes))
    whole[:, np.asarray(estimator.classes_, dtype=np.int64)] = given
    return whole


def check_judged(
    recipe: Mapping[str, Any], facts: Mapping[str, Any], splits: Mapping[str, Any], estimator: Estimator, study: Any
) -> None:
    """Raise RunError if a claim, or the metric of a study, is a score that this estimator does not report."""
    if study is None:
        found = {text: read_metric(text) for text in recipe.get("expect") or {}}
        for text, metric in found.items():
            if metric is not None:
                _check_reported(metric.name, f"expect.{text}", facts, splits, estimator)
    elif isinstance(vars(study).get("metric"), str) and not _varies_data(study, recipe):
        _check_reported(study.metric, "study.metric", facts, splits, estimator)


def _varies_data(study: Study, recipe: Mapping[str, Any]) -> bool:
    """Whether some run of a study has other splits, or another estimator: what they report is not known here."""
    paths = {path for variation in study.variations(recipe) for path in variation.changes}
    return any(path.partition(".")[0] == "data" or path == "estimator" for path in paths)


def _check_reported(
    metric: str, where: str, facts: Mapping[str, Any], splits: Mapping[str, Any], estimator: Estimator
) -> None:
    from raycipe.framework.contracts import Estimator

    group, _, name = metric.partition("/")
    if group not in ("val", "test"):
        return
    if group not in splits:
        hint = f"let the data have a `{group}` split"
        raise RunError("recipe", f"nothing reports {metric}: the data has no `{group}` split", hint, where)
    if type(estimator).scores is not Estimator.scores:
        return  # its own
    names = (*(CLASSIFICATION if "num_classes" in facts else REGRESSION), *estimator.scored)
    if name not in names:
        target = f"{facts['num_classes']} classes" if "num_classes" in facts else "numbers"
        hint = f"an estimator of {target} reports {', '.join(f'{group}/{word}' for word in names)}"
        raise RunError("recipe", f"nothing reports {metric}", hint, where)
