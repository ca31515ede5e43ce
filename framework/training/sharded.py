"""Checkpoints of sharded (FSDP) runs: one safetensors file per rank, written and read by torch's distributed
checkpoint, which fits them to any number of workers.

Tensors are stored under flat names: `model.<name>`, `ema.<name>`, `optim.<parameter's name>.<field>`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.tensor import DTensor, distribute_tensor

from raycipe.framework.errors import RunError
from raycipe.framework.training.saved import Checkpoint
from raycipe.framework.training.store import Writer

if TYPE_CHECKING:
    from raycipe.framework.training.session import Session

FOLDER = "shards"


def tied(model: nn.Module) -> dict[str, str]:
    """Name of a parameter -> the earlier name that it is tied to."""
    first: dict[int, str] = {}
    every = model.named_parameters(remove_duplicate=False)
    names = [(name, first.setdefault(id(parameter), name)) for name, parameter in every]
    return {name: other for name, other in names if name != other}


def _model_state(model: nn.Module) -> dict[str, Any]:
    """Every tensor once."""
    ties = tied(model)
    return {name: value for name, value in get_model_state_dict(model).items() if name not in ties}


def _set_model(model: nn.Module, tensors: Mapping[str, Any], options: StateDictOptions | None = None) -> None:
    ties = {name: tensors[first] for name, first in tied(model).items()}
    set_model_state_dict(model, {**tensors, **ties}, options=options)


def _trained(session: Session) -> list[tuple[str, Tensor]]:
    """Names and parameters in the optimizer's order."""
    return [(name, parameter) for name, parameter in session.model.named_parameters() if parameter.requires_grad]


def _weights(session: Session) -> dict[str, Any]:
    tensors = {f"model.{name}": value for name, value in _model_state(session.model).items()}
    if session.average is not None:
        tensors.update({f"ema.{name}": value for name, value in _model_state(session.average.model).items()})
    return tensors


def groups(session: Session) -> list[dict[str, Any]]:
    """The optimizer's parameter groups, plain values for `state.pt`."""
    found: list[dict[str, Any]] = session.optimizer.state_dict()["param_groups"]
    return found


def collective_writer(session: Session) -> Writer:
    """Writes every rank's part; all ranks call it."""
    tensors = _weights(session)
    state = session.optimizer.state_dict()["state"]
    for number, (name, _) in enumerate(_trained(session)):
        tensors.update({f"optim.{name}.{field}": value for field, value in state.get(number, {}).items()})
    tensors = {name: value for name, value in tensors.items() if isinstance(value, Tensor)}

    def write(folder: Path) -> None:
        save(tensors, storage_writer=HuggingFaceStorageWriter(str(folder / FOLDER), save_distributed=True))

    return write


def whole_model(model: nn.Module) -> dict[str, Tensor]:
    """The full weights, each once, on rank 0; nothing elsewhere. All ranks call it."""
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    tensors: Mapping[str, Any] = get_model_state_dict(model, options=options)
    ties = tied(model)
    return {name: value.contiguous() for name, value in tensors.items() if name not in ties}


def restore(session: Session, checkpoint: Checkpoint, state: Mapping[str, Any]) -> None:
    """From a sharded checkpoint into any world, or from a whole one into a sharded world."""
    if checkpoint.manifest["sharded"]:
        _restore_shards(session, checkpoint, state)
    else:
        _restore_whole(session, checkpoint, state)


def _open(checkpoint: Checkpoint) -> tuple[HuggingFaceStorageReader, Mapping[str, Any]]:
    """A reader of the shards, and what they hold by flat name."""
    folder = checkpoint.path / FOLDER
    if (folder / ".metadata").exists():
        raise RunError("storage", f"{folder}: written as pickle; only safetensors are read")
    reader = HuggingFaceStorageReader(str(folder))
    return reader, reader.read_metadata().state_dict_metadata


def read_whole(checkpoint: Checkpoint, prefix: str) -> dict[str, Tensor]:
    """The tensors under `prefix` put together on the CPU of this process alone; nothing if there are none."""
    reader, entries = _open(checkpoint)
    wanted = {name: entry for name, entry in entries.items() if name.startswith(prefix)}
    tensors: dict[str, Any] = {
        name: torch.zeros(entry.size, dtype=entry.properties.dtype) for name, entry in wanted.items()
    }
    if tensors:
        load(tensors, storage_reader=reader, no_dist=True)
    return _part(tensors, prefix)


def _restore_shards(session: Session, checkpoint: Checkpoint, state: Mapping[str, Any]) -> None:
    reader, entries = _open(checkpoint)
    sizes = {name: entry.size for name, entry in entries.items()}
    tensors = _weights(session)
    fields: dict[int, dict[str, Tensor]] = {}
    for number, (name, parameter) in enumerate(_trained(session)):
        prefix = f"optim.{name}."
        fields[number] = {
            key[len(prefix) :]: torch.zeros_like(parameter) if size == parameter.shape else torch.zeros(size)
            for key, size in sizes.items()
            if key.startswith(prefix)
        }
        tensors.update({prefix + field: value for field, value in fields[number].items()})
    load(tensors, storage_reader=reader, no_dist=not dist.is_initialized())
    _set_model(session.model, _part(tensors, "model."))
    if session.average is not None:
        _set_model(session.average.model, _part(tensors, "ema."))
    filled = {number: entries for number, entries in fields.items() if entries}
    session.optimizer.load_state_dict({"state": filled, "param_groups": state["groups"]})


def _part(tensors: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}


def _restore_whole(session: Session, checkpoint: Checkpoint, state: Mapping[str, Any]) -> None:
    options = StateDictOptions(full_state_dict=True)
    _set_model(session.model, checkpoint.tensors("model.safetensors"), options)
    if session.average is not None:
        file = "ema.safetensors" if checkpoint.has("ema.safetensors") else "model.safetensors"
        _set_model(session.average.model, checkpoint.tensors(file), options)
    saved = state["optimizer"]
    fields = {}
    for number, (_, parameter) in enumerate(_trained(session)):
        entries = saved["state"].get(number, {})
        fields[number] = {key: _like(value, parameter) for key, value in entries.items()}
    session.optimizer.load_state_dict({"state": fields, "param_groups": saved["param_groups"]})


def _like(value: Any, parameter: Tensor) -> Any:
    """A whole tensor divided as the parameter is, if it has the parameter's shape."""
    if isinstance(parameter, DTensor) and isinstance(value, Tensor) and value.shape == parameter.shape:
        return distribute_tensor(value, parameter.device_mesh, parameter.placements)
    return value
