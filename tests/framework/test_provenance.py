"""Provenance: enough to run again, nothing secret."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from raycipe.framework import provenance


def test_it_records_recipe_versions_and_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text("recipe: 1\n")
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    monkeypatch.setenv("RAYCIPE_TEST", "yes")
    found = provenance.collect(str(recipe), command=["launch", "r.yaml"], recipe_hash="ab", seed=3, note="why")
    assert found["recipe"]["sha256"] == hashlib.sha256(b"recipe: 1\n").hexdigest()
    assert found["packages"]["torch"] and found["seed"] == 3 and found["note"] == "why"
    assert found["environment"]["RAYCIPE_TEST"] == "yes"
    assert "hunter2" not in str(found)


def test_git_state_has_the_commit_and_no_user_info(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True)

    git("init", "-q")
    git("remote", "add", "origin", "https://user:secret@127.0.0.1/x.git")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-q", "-m", "first")
    state = provenance.git_state(tmp_path)
    assert state is not None and len(state["commit"]) == 40 and state["dirty"] is False
    assert state["remote"] == "https://127.0.0.1/x.git"
    (tmp_path / "a").write_text("2")
    assert provenance.git_state(tmp_path)["dirty"] is True  # type: ignore[index]


def test_outside_a_repository_there_is_no_git_state(tmp_path: Path) -> None:
    assert provenance.git_state(tmp_path) is None


def test_an_ssh_remote_loses_its_user() -> None:
    assert provenance._without_user("git@host:a/b.git") == "host:a/b.git"
