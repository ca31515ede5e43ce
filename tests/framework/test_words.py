"""Names that were probably meant, and ranges in words."""

from __future__ import annotations

from typing import Any

import pytest

from raycipe.framework.words import allowed_range, nearest


@pytest.mark.parametrize(
    ("word", "known", "found"),
    [
        ("rato", ["ratio", "seed"], "ratio"),
        ("cosin", ["constant", "cosine"], "cosine"),
        ("momentm", ["momentum", "lr"], "momentum"),
        ("batchsize", ["batch_size", "eval_batch_size"], "batch_size"),
        ("acuracy", ["accuracy", "loss"], "accuracy"),
        ("Batch-Size", ["batch_size", "eval_batch_size"], "batch_size"),
        ("sdg", ["adamw", "sgd"], "sgd"),
        ("model", ["models", "measures"], "models"),
        ("lion", ["sgd", "adamw", "linear"], None),
        ("depth", ["width", "hidden"], None),
        ("widgets", ["agents", "editors", "links"], None),
        ("x", [], None),
    ],
)
def test_a_name_is_suggested_only_if_it_was_probably_meant(word: str, known: list[str], found: str | None) -> None:
    assert nearest(word, known) == found


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"minimum": 1, "maximum": 10**9}, "n >= 1"),
        ({"minimum": 0, "maximum": 2**53 - 1}, "n >= 0"),
        ({"minimum": 1 - 2**53, "maximum": 2**53 - 1}, ""),
        ({"minimum": 1, "maximum": 10**9 - 1}, "1 <= n <= 999999999"),
        ({"exclusiveMinimum": 0}, "n > 0"),
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 1}, "0 < n < 1"),
        ({"maximum": 3}, "n <= 3"),
        ({}, ""),
    ],
)
def test_a_range_leaves_out_the_bounds_that_nobody_meets(wanted: dict[str, Any], words: str) -> None:
    assert allowed_range("n", {"type": "integer", **wanted}) == words
