"""Promises of estimators, editors and studies."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from raycipe.framework.conformance.example import SEED, Example
from raycipe.framework.contracts import Ended, Estimator, Trained, Variation
from raycipe.framework.registry import build
from raycipe.framework.tables import roles_of, tables
from raycipe.framework.variation import vary


def _fitted(example: Example) -> tuple[Estimator, Mapping[str, Mapping[str, np.ndarray]]]:
    found = tables(example.splits)
    estimator: Estimator = build(example.plain, "estimators", example.path, {"seed": SEED}, example.facts)
    estimator.check(example.facts, found)
    train = found["train"]
    given = {name: values.copy() for name, values in train.items()}
    result = estimator.fit(train["X"], train["y"], **roles_of(train))
    assert result is estimator, "`fit` must return the estimator"
    for name, values in given.items():
        assert np.array_equal(values, train[name], equal_nan=True), f"`fit` changed `{name}`"
    return estimator, found


def fits_again_to_the_same_predictions(example: Example) -> None:
    """Two estimators from one recipe predict alike, and a second fit of one does not build on its first."""
    first, found = _fitted(example)
    second, _ = _fitted(example)
    test: Any = found["test"]
    predicted: Any = first
    wanted = np.asarray(predicted.predict(test["X"]))
    again: Any = second
    assert np.array_equal(wanted, again.predict(test["X"])), "two fits differ"
    again.fit(found["train"]["X"], found["train"]["y"], **roles_of(dict(found["train"])))
    assert np.array_equal(wanted, again.predict(test["X"])), "a second fit builds on the first"


def predicts_each_example_alone(example: Example) -> None:
    """One prediction an example, whatever stands beside it; probabilities are some."""
    fitted, found = _fitted(example)
    estimator: Any = fitted
    X = found["test"]["X"][:8]
    together = np.asarray(estimator.predict(X))
    assert len(together) == len(X)
    alone = np.concatenate([np.asarray(estimator.predict(X[i : i + 1])) for i in range(len(X))])
    np.testing.assert_allclose(alone, together, rtol=1e-9)
    if hasattr(estimator, "predict_proba"):
        probabilities = np.asarray(estimator.predict_proba(X))
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-5)
        assert probabilities.shape == (len(X), len(estimator.classes_))


def scores_beat_a_guess(example: Example) -> None:
    """Finite figures under the names that reports know, better than the most frequent class or the mean."""
    estimator, found = _fitted(example)
    test: Any = found["test"]
    scores = estimator.scores(example.facts, test["X"], test["y"], **roles_of(dict(test)))
    assert scores and all(np.isfinite(value) for value in scores.values()), scores
    if "accuracy" in scores:
        assert scores["accuracy"] > np.bincount(test["y"]).max() / len(test["y"]), scores
    elif "r2" in scores:
        assert scores["r2"] > 0, scores


def editor_leaves_the_model_as_it_was(example: Example) -> None:
    """It gives another model of the same shapes, the same at a second call, and finite evidence."""
    model, task = example.trained_model().eval(), example.task()
    before = copy.deepcopy(model.state_dict())
    trained = Trained(
        recipe=example.recipe, splits=example.splits, facts=example.facts, model=model, task=task, seed=SEED
    )
    torch.manual_seed(SEED)
    edited, evidence = example.make().edit(trained)
    torch.manual_seed(SEED)
    again, _ = example.make().edit(trained)
    assert edited is not model and list(edited.state_dict()) == list(before)
    changed = 0
    for name, tensor in before.items():
        assert torch.equal(model.state_dict()[name], tensor), f"`{name}` of the given model was changed"
        assert torch.equal(edited.state_dict()[name], again.state_dict()[name]), f"`{name}` differs at a second call"
        changed += not torch.equal(edited.state_dict()[name], tensor)
    assert changed, "nothing was edited"
    assert all(np.isfinite(value) for value in evidence.values.values())
    unknown = set(evidence.values) - set(example.cls.reports) if example.cls.reports else set()  # type: ignore[attr-defined]
    assert not unknown, f"`reports` leaves out {sorted(unknown)}"


def variations_are_recipes_with_names_of_their_own(example: Example) -> None:
    """The same at each call; every one passes the check."""
    recipe = example.recipe_with()
    found = example.make().variations(recipe.plain)
    assert found == example.make().variations(recipe.plain)
    assert len({each.name for each in found}) == len(found) > 1
    labels = [tuple(each.labels.items()) for each in found]
    assert len(set(labels)) == len(labels), "two variations have the same labels"
    for each in found:
        assert vary(recipe, each.changes).hash


def concludes_with_runs_missing(example: Example) -> None:
    """Finite figures under declared names, figures that can be drawn; a failed run is left out, not counted as zero."""
    study = example.make()
    plain = example.recipe_with().plain
    ends = [_ended(each, number, plain) for number, each in enumerate(study.variations(plain))]
    whole = study.conclude(plain, ends)
    ends[0] = Ended(ends[0].variation, ends[0].folder, {"status": "failed"})
    part = study.conclude(plain, ends)
    for found in (whole, part):
        assert found.values and all(np.isfinite(value) for value in found.values.values()), found.values
        words = {name.rpartition("/")[2] for name in found.values}
        assert not study.reports or words <= set(study.reports), f"`reports` leaves out {words - set(study.reports)}"
        for draw in found.figures.values():
            draw()
        for rows in found.tables.values():
            assert all(list(row) == list(rows[0]) for row in rows), "the rows of a table differ in their keys"


def _ended(variation: Variation, number: int, recipe: Mapping[str, Any]) -> Ended:
    final = {recipe["study"].get("metric", "test/accuracy"): 0.5 + 0.01 * (number % 7)}
    return Ended(variation, Path("trials", variation.name), {"status": "done", "final": final})


ESTIMATORS = (fits_again_to_the_same_predictions, predicts_each_example_alone, scores_beat_a_guess)
EDITORS = (editor_leaves_the_model_as_it_was,)
STUDIES = (variations_are_recipes_with_names_of_their_own, concludes_with_runs_missing)
