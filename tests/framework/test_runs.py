"""Run folders: made once, locked, found by every name that people use."""

from __future__ import annotations

import json
import math
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from raycipe.framework.errors import RunError
from raycipe.framework.files import canonical_hash, finite, number, read_rows, to_json, write_atomic
from raycipe.framework.runs import RUN_ID, Run, create, find, find_all, point_latest
from raycipe.launchers.cli import raycipe


def finished(storage: Path, name: str) -> Run:
    run = create(storage, name)
    run.write("provenance.json", {"format": 1})
    return run


def test_a_run_folder_has_its_subfolders_and_a_latest_link(tmp_path: Path) -> None:
    run = create(tmp_path, "quickstart")
    assert RUN_ID.fullmatch(run.id) and run.name == "quickstart"
    assert run.artifacts.is_dir() and run.checkpoints.is_dir()
    assert (tmp_path / "quickstart" / "latest").resolve() == run.path


def test_many_runs_in_one_second_get_folders_of_their_own(tmp_path: Path) -> None:
    assert len({create(tmp_path, "a").id for _ in range(50)}) == 50


def test_a_locked_run_refuses_a_second_launch_and_names_the_holder(tmp_path: Path) -> None:
    run = create(tmp_path, "a")
    with run.lock():
        assert run.status() == "running"
        with pytest.raises(RunError, match=f"in use by process {os.getpid()} on"), run.lock():
            pass
    with run.lock():
        pass
    assert run.status() == "killed"  # no result was written


def test_looking_at_a_run_never_keeps_a_launch_out(tmp_path: Path) -> None:
    import fcntl

    run = create(tmp_path, "a")
    with run.lock():
        pass
    handle = os.open(run.path / "lock", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_SH)  # a look that takes its time
    timer = threading.Timer(0.05, os.close, [handle])
    timer.start()
    with run.lock():
        assert run.is_locked()
    timer.join()
    assert not run.is_locked()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("result.json", '{"expect": 4}'),
        ("result.json", '{"final": [1]}'),
        ("result.json", '{"artifacts": ["x"]}'),
        ("result.json", '{"format": "x"}'),
        ("provenance.json", '{"attempts": 3}'),
        ("provenance.json", "[]"),
    ],
)
def test_files_of_another_shape_are_damaged_and_no_traceback(tmp_path: Path, file: str, content: str) -> None:
    run = create(tmp_path, "a")
    (run.path / file).write_text(content)
    with pytest.raises(RunError, match="damaged"):
        run.read(file)


@pytest.mark.parametrize("line", [b"[]", b'{"a/b": 1}', b"\xff\xfe"])
def test_a_damaged_row_names_its_line(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n' + line + b"\n")
    with pytest.raises(RunError, match=r"metrics\.jsonl:2: damaged"):
        list(read_rows(path))


def test_a_full_disk_is_a_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = create(tmp_path, "a")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match="can't write there: No space left on device"):
        run.write("result.json", {})


def test_latest_follows_the_newest_folder_that_is_left(tmp_path: Path) -> None:
    run = create(tmp_path, "a")
    run.artifacts.rmdir()
    run.checkpoints.rmdir()
    run.path.rmdir()
    point_latest(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_folder_that_cannot_be_made_is_a_storage_error_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="can't write there") as caught:
        create(tmp_path / "file", "a")
    assert "--storage" in caught.value.hint


def test_runs_are_found_by_folder_name_id_and_end_of_id(tmp_path: Path) -> None:
    first, second, other = finished(tmp_path, "a"), finished(tmp_path, "a"), finished(tmp_path, "b")
    assert {run.id for run in find_all(tmp_path, "a")} == {first.id, second.id}
    newest = find_all(tmp_path, "a")[-1]
    assert find("a", tmp_path).path == newest.path
    assert find(str(other.path), tmp_path).path == other.path
    assert find(other.id, tmp_path).path == other.path
    assert find(other.id[-4:], tmp_path).path == other.path
    assert find(f"b/{other.id}", tmp_path).path == other.path


def test_an_unknown_run_names_the_newest_ones(tmp_path: Path) -> None:
    run = finished(tmp_path, "a")
    with pytest.raises(RunError, match="nothing: no such run") as caught:
        find("nothing", tmp_path)
    assert f"a/{run.id}" in caught.value.hint


def test_a_damaged_result_is_named(tmp_path: Path) -> None:
    run = create(tmp_path, "a")
    (run.path / "result.json").write_text("{")
    with pytest.raises(RunError, match=r"result\.json: damaged"):
        run.read("result.json")


def test_the_run_that_asks_is_never_the_one_that_its_own_name_means(tmp_path: Path) -> None:
    first, second = create(tmp_path, "a"), create(tmp_path, "a")
    for run in (first, second):
        run.write("provenance.json", {"format": 1})
    assert {find("a", tmp_path).path, find("a", tmp_path, other_than=find("a", tmp_path)).path} == {
        first.path,
        second.path,
    }
    with pytest.raises(RunError, match="no such run"):
        find(first.id, tmp_path, other_than=first)


def test_a_finished_run_that_is_killed_while_it_trains_on_is_called_killed(tmp_path: Path) -> None:
    run = create(tmp_path, "a")
    attempt = {"started": "2026-01-01T00:00:00+00:00", "ended": "2026-01-01T00:01:00+00:00", "how": "done"}
    run.write("provenance.json", {"format": 1, "attempts": [attempt]})
    run.write("result.json", {"format": 1, "status": "done"})
    assert run.status() == "done"
    run.write("provenance.json", {"format": 1, "attempts": [attempt, {**attempt, "ended": None, "how": "running"}]})
    assert run.status() == "killed"


@pytest.mark.parametrize("content", ["", '{"format": 1, "sta', "{}", "null", '{"status": null}'])
def test_a_run_with_a_damaged_result_is_not_called_killed(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = create(tmp_path, "a")
    run.write("provenance.json", {"format": 1})
    assert raycipe(["runs", "--storage", str(tmp_path)]) == 0
    assert f"a/{run.id}  killed" in capsys.readouterr().out
    (run.path / "result.json").write_text(content)
    with pytest.raises(RunError, match=r"result\.json: damaged"):
        run.status()
    assert raycipe(["runs", "--storage", str(tmp_path)]) == 0
    assert f"a/{run.id}  damaged          result.json: damaged (" in capsys.readouterr().out


def test_an_atomic_write_keeps_the_old_file_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    write_atomic(path, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomic(path, "new")
    assert path.read_text() == "old" and [file.name for file in tmp_path.iterdir()] == ["x.json"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_json_is_strict_and_gives_back_the_same_numbers() -> None:
    values = {"a": math.inf, "b": [-math.inf, 1.5], "c": {"d": math.nan}}
    text = to_json(values)
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert number(json.loads(text)["a"]) == math.inf
    assert math.isnan(number(json.loads(text)["c"]["d"]))
    assert finite({"x": 1.0}) == {"x": 1.0}


def test_the_canonical_hash_ignores_the_order_of_keys() -> None:
    assert canonical_hash({"a": 1, "b": 2}) == canonical_hash({"b": 2, "a": 1})
    assert canonical_hash({"a": 1}) != canonical_hash({"a": 1.5})


def test_a_torn_last_row_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "train/loss": "NaN"}\n{"step": 2, "train/lo')
    rows = list(read_rows(path))
    assert [row["step"] for row in rows] == [1] and math.isnan(rows[0]["train/loss"])


@pytest.mark.parametrize(
    ("file", "wrong"),
    [
        *(("result.json", {"checkpoints": wrong}) for wrong in ([{}], [{"step": "1", "path": "x"}], {}, [3])),
        *(("result.json", {"expect": wrong}) for wrong in ([{}], [{"metric": "x", "verdict": None}], "met")),
        *(("result.json", {"final": wrong}) for wrong in ({"x": "y"}, {"x": []}, [1.0])),
        *(("result.json", {"best": wrong}) for wrong in ({"x": 1.0}, {"x": {"value": 1.0}})),
        *(("result.json", {key: "x"}) for key in ("seconds", "steps", "format", "error", "skipped")),
        *(("provenance.json", {"command": wrong}) for wrong in (3, "launch", [3])),
        *(("provenance.json", {key: [{}]}) for key in ("plugins", "attempts", "gpus")),
        *(("provenance.json", {"recipe": {"git": wrong}}) for wrong in ({}, "x")),
    ],
)
def test_json_with_wrong_insides_is_damaged_and_hides_no_other_run(
    file: str, wrong: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = finished(tmp_path, "a"), finished(tmp_path, "b")
    for run in (good, bad):
        run.write("provenance.json", {"format": 1, "attempts": []})
    bad.write(file, {**bad.read(file), "status": "done", **wrong})
    with pytest.raises(RunError, match=rf"{file}: damaged \(not what Raycipe writes"):
        bad.read(file)
    assert raycipe(["report", str(bad)]) == 2
    assert f"{file}: damaged" in capsys.readouterr().err
    assert raycipe(["runs", "--storage", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(f"a/{good.id}" in line and "damaged" not in line for line in lines)
    assert sum(f"b/{bad.id}" in line for line in lines) == 1


def test_a_folder_in_place_of_the_rows_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(RunError, match=r"metrics\.jsonl: damaged \(.*directory"):
        list(read_rows(tmp_path / "metrics.jsonl"))
