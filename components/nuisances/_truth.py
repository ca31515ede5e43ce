"""Shared by the nuisances that know the truth of simulated data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from raycipe.framework.contracts import Sample
from raycipe.framework.contracts.causal import Design
from raycipe.framework.errors import RunError


def check_truth(type_: str, design: Design, facts: Mapping[str, Any]) -> None:
    """Raise RunError where the data does not know its nuisances, or the design needs others."""
    hint = "take nuisance: crossfit"
    if not facts.get("knows_truth"):
        message = f"{type_} takes the nuisances that simulated data know, and these data know none"
        raise RunError("recipe", message, hint, "estimator.nuisance")
    if design != "binary":
        message = f"{type_} knows the nuisances of a binary treatment alone"
        raise RunError("recipe", message, hint, "estimator.nuisance")


def truth(sample: Sample) -> dict[str, np.ndarray]:
    if sample.truth is None or sample.truth.shape[1] != 3:
        raise ValueError("nuisance: these data do not know their nuisances")
    e, m0, m1 = sample.truth.T
    return {"e": e, "m0": m0, "m1": m1}
