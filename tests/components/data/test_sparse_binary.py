"""Rows of few ones, classes of a known share."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from raycipe.framework.registry import make


def test_rows_have_so_many_entries_and_length_one() -> None:
    splits = make("data/sparse_binary", examples=2000, nnz=14).load(0)
    x, y = splits["train"].tensors["x"], splits["train"].tensors["y"]
    assert ((x != 0).sum(1) == 14).all() and x.shape == (1000, 123)
    torch.testing.assert_close(x.norm(dim=1), torch.ones(1000))
    assert float(y.double().mean()) == pytest.approx(0.24, abs=0.04)
    often = (x != 0).double().mean(0)
    assert often[:10].mean() > 5 * often[-10:].mean()


def test_features_tell_the_class() -> None:
    x, y = (make("data/sparse_binary", examples=4000).load(1)["train"].tensors[name] for name in ("x", "y"))
    away = x[y == 1].mean(0) - x[y == 0].mean(0)
    scores = x @ away
    assert float((scores[y == 1].unsqueeze(1) > scores[y == 0]).double().mean()) > 0.7


@pytest.mark.parametrize(
    ("arguments", "words"), [({"nnz": 200}, "nnz: a row has only 123"), ({"positive": 0.0}, "positive: must be above")]
)
def test_what_can_not_be_drawn_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make("data/sparse_binary", **arguments)
