"""Shared by the estimators on scikit-learn: what may be named, how it is built, and which data it can take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Literal, get_args

import numpy as np

from raycipe.framework.errors import RunError, shown
from raycipe.framework.words import listed, nearest

# The only names that a recipe can say. What takes other estimators or functions as arguments is not among them.
LinearModel = Literal[
    "LogisticRegression",
    "RidgeClassifier",
    "SGDClassifier",
    "Perceptron",
    "LinearRegression",
    "Ridge",
    "Lasso",
    "ElasticNet",
    "BayesianRidge",
    "ARDRegression",
    "HuberRegressor",
    "QuantileRegressor",
    "PoissonRegressor",
    "GammaRegressor",
    "TweedieRegressor",
    "TheilSenRegressor",
    "SGDRegressor",
    "RidgeCV",
    "LassoCV",
    "ElasticNetCV",
]
Ensemble = Literal[
    "HistGradientBoostingClassifier",
    "GradientBoostingClassifier",
    "RandomForestClassifier",
    "ExtraTreesClassifier",
    "AdaBoostClassifier",
    "HistGradientBoostingRegressor",
    "GradientBoostingRegressor",
    "RandomForestRegressor",
    "ExtraTreesRegressor",
    "AdaBoostRegressor",
]
SupportVectors = Literal["SVC", "LinearSVC", "NuSVC", "SVR", "LinearSVR", "NuSVR"]
Neighbors = Literal["KNeighborsClassifier", "NearestCentroid", "KNeighborsRegressor"]
Tree = Literal["DecisionTreeClassifier", "DecisionTreeRegressor"]
NaiveBayes = Literal["GaussianNB", "BernoulliNB", "MultinomialNB", "ComplementNB"]
Discriminant = Literal["LinearDiscriminantAnalysis", "QuadraticDiscriminantAnalysis"]
GaussianProcess = Literal["GaussianProcessClassifier", "GaussianProcessRegressor"]
NeuralNetwork = Literal["MLPClassifier", "MLPRegressor"]
Kernel = Literal["KernelRidge"]
Decomposition = Literal["PLSRegression"]
Dummy = Literal["DummyClassifier", "DummyRegressor"]
Name = Literal[
    LinearModel,
    Ensemble,
    SupportVectors,
    Neighbors,
    Tree,
    NaiveBayes,
    Discriminant,
    GaussianProcess,
    NeuralNetwork,
    Kernel,
    Decomposition,
    Dummy,
]
HOMES: dict[str, str] = {
    name: module
    for module, names in {
        "linear_model": LinearModel,
        "ensemble": Ensemble,
        "svm": SupportVectors,
        "neighbors": Neighbors,
        "tree": Tree,
        "naive_bayes": NaiveBayes,
        "discriminant_analysis": Discriminant,
        "gaussian_process": GaussianProcess,
        "neural_network": NeuralNetwork,
        "kernel_ridge": Kernel,
        "cross_decomposition": Decomposition,
        "dummy": Dummy,
    }.items()
    for name in get_args(names)
}
STEPS = {
    "standard_scaler": ("preprocessing", "StandardScaler"),
    "min_max_scaler": ("preprocessing", "MinMaxScaler"),
    "max_abs_scaler": ("preprocessing", "MaxAbsScaler"),
    "robust_scaler": ("preprocessing", "RobustScaler"),
    "normalizer": ("preprocessing", "Normalizer"),
    "quantile_transformer": ("preprocessing", "QuantileTransformer"),
    "power_transformer": ("preprocessing", "PowerTransformer"),
    "polynomial_features": ("preprocessing", "PolynomialFeatures"),
    "spline_transformer": ("preprocessing", "SplineTransformer"),
    "k_bins_discretizer": ("preprocessing", "KBinsDiscretizer"),
    "simple_imputer": ("impute", "SimpleImputer"),
    "knn_imputer": ("impute", "KNNImputer"),
    "pca": ("decomposition", "PCA"),
    "truncated_svd": ("decomposition", "TruncatedSVD"),
    "variance_threshold": ("feature_selection", "VarianceThreshold"),
    "nystroem": ("kernel_approximation", "Nystroem"),
    "rbf_sampler": ("kernel_approximation", "RBFSampler"),
}
StepName = Literal[
    "standard_scaler",
    "min_max_scaler",
    "max_abs_scaler",
    "robust_scaler",
    "normalizer",
    "quantile_transformer",
    "power_transformer",
    "polynomial_features",
    "spline_transformer",
    "k_bins_discretizer",
    "simple_imputer",
    "knn_imputer",
    "pca",
    "truncated_svd",
    "variance_threshold",
    "nystroem",
    "rbf_sampler",
]
# The seed is the recipe's, the processes are Ray's, and output goes nowhere.
KEPT = ("random_state", "n_jobs", "verbose", "warm_start")


@cache
def class_of(module: str, name: str) -> Any:
    return getattr(import_module(f"sklearn.{module}"), name)


def make(cls: Any, arguments: Mapping[str, Any], seed: int, argument: str) -> Any:
    """An estimator or step of scikit-learn, its parameters checked by name and by scikit-learn's own rules.

    Raises ValueError that begins with `argument`.
    """
    known = [name for name in cls().get_params(deep=False) if name not in KEPT]
    for name in arguments:
        if name not in known:
            kept = f"`{name}` is set by Raycipe (seed, resources)" if name in KEPT else ""
            near = nearest(name, known)
            hint = f"did you mean `{near}`?" if near else f"known: {listed(known)}"
            raise ValueError(f"{argument}: {kept or f'{cls.__name__} has no `{shown(name)}`; {hint}'}")
    made = cls(**arguments)
    if "random_state" in made.get_params(deep=False):
        made.set_params(random_state=seed)
    try:
        made._validate_params()
    except ValueError as error:
        raise ValueError(f"{argument}: {error}") from error
    return made


def allows_missing(steps: Sequence[Any]) -> bool:
    """Whether NaN in X may come to an estimator through its steps, the estimator being the last of them."""
    from sklearn.utils import get_tags

    for step in steps:
        if not get_tags(step).input_tags.allow_nan:
            return False
        if type(step).__name__.endswith("Imputer"):
            return True
    return True


def check_target(estimator: Any, name: str, facts: Mapping[str, Any]) -> None:
    """Raise RunError if an estimator of classes is given numbers, or the other way round."""
    from sklearn.base import is_classifier

    has_classes = "num_classes" in facts
    if is_classifier(estimator) and not has_classes:
        other = f"take a regressor, e.g. {counterpart(name, 'Classifier', 'Regressor', 'Ridge')}"
        why = facts.get("missing", {}).get("num_classes")  # speaks of tasks, which are no part of an estimator's recipe
        hint = why.replace("use `task: regression`", other) if why else other
        raise RunError("recipe", f"{name} predicts classes, and the data's target is a number", hint, "estimator")
    if not is_classifier(estimator) and has_classes:
        other = counterpart(name, "Regressor", "Classifier", "LogisticRegression")
        message = f"{name} predicts numbers, and the data's target has {facts['num_classes']} classes"
        raise RunError("recipe", message, f"take a classifier, e.g. {other}", "estimator")


def counterpart(name: str, own: str, wanted: str, otherwise: str) -> str:
    """The estimator of the same family that predicts the other kind of target, or one that is good for a start."""
    pairs = {"SVC": "SVR", "LinearSVC": "LinearSVR", "NuSVC": "NuSVR", "RidgeClassifier": "Ridge"}
    known = {**pairs, **{other: name for name, other in pairs.items()}}
    near = known.get(name) or (name.removesuffix(own) + wanted if name.endswith(own) else "")
    return near if near in HOMES else otherwise


def check_missing(steps: Sequence[Any], name: str, facts: Mapping[str, Any], X: np.ndarray, split: str) -> None:
    """Raise RunError for NaN in X that the estimator refuses; tells the first feature and row."""
    missing = np.isnan(X)
    if not missing.any() or allows_missing(steps):
        return
    row, column = (int(index) for index in np.argwhere(missing)[0])
    names = facts.get("feature_names")
    feature = f"feature `{names[column]}`" if names else f"feature {column}"
    message = f"{name} refuses missing values: {int(missing.sum())} in `{split}`, the first in {feature} of row {row}"
    hint = "put simple_imputer first in preprocessing, or take HistGradientBoosting*, which knows them"
    raise RunError("data", message, hint, "estimator")
