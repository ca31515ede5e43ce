"""The k largest: exactly k, the earlier of equals, the same by both methods."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from raycipe.components.compressors import _select
from raycipe.components.compressors._select import largest


def by_hand(rows: Tensor, k: int) -> list[int]:
    """A stable sort of each row."""
    length, found = rows.shape[1], []
    for number, row in enumerate(rows.abs().tolist()):
        order = sorted(range(length), key=lambda i: -row[i])[:k]
        found += sorted(number * length + i for i in order)
    return found


ROWS = {
    "normal": torch.randn(5, 1024, generator=torch.Generator().manual_seed(0)),
    "equal": torch.ones(5, 1024),
    "zero": torch.zeros(5, 1024),
    "few values": torch.randint(-2, 3, (5, 1024), generator=torch.Generator().manual_seed(1)).float(),
    "mostly zero": torch.randn(5, 1024, generator=torch.Generator().manual_seed(2)) * (torch.arange(1024) % 211 == 0),
    "large where it is not looked": torch.where(torch.arange(1024) % 8 == 3, 9.0, 0.1).repeat(5, 1),
    "large where it is looked": torch.where(torch.arange(1024) % 8 == 0, 9.0, 0.1).repeat(5, 1),
    "one row of another size": torch.randn(5, 1024, generator=torch.Generator().manual_seed(3)).mul(
        torch.tensor([[1.0], [1e-20], [1e20], [0.0], [1.0]])
    ),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("method", ["auto", "sort", "threshold"])
@pytest.mark.parametrize("k", [1, 10, 100, 1023, 1024])
def test_the_largest_are_found(name: str, method: _select.Method, k: int) -> None:
    assert largest(ROWS[name], k, method).tolist() == by_hand(ROWS[name], k)


@pytest.mark.parametrize("name", ["normal", "equal", "few values", "mostly zero"])
def test_a_row_longer_than_a_tile_is_cut(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_select, "TILE", 100)
    assert largest(ROWS[name], 10, "threshold").tolist() == by_hand(ROWS[name], 10)


def test_rows_in_several_tiles_keep_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_select, "TILE", 2048)
    for method in ("sort", "threshold"):
        assert largest(ROWS["normal"], 10, method).tolist() == by_hand(ROWS["normal"], 10)
