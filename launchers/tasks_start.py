"""What a run that starts from another one, or predicts with it, can be told before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raycipe.framework.errors import NotStarted, RunError

LAST = "last"


def check_start(recipe: Mapping[str, Any], whole: Mapping[str, Any], start_dir: str | None) -> None:
    """Raise NotStarted if the run of `start` has not what the recipe asks of it; `whole` is `with_start`'s recipe."""
    if start_dir is None:
        return
    from raycipe.framework.runs import TRIALS, Run

    if "study" in Run(start_dir).resolved():
        message = f"{start_dir} is a study: it has no model of its own, its runs have"
        raise NotStarted("recipe", message, f"name one of them: {start_dir}/{TRIALS}/...", "start")
    if "estimator" in recipe or "task" in recipe or "task" in whole or "estimator" not in whole:
        return
    name = f"{start_dir} fitted an estimator"
    if "editor" in recipe:
        hint = "start from the training of a `task`, or leave out `editor`"
        raise NotStarted("recipe", f"edits a model's weights, and {name}", hint, "editor")
    start = recipe["start"]
    if isinstance(start, Mapping) and start.get("checkpoint", LAST) != LAST:
        message = f"{name}, which has no checkpoints: it is fitted again from its recipe"
        raise NotStarted("recipe", message, "leave out `checkpoint`", "start.checkpoint")


def check_prediction(recipe: Mapping[str, Any], whole: Mapping[str, Any]) -> None:
    """Raise NotStarted if the data of the run that is started from can't read the rows of `predict.path`."""
    from raycipe.framework.predicting import check_input
    from raycipe.framework.training.loading import load_data

    if "data" not in whole:
        raise NotStarted("recipe", "the run of `start` has no `data`, whose columns would be read", where="predict")
    data, _ = load_data(whole)
    try:
        check_input(recipe["predict"], data, whole["data"]["type"])
    except RunError as error:
        raise NotStarted(error.kind, error.message, error.hint, error.where) from error
