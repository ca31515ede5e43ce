"""Committed checkpoints: what one holds, and whether it is whole.

Nothing in a checkpoint can run code: it is read by safetensors and by `torch.load(weights_only=True)` alone. The one
exception is the folder `rllib/` of an agent's checkpoint: RLlib's own files are pickles, and only a resume of the same
run opens them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from raycipe.framework.files import sha256_file

FORMAT = 1
OF_RLLIB = "rllib/"


@dataclass
class Checkpoint:
    """A committed checkpoint."""

    path: Path
    manifest: dict[str, Any]

    @property
    def step(self) -> int:
        return int(self.manifest["step"])

    def tensors(self, file: str) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = load_file(self.path / file)
        return tensors

    def model(self, averaged: bool = False) -> dict[str, Tensor]:
        """The whole model's tensors, or those of its average if there is one; put together where they lie in shards."""
        if self.manifest["sharded"] and not self.has("model.safetensors"):
            from raycipe.framework.training.sharded import read_whole

            return (read_whole(self, "ema.") if averaged else {}) or read_whole(self, "model.")
        whole = "ema.safetensors" if averaged and self.has("ema.safetensors") else "model.safetensors"
        return self.tensors(whole)

    def load(self, file: str) -> Any:
        return torch.load(self.path / file, weights_only=True)

    def has(self, file: str) -> bool:
        return file in self.manifest["files"]

    def ranks(self) -> list[Any]:
        """Every rank's part."""
        return [self.load(f"rank{rank}.pt") for rank in range(self.manifest["world_size"])]


def read(path: Path) -> Checkpoint:
    """A checkpoint without `damage`."""
    return Checkpoint(path, json.loads((path / "manifest.json").read_text(encoding="utf-8")))


def damage(path: Path) -> str | None:
    """What is wrong with a checkpoint, in words, or None."""
    try:
        manifest = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "it has no manifest"
    except (ValueError, OSError, RecursionError):
        return "its manifest is not readable"
    if not isinstance(manifest, dict) or type(manifest.get("format")) is not int:
        return "its manifest is not one"
    if manifest["format"] > FORMAT:
        return f"it was written by a newer Raycipe (format {manifest['format']})"
    if not _is_complete(manifest):
        return "its manifest is not one"
    faults = (_fault(path, name, entry) for name, entry in manifest["files"].items())
    return next((fault for fault in faults if fault), None)


def _is_complete(manifest: Mapping[str, Any]) -> bool:
    """Whether a manifest tells all that a resume asks it."""
    kinds = {"step": int, "world_size": int, "files": dict, "tied": dict, "best": list, "sharded": bool}
    if any(type(manifest.get(name)) is not kind for name, kind in kinds.items()):
        return False
    files, world_size = manifest["files"], manifest["world_size"]
    if not 0 < world_size <= len(files):
        return False
    needed = {"state.pt", *(f"rank{rank}.pt" for rank in range(world_size))}
    return (
        needed | (set() if manifest["sharded"] else {"model.safetensors"}) <= files.keys()
        and all(_is_entry(entry) for entry in files.values())
        and all(isinstance(other, str) for other in manifest["tied"].values())
        and all(isinstance(entry, dict) and type(entry.get("step")) is int for entry in manifest["best"])
    )


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict) and type(entry.get("bytes")) is int and isinstance(entry.get("sha256"), str)


def _fault(path: Path, name: str, entry: Mapping[str, Any]) -> str | None:
    file = path / name
    if not file.is_file():
        return f"{name} is missing"
    try:
        if file.stat().st_size != entry["bytes"] or sha256_file(file) != entry["sha256"]:
            return f"{name} differs from its manifest"
    except OSError as error:
        return f"{name} can't be read: {error.strerror}"
    if name.startswith(OF_RLLIB):
        return None
    return None if _opens(file) else f"{name} is not a Raycipe checkpoint file; nothing in it was run"


def _opens(file: Path) -> bool:
    """Whether a file has the form that we write; tensors are mapped, not read."""
    try:
        if file.suffix == ".safetensors":
            with safe_open(file, "pt"):
                return True
        if file.suffix == ".pt":
            return isinstance(torch.load(file, weights_only=True, mmap=True), dict)
    except Exception:  # noqa: BLE001 - a file made by somebody else can fail in any way, and its text misleads
        return False
    return True
