"""What a checkpoint of a training run holds, and how a run takes it up again.

`model.safetensors` (common weights), `ema.safetensors`, `state.pt` (what is equal on all ranks), `rank<r>.pt` (what is
not), and for sharded runs `shards/`. Everything that a later step depends on is in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from raycipe.framework.errors import counted
from raycipe.framework.training.evaluate import agreed_buffers
from raycipe.framework.training.resumable import (
    check_content,
    check_data,
    check_recipe,
    refuse_shorter,
    still_stopped,
    warn_of_changes,
)
from raycipe.framework.training.saved import Checkpoint
from raycipe.framework.training.state import (
    capture_rng,
    fill_buffers,
    load_weights,
    restore_rng,
    seed_all,
    unsaved_buffers,
    weights,
)
from raycipe.framework.training.store import Job, Writer, pt_writer, safetensors_writer

if TYPE_CHECKING:
    from raycipe.framework.training.session import Session

ASYNC_BYTES = 50_000_000  # from this size of weights on a checkpoint is written beside the training


def weights_finite(session: Session) -> bool:
    """Collective: whether every rank's weights are free of NaN and infinity."""
    locals_ = [_local(parameter) for parameter in session.model.parameters() if parameter.numel()]
    norms = torch.stack(torch._foreach_norm([part for part in locals_ if part.is_floating_point()]))
    bad = (~torch.isfinite(norms)).any().float()
    return float(session.comm.all_reduce(bad, "max")) == 0.0


def _local(tensor: Tensor) -> Tensor:
    local = getattr(tensor.data, "to_local", None)
    return tensor.data if local is None else local()


# ---------------------------------------------------------------------------------------------- saving


def save(session: Session, last: bool) -> None:
    """Write a checkpoint of the session; the last one of a run is waited for."""
    beside = not last and not session.sharded and is_beside(session)
    about = _about(session)
    mine = _rank_state(session)
    writers: dict[str, Writer] = {f"rank{session.comm.rank}.pt": pt_writer(_copied(mine) if beside else mine)}
    collective: Writer | None = None
    groups: list[dict[str, Any]] | None = None
    if session.sharded:
        from raycipe.framework.training import sharded

        groups, about["tied"] = sharded.groups(session), sharded.tied(session.model)
        collective = _add_shards(
            session, writers, last or any(entry["step"] == session.step for entry in about["best"])
        )
    else:
        about["tied"] = _add_models(session, writers, beside)
    if session.comm.rank == 0:
        common = _common_state(session, groups)
        writers["state.pt"] = pt_writer(_copied(common) if beside else common)
    keep = [entry["step"] for entry in about["best"]]
    session.store.save(Job(session.step, writers, about, keep, collective), wait=not beside, final=last)


def _add_models(session: Session, writers: dict[str, Writer], copy: bool) -> dict[str, str]:
    """Rank 0's weights; gives the tied names."""
    tied: dict[str, str] = {}
    leads = session.comm.rank == 0
    with session.optimizer.consensus(), agreed_buffers(session.model, session.comm):
        if leads:
            tied = _add_model(writers, "model.safetensors", session.model, copy or session.optimizer.exchanges)
    if session.average is not None:
        with agreed_buffers(session.average.model, session.comm):
            if leads:
                _add_model(writers, "ema.safetensors", session.average.model, copy)
    return tied


def _add_shards(session: Session, writers: dict[str, Writer], whole: bool) -> Writer:
    """Every rank's part, and on rank 0 one file for people where `whole` asks for it."""
    from raycipe.framework.training import sharded

    write = sharded.collective_writer(session)
    if whole:
        with agreed_buffers(session.model, session.comm):
            tensors = sharded.whole_model(session.model)
        if session.comm.rank == 0:
            writers["model.safetensors"] = safetensors_writer(tensors)
        if session.average is not None:
            with agreed_buffers(session.average.model, session.comm):
                averages = sharded.whole_model(session.average.model)
            if session.comm.rank == 0:
                writers["ema.safetensors"] = safetensors_writer(averages)
    if session.comm.rank == 0:
        writers[sharded.FOLDER] = lambda path: None  # written by all ranks together; listed by rank 0
    return write


def is_beside(session: Session) -> bool:
    """Whether checkpoints are written by a thread while training goes on."""
    chosen = session.settings.async_checkpoint
    size = sum(parameter.numel() * parameter.element_size() for parameter in session.model.parameters())
    return size >= ASYNC_BYTES if chosen is None else chosen


def _about(session: Session) -> dict[str, Any]:
    return {"torch": torch.__version__, "best": session.judge.kept(), "tied": {}, "sharded": session.sharded}


def _add_model(writers: dict[str, Writer], file: str, model: nn.Module, copy: bool) -> dict[str, str]:
    tensors, tied = weights(model)
    if copy or any(True for _ in model.buffers()):  # agreed buffers hold only while the caller's context lasts
        tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    writers[file] = safetensors_writer(tensors)
    return tied


def _copied(value: Any) -> Any:
    """The same state in tensors of its own, for a thread that writes while training goes on."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, Mapping):
        return {key: _copied(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(child) for child in value)
    return value


def _common_state(session: Session, groups: list[dict[str, Any]] | None) -> dict[str, Any]:
    scaler = session.precision.scaler
    return {
        "step": session.step,
        "order": session.order.state(),
        "optimizer": None if session.sharded else session.optimizer.state_dict(),
        "groups": groups,
        "scaler": scaler.state_dict() if scaler is not None else None,
        "latest": dict(session.latest),
        **session.judge.state(),
        "stopped": None if session.stopped == "user" else session.stopped,
        "closed": session.closed,
        "examples": session.examples,
        "skipped": session.skipped,
        "seconds": session.seconds(),
        "rows": session.rows.count,
        "world_size": session.comm.world_size,
        "threads": torch.get_num_threads(),
        "averaged": session.average.updates if session.average is not None else 0,
        "data": session.data_digests,
        "recipe": _plain(session.plan.recipe),
    }


def _plain(value: Any) -> Any:
    """Dicts, lists and scalars only: what loads without pickle (a recipe in tests may hold built components)."""
    if isinstance(value, Mapping):
        return {str(key): _plain(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(child) for child in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else type(value).__name__


def _rank_state(session: Session) -> dict[str, Any]:
    average = session.average.model if session.average is not None else None
    state: dict[str, Any] = {
        "rng": capture_rng(),
        "interval": session.interval.state(),
        "optimizer": session.optimizer.rank_state_dict(),
        "bytes_sent": session.optimizer_comm.bytes_sent,
        "buffers": _own_buffers(session, session.model),
        "weights": session.model.state_dict() if session.optimizer.local_weights else {},
    }
    if average is not None:
        state["average_buffers"] = _own_buffers(session, average)
    return state


def _own_buffers(session: Session, model: nn.Module) -> dict[str, Tensor]:
    """The buffers that the common weights don't tell: with many workers each rank's own, else those left out of it."""
    return dict(model.named_buffers()) if session.comm.world_size > 1 else unsaved_buffers(model)


# ---------------------------------------------------------------------------------------------- restoring


def restore(session: Session, checkpoint: Checkpoint) -> None:
    """Bring a freshly built session to the state of the checkpoint; the random generators come last."""
    state = checkpoint.load("state.pt")
    now = _common_state(session, None)
    check_content(checkpoint, state, now)
    check_data(state["data"], now["data"])
    if not session.plan.took_over:
        check_recipe(state["recipe"], now["recipe"])
    warn_of_changes(session, state)
    _restore_weights(session, checkpoint, state)
    ranks = checkpoint.ranks()
    same = len(ranks) == session.comm.world_size
    mine = ranks[session.comm.rank] if same else None
    session.optimizer.load_rank_state(mine["optimizer"] if mine else None, [rank["optimizer"] for rank in ranks])
    if session.precision.scaler is not None and state["scaler"]:
        session.precision.scaler.load_state_dict(state["scaler"])
    session.order.restore(state["order"])
    session.step, session.examples, session.skipped = state["step"], state["examples"], state["skipped"]
    session.latest, session.seconds_before = state["latest"], state["seconds"]
    session.judge.restore(state, state["recipe"].get("train") or {})
    refuse_shorter(session)
    session.stopped = state["stopped"] if still_stopped(session, state["stopped"]) else None
    is_over = session.stopped is not None or session.step == session.length.total_steps
    session.closed = state["closed"] and is_over  # one that trains on exchanges again at its end
    if session.average is not None:
        session.average.updates = state["averaged"]
    missing = session.rows.cut(state["rows"])
    if missing:
        lost = counted(missing, "row")
        session.warn(f"{session.rows.path.name} lacks {lost} from before step {checkpoint.step}: curves will miss them")
    if mine is not None:
        _restore_rank(session, mine)
    else:
        _spread_ranks(session, ranks)
    session.store.committed = checkpoint.step


def _restore_weights(session: Session, checkpoint: Checkpoint, state: Mapping[str, Any]) -> None:
    if checkpoint.manifest["sharded"] or session.sharded:
        from raycipe.framework.training import sharded

        sharded.restore(session, checkpoint, state)
        return
    tied, source = checkpoint.manifest["tied"], str(checkpoint.path)
    load_weights(session.model, checkpoint.tensors("model.safetensors"), tied, source)
    own = [dict(group) for group in session.optimizer.param_groups]
    session.optimizer.load_state_dict(state["optimizer"])
    if session.plan.took_over:
        before, now = state["recipe"]["optimizer"], session.plan.recipe["optimizer"]
        changed = [name for name, value in now.items() if before.get(name) != value]
        for group, values in zip(session.optimizer.param_groups, own, strict=True):
            group.update({name: values[name] for name in changed if name in values})
    if session.average is not None:
        file = "ema.safetensors" if checkpoint.has("ema.safetensors") else "model.safetensors"
        load_weights(session.average.model, checkpoint.tensors(file), tied, source)


@torch.no_grad()
def _restore_rank(session: Session, mine: Mapping[str, Any]) -> None:
    if mine["weights"]:
        session.model.load_state_dict(mine["weights"])
    _fill_buffers(session, mine, lambda name: True)
    session.interval.restore(mine["interval"])
    session.optimizer_comm.bytes_sent = mine["bytes_sent"]
    restore_rng(mine["rng"])


def _fill_buffers(session: Session, saved: Mapping[str, Any], wanted: Callable[[str], bool]) -> None:
    fill_buffers(session.model, {name: value for name, value in saved["buffers"].items() if wanted(name)})
    if session.average is not None:
        average = saved.get("average_buffers", {})
        fill_buffers(session.average.model, {name: value for name, value in average.items() if wanted(name)})


def _spread_ranks(session: Session, ranks: list[Mapping[str, Any]]) -> None:
    """Another number of workers: rank 0 takes up the sums of the interval, each rank draws from a stream of its own."""
    comm, unsaved = session.comm, unsaved_buffers(session.model)
    _fill_buffers(session, ranks[0], lambda name: name in unsaved)
    if comm.rank == 0:
        for rank in ranks:
            session.interval.restore(rank["interval"])
        session.optimizer_comm.bytes_sent = sum(rank["bytes_sent"] for rank in ranks)
    seed_all(session.seed, comm.rank, comm.world_size, session.step)
