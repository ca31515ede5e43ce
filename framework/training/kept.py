"""The data of one training kept for the next one in the same process: the trials of a sweep mostly read the same."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

from raycipe.framework.contracts import Data, Split
from raycipe.framework.files import canonical_hash
from raycipe.framework.splits import WHOLE_BYTES, TensorSplit, digests

Digests = dict[str, dict[str, str]]


class Loaded(NamedTuple):
    """Loaded data, and what tells whether a training has changed them."""

    key: str
    data: Data
    splits: dict[str, Split]
    digests: Digests


_kept: list[Loaded] = []  # the last one


def recall(section: Mapping[str, Any] | str, seed: int) -> tuple[Data, dict[str, Split]] | None:
    """The data that `keep` was given for the same words and seed; None if there are none, or they were changed since.

    Each caller gets containers and facts of its own around the same tensors.
    """
    if not _kept or _kept[0].key != _key(section, seed):
        return None
    loaded = _kept[0]
    if _digests(loaded.splits) != loaded.digests:
        _kept.clear()
        return None
    return _own(loaded.data, loaded.splits)


def keep(section: Mapping[str, Any] | str, seed: int, data: Data, splits: Mapping[str, Split]) -> None:
    """Keep loaded data instead of those before, if they are tensors in memory whose every byte is cheap to compare."""
    _kept.clear()
    size = 0
    for split in splits.values():
        if not isinstance(split, TensorSplit):
            return
        size += sum(tensor.nbytes for tensor in split.tensors.values())
    if size <= WHOLE_BYTES:
        data, own = _own(data, splits)
        _kept.append(Loaded(_key(section, seed), data, own, _digests(own)))


def _own(data: Data, splits: Mapping[str, Split]) -> tuple[Data, dict[str, Split]]:
    data = copy.copy(data)
    data.facts = copy.deepcopy(data.facts)
    tensors = {name: split.tensors for name, split in splits.items() if isinstance(split, TensorSplit)}
    return data, {name: TensorSplit(own) for name, own in tensors.items()}


def _digests(splits: Mapping[str, Split]) -> Digests:
    return {name: digests(split) for name, split in splits.items()}


def _key(section: Mapping[str, Any] | str, seed: int) -> str:
    return canonical_hash([section, seed])
