"""Checkpoints of sharded (FSDP) runs: one safetensors file per rank, written and read by torch's distributed
checkpoint, which fits them to any number of workers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from raycipe.framework.errors import RunError
from raycipe.framework.training.store import Checkpoint, Writer

if TYPE_CHECKING:
    from raycipe.framework.training.session import Session

FOLDER = "shards"


def flat_state(session: Session) -> dict[str, Tensor]:
    """Every tensor of model, average and optimizer by a flat name; sharded ones as DTensors."""
    tensors: dict[str, Any] = {f"model.{name}": value for name, value in get_model_state_dict(session.model).items()}
    if session.average is not None:
        tensors.update({f"ema.{name}": value for name, value in get_model_state_dict(session.average.model).items()})
    state: Any = get_optimizer_state_dict(session.model, session.optimizer)["state"]
    for parameter, entries in state.items():
        tensors.update({f"optim.{parameter}.{name}": value for name, value in entries.items()})
    return {name: value for name, value in tensors.items() if isinstance(value, Tensor)}


def groups(session: Session) -> list[dict[str, Any]]:
    """The optimizer's parameter groups with names for parameters: plain values for `state.pt`."""
    found: Any = get_optimizer_state_dict(session.model, session.optimizer)["param_groups"]
    return [dict(group) for group in found]


def collective_writer(session: Session) -> Writer:
    """Writes every rank's part; all ranks call it."""
    state = flat_state(session)

    def write(folder: Path) -> None:
        writer = HuggingFaceStorageWriter(str(folder / FOLDER), save_distributed=True)
        save(state, storage_writer=writer)

    return write


def whole_model(session: Session, model: nn.Module) -> dict[str, Tensor]:
    """The full weights on rank 0, nothing elsewhere; all ranks call it."""
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    tensors: Mapping[str, Any] = get_model_state_dict(model, options=options)
    return {name: value.contiguous() for name, value in tensors.items()}


def restore(session: Session, checkpoint: Checkpoint, state: Mapping[str, Any]) -> None:
    """From a sharded checkpoint into any world, or from a whole one into a sharded world."""
    if not checkpoint.manifest["sharded"]:
        _restore_whole(session, checkpoint, state)
        return
    tensors = flat_state(session)
    folder = checkpoint.path / FOLDER
    if (folder / ".metadata").exists():
        raise RunError("storage", f"{folder}: written as pickle; only safetensors are read")
    reader = HuggingFaceStorageReader(str(folder))
    load(tensors, storage_reader=reader, no_dist=not dist.is_initialized())
    optimizer: dict[str, Any] = {}
    names = [name for name, parameter in session.model.named_parameters() if parameter.requires_grad]
    for name in names:
        prefix = f"optim.{name}."
        fields = {key[len(prefix) :]: value for key, value in tensors.items() if key.startswith(prefix)}
        optimizer[name] = {key: value for key, value in fields.items() if "." not in key}
    set_model_state_dict(session.model, _part(tensors, "model."))
    if session.average is not None:
        set_model_state_dict(session.average.model, _part(tensors, "ema."))
    set_optimizer_state_dict(session.model, session.optimizer, {"state": optimizer, "param_groups": state["groups"]})


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Any]:
    return {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}


def _restore_whole(session: Session, checkpoint: Checkpoint, state: Mapping[str, Any]) -> None:
    options = StateDictOptions(full_state_dict=True)
    tensors: dict[str, Any] = dict(checkpoint.tensors("model.safetensors"))
    tensors.update({name: tensors[first] for name, first in checkpoint.manifest["tied"].items()})
    set_model_state_dict(session.model, tensors, options=options)
    if session.average is not None:
        file = "ema.safetensors" if checkpoint.has("ema.safetensors") else "model.safetensors"
        set_model_state_dict(session.average.model, dict(checkpoint.tensors(file)), options=options)
    names = [name for name, parameter in session.model.named_parameters() if parameter.requires_grad]
    saved = state["optimizer"]
    named: Any = {
        "state": {names[number]: entries for number, entries in saved["state"].items()},
        "param_groups": [
            {**group, "params": [names[number] for number in group["params"]]} for group in saved["param_groups"]
        ],
    }
    set_optimizer_state_dict(session.model, session.optimizer, named, options=options)
