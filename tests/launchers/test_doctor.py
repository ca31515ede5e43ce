"""The doctor names what is missing and how to mend it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from raycipe.launchers import cli, doctor


def examined(storage: Path) -> tuple[int, str]:
    out = io.StringIO()
    return doctor.examine(str(storage), quick=True, out=out), out.getvalue()


def test_a_good_machine_is_well_and_every_part_is_named(tmp_path: Path) -> None:
    code, text = examined(tmp_path / "runs")
    assert code == 0 and text.endswith("all well\n")
    for part in (
        "python",
        "torch",
        "ray",
        "cores",
        "memory",
        "storage",
        "C++ compiler",
        "mujoco",
        "wandb",
        "components",
    ):
        assert f" {part} " in text, part
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_cannot_be_written_is_bad_and_told_how_to_mend(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    finding = next(doctor.disk(str(tmp_path / "file" / "runs")), None)
    assert finding is not None and finding.state == "bad" and "--storage" in finding.mend


def test_a_missing_optional_part_is_a_note_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    findings = list(doctor.optional())
    assert {finding.state for finding in findings} == {"note"}
    assert any("raycipe[rl]" in finding.mend for finding in findings)


def test_ray_without_authentication_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    assert [finding.what for finding in doctor.ray_() if finding.state == "bad"] == ["RAY_AUTH_MODE"]


def test_one_bad_finding_makes_the_exit_code_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    code, text = examined(tmp_path)
    assert code == 1 and text.endswith("1 to mend\n")


@pytest.mark.slow
def test_the_whole_examination_runs_two_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.raycipe(["doctor"]) == 0
    assert "a real training epoch ran" in capfd.readouterr().out
