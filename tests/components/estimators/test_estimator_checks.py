"""scikit-learn's own checks of estimators, with what is expected to fail and why."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from raycipe.framework.registry import make

RANGES = "constructors check ranges, so that a recipe is refused before anything runs"
DEFAULTS = "defaults are told as in a recipe: nested components, lists and maps"
COLUMN = "y of shape (n, 1) is what data of one target gives, and no mistake"
COUNTED = "rows are counted: smoothing, calibration part and folds depend on how many there are"
INIT, DEFAULT = "check_do_not_raise_errors_in_init_or_set_params", "check_parameters_default_constructible"
WEIGHTED, FLAT = "check_sample_weight_equivalence_on_dense_data", "check_supervised_y_2d"
EXPECTED = {
    "sklearn": {INIT: RANGES, DEFAULT: DEFAULTS},
    "stacking": {INIT: RANGES, FLAT: COLUMN, WEIGHTED: COUNTED},
    "one_vs_rest": {},
    "operating_point": {DEFAULT: DEFAULTS},
    "adaboost": {DEFAULT: DEFAULTS},
    "zboost": {DEFAULT: DEFAULTS, WEIGHTED: COUNTED},
}


def scikit(name: str, *preprocessing: str, **arguments: Any) -> Any:
    return make("estimators/sklearn", name=name, preprocessing=list(preprocessing), arguments=arguments)


def expected(estimator: Any) -> dict[str, str]:
    found = dict(EXPECTED[type(estimator).type_name])
    if getattr(estimator, "preprocessing", []):
        found |= {FLAT: COLUMN, WEIGHTED: "steps before the estimator are fitted without weights"}
    if getattr(estimator, "calibration", 0):
        found["check_classifiers_train"] = "the vote's threshold need not be where the calibrated probability is 1/2"
    return found


ESTIMATORS = [
    scikit("LogisticRegression", "standard_scaler"),
    scikit("Ridge"),
    make(
        "estimators/stacking",
        estimators=[scikit("GaussianNB"), scikit("DecisionTreeClassifier", max_depth=3)],
        final=scikit("LogisticRegression"),
        parts=2,
    ),
    make("estimators/zboost", rounds=20),
    make("estimators/zboost", rounds=20, calibration=0),
    make("estimators/adaboost", rounds=20, calibration=0),
    make("estimators/operating_point", base=scikit("LogisticRegression"), calibration=0),
    make("estimators/one_vs_rest", base=make("estimators/zboost", rounds=10, calibration=0)),
]


@pytest.mark.slow
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected)  # type: ignore[untyped-decorator]
def test_scikit_learn_accepts_it(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its tiny data sets
        check(estimator)
