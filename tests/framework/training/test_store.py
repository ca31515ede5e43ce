"""Checkpoints: committed by one rename, set aside when damaged, and never able to run code."""

from __future__ import annotations

import json
import os
import pickle
import resource
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from raycipe.framework.comm import Comm, LocalComm, SimulatedWorld
from raycipe.framework.errors import RunError
from raycipe.framework.files import sha256_file
from raycipe.framework.training.store import Job, Store, pt_writer, safetensors_writer

MARK = f"{tempfile.gettempdir()}/raycipe-harm-{os.getpid()}"


def write(store: Store, step: int, keep: tuple[int, ...] = (), wait: bool = True, **given: Any) -> None:
    rank = store.comm.rank
    writers = {f"rank{rank}.pt": pt_writer({"step": step, "rank": rank})}
    if rank == 0:
        writers["state.pt"] = pt_writer({"step": step})
        writers["model.safetensors"] = safetensors_writer({"w": torch.full((4,), float(step))})
    store.save(Job(step, writers, {"best": [], "tied": {}, "sharded": False}, keep), wait, **given)


def test_the_newest_and_the_best_stay(tmp_path: Path) -> None:
    store = Store(tmp_path, LocalComm(), keep=2)
    for step in (10, 20, 30, 40):
        write(store, step, keep=(10,))
    assert store.steps() == [10, 30, 40]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000010", "step-00000030", "step-00000040"]
    newest = store.newest()
    assert newest is not None and newest.step == 40 and newest.ranks() == [{"step": 40, "rank": 0}]
    assert newest.tensors("model.safetensors")["w"].tolist() == [40.0] * 4
    assert all(path.stat().st_mode & 0o777 == 0o644 for path in newest.path.iterdir() if path.suffix != ".json")


def test_every_rank_writes_and_reads_its_part(tmp_path: Path) -> None:
    def work(comm: Comm) -> Any:
        store = Store(tmp_path, comm)
        write(store, 5)
        newest = store.newest()
        assert newest is not None
        return newest.step, newest.ranks()[comm.rank]["rank"], newest.manifest["world_size"]

    assert SimulatedWorld(3).run(work) == [(5, rank, 3) for rank in range(3)]


def test_a_checkpoint_written_beside_is_committed_at_a_later_poll(tmp_path: Path) -> None:
    def work(comm: Comm) -> list[int]:
        store = Store(tmp_path, comm)
        write(store, 5, wait=False)
        while not store.poll(wait=False):
            pass
        first = store.steps()
        write(store, 6, wait=False)
        write(store, 7, wait=False)  # waits for the one in flight
        store.poll(wait=True)
        return first + store.steps()

    assert SimulatedWorld(2).run(work) == [[5, 6, 7], [5, 6, 7]]


class Harm:
    """Leaves a file behind where somebody unpickles it."""

    def __reduce__(self) -> Any:
        return os.mkdir, (MARK,)


def plant(folder: Path, file: str, content: Any) -> None:
    """A file of somebody else, with the hash that the manifest wants."""
    path = folder / file
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content or Harm(), path)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][file] = {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def damaged(folder: Path, harm: str) -> None:
    if harm == "flipped byte":
        path = folder / "model.safetensors"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(bytes(data))
    elif harm == "truncated":
        path = folder / "rank0.pt"
        path.write_bytes(path.read_bytes()[:-10])
    elif harm == "missing file":
        (folder / "rank0.pt").unlink()
    elif harm == "no manifest":
        (folder / "manifest.json").unlink()
    elif harm == "garbled manifest":
        (folder / "manifest.json").write_text('{"format": 1, "fil')
    elif harm == "other manifest":
        (folder / "manifest.json").write_text('{"format": 1, "files": 3, "step": 2}')
    elif harm in MALFORMED:
        manifest = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps({**manifest, **MALFORMED[harm]}))
    elif harm == "list":
        (folder / "manifest.json").write_text("[1]")
    elif harm in PLANTED:
        plant(folder, *PLANTED[harm])
    elif harm == "newer":
        (folder / "manifest.json").write_text('{"format": 99, "files": {}, "step": 2}')
    else:
        shutil.rmtree(folder)
        folder.mkdir()


MALFORMED: dict[str, Any] = {
    "no files": {"files": None},
    "few files": {"files": {}},
    "entry without hash": {"files": {"state.pt": {}, "rank0.pt": {}, "model.safetensors": {}}},
    "format as text": {"format": "x"},
    "workers as text": {"world_size": "x"},
    "many workers": {"world_size": 10**12},
    "no workers": {"world_size": 0},
    "step as text": {"step": "2"},
    "best without step": {"best": [{}]},
    "tied as list": {"tied": []},
}
PLANTED = {
    "code": ("state.pt", pickle.dumps(Harm())),
    "code in a zip": ("rank0.pt", None),
    "no dictionary": ("state.pt", "a text"),
    "huge header": ("model.safetensors", b"\xff" * 64),
}
HARMS = {
    "flipped byte": "model.safetensors differs from its manifest",
    "truncated": "rank0.pt differs from its manifest",
    "missing file": "rank0.pt is missing",
    "no manifest": "it has no manifest",
    "garbled manifest": "its manifest is not readable",
    "other manifest": "its manifest is not one",
    **dict.fromkeys([*MALFORMED, "list"], "its manifest is not one"),
    **{harm: f"{file} is not a Raycipe checkpoint file; nothing in it was run" for harm, (file, _) in PLANTED.items()},
    "newer": "it was written by a newer Raycipe (format 99)",
    "empty folder": "it has no manifest",
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path: Path, harm: str) -> None:
    said: list[str] = []
    store = Store(tmp_path, LocalComm(), warn=said.append)
    write(store, 1)
    write(store, 2)
    damaged(tmp_path / "step-00000002", harm)
    newest = store.newest()
    assert newest is not None and newest.step == 1
    assert said == [f"checkpoint step-00000002 is damaged: {HARMS[harm]}; resuming from step-00000001"]
    assert (tmp_path / "damaged-step-00000002").is_dir()
    assert not Path(MARK).exists()


def test_every_byte_of_every_file_is_guarded(tmp_path: Path) -> None:
    store = Store(tmp_path / "whole", LocalComm())
    write(store, 1)
    whole = tmp_path / "whole" / "step-00000001"
    for file in ("model.safetensors", "rank0.pt"):
        size = (whole / file).stat().st_size
        for place in range(0, size, max(1, size // 12)):
            shutil.copytree(tmp_path / "whole", tmp_path / "copy")
            path = tmp_path / "copy" / "step-00000001" / file
            data = bytearray(path.read_bytes())
            data[place] ^= 0x40
            path.write_bytes(bytes(data))
            with pytest.raises(RunError, match=f"no checkpoint is left to resume from .*{file} differs"):
                Store(tmp_path / "copy", LocalComm()).newest()
            shutil.rmtree(tmp_path / "copy")


def test_only_damaged_checkpoints_are_an_error_on_every_rank(tmp_path: Path) -> None:
    store = Store(tmp_path, LocalComm())
    write(store, 1)
    write(store, 2)
    for step in (1, 2):
        damaged(tmp_path / f"step-0000000{step}", "truncated")

    def work(comm: Comm) -> str:
        with pytest.raises(RunError) as caught:
            Store(tmp_path, comm).newest()
        return str(caught.value)

    first, second = SimulatedWorld(2).run(work)
    assert first == second
    fault = "rank0.pt differs from its manifest"
    assert f"(2 damaged: step-00000002: {fault}; step-00000001: {fault})" in first
    assert store.steps() == [1, 2], "the only ones are not renamed"


def test_after_the_last_good_one_is_gone_those_set_aside_still_count(tmp_path: Path) -> None:
    store = Store(tmp_path, LocalComm())
    write(store, 1)
    write(store, 2)
    damaged(tmp_path / "step-00000002", "truncated")
    assert store.newest() is not None
    shutil.rmtree(tmp_path / "step-00000001")
    with pytest.raises(RunError, match=r"\(1 damaged: damaged-step-00000002: set aside before\)"):
        store.newest()


def test_the_sign_of_a_run_killed_while_it_looked_is_cleared(tmp_path: Path) -> None:
    (tmp_path / ".seen-old").touch()
    Store(tmp_path, LocalComm()).check_shared()
    assert list(tmp_path.iterdir()) == []


def test_rests_of_a_killed_writer_are_cleared(tmp_path: Path) -> None:
    store = Store(tmp_path, LocalComm())
    assert store.newest() is None
    (tmp_path / ".tmp-3").mkdir()
    (tmp_path / ".del-step-00000001").mkdir()
    write(store, 2)
    assert store.newest() is not None
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000002"]


def test_one_rank_that_cannot_write_lets_all_go_on_and_the_third_time_ends_the_run(tmp_path: Path) -> None:
    def work(comm: Comm) -> Any:
        said: list[str] = []
        store = Store(tmp_path, comm, warn=said.append)
        write(store, 1)

        def fail(path: Path) -> None:
            raise OSError(28, "No space left on device")

        broken = {"rank1.pt": fail} if comm.rank else {"model.safetensors": safetensors_writer({})}
        for step in (2, 3):
            store.save(Job(step, broken, {}))
        with pytest.raises(RunError) as caught:
            store.save(Job(4, broken, {}))
        return str(caught.value), said

    (text, said), (other, quiet) = SimulatedWorld(2).run(work)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
    assert text.startswith(
        "checkpoint at step 4 could not be written: worker 1: the storage is full ([Errno 28] No space left on device)"
    )
    assert "the last good one is of step 1" in text and "free there: " in text
    assert text.partition(";")[0] == other.partition(";")[0]
    assert len(said) == 2 and "the run goes on" in said[0] and quiet == []


def test_the_last_checkpoint_of_a_run_must_succeed(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        raise RuntimeError("unexpected pos 64 vs 0")

    store = Store(tmp_path, LocalComm())
    with pytest.raises(RunError, match=r"(?s)worker 0: the storage is full .*there is no earlier one"):
        store.save(Job(9, {"model.safetensors": fail}, {}), final=True)


def test_a_full_disk_leaves_the_older_checkpoint(toy: Any, fit: Any, world: Any, run_dir: Path) -> None:
    recipe = toy(model={"type": "net", "width": 400}, train_steps=12, train_checkpoint_every=4, train_eval_every=100)

    def limited(rank: int) -> Any:
        def limit(session: Any, event: str) -> None:
            if event == "checkpoint" and session.step == 4:
                resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        return fit(recipe, run_dir, hooks=[limit])

    errors = world(1, limited).errors()
    kind, text, _ = errors[0]
    assert kind == "RunError"
    assert text.startswith("checkpoint at step 12 could not be written: worker 0: the storage is full")
    assert "the last good one is of step 4" in text
    assert [path.name for path in (run_dir / "checkpoints").iterdir()] == ["step-00000004"]
    newest = Store(run_dir / "checkpoints", LocalComm()).newest()
    assert newest is not None and newest.step == 4
    rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["step"] == 12


@pytest.mark.parametrize("harm", PLANTED)
def test_a_planted_file_is_refused_in_plain_words_and_not_run(tmp_path: Path, harm: str) -> None:
    store = Store(tmp_path, LocalComm())
    write(store, 1)
    damaged(tmp_path / "step-00000001", harm)
    with pytest.raises(RunError) as caught:
        store.newest()
    assert f"(1 damaged: step-00000001: {HARMS[harm]})" in str(caught.value)
    assert "weights_only" not in str(caught.value) and not Path(MARK).exists()


def test_every_rank_must_see_the_folder(tmp_path: Path) -> None:
    def work(comm: Comm) -> str:
        Store(tmp_path / "shared", comm).check_shared()
        with pytest.raises(RunError) as caught:
            Store(tmp_path / f"own-{comm.rank}", comm).check_shared()
        return str(caught.value)

    first, second = SimulatedWorld(2).run(work)
    assert first.startswith("worker 1 on ") and "can't see" in first and "--storage" in second
    assert list((tmp_path / "shared").iterdir()) == []
