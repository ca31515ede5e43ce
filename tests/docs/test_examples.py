"""The book's examples run: files are written, commands executed, and each must end as the page says.

A captioned code block is a file of that name. A `console` block holds commands after `$ `; class `shown` means only
shown (it names paths of one machine or takes minutes), class `fails` that its last command must exit with 2.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from raycipe.launchers import cli

BOOK = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```\{code-block\} (\w+)\n((?::\w+:[^\n]*\n)*)(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted(path.relative_to(BOOK).as_posix() for path in BOOK.rglob("*.md") if BLOCK.search(path.read_text()))


class Block(NamedTuple):
    language: str
    caption: str
    style: str
    text: str


def blocks(page: str) -> list[Block]:
    found = []
    for language, options, text in BLOCK.findall((BOOK / page).read_text()):
        words = dict(re.findall(r":(\w+): *(.*)", options))
        found.append(Block(language, words.get("caption", ""), words.get("class", ""), text))
    return found


def run(words: list[str]) -> int:
    """A command of ours in this process; with own components, which would stay in it, as one of its own; or pytest."""
    if "--components" in words or words[1] == "schema":
        return subprocess.run(
            [sys.executable, "-m", "raycipe.launchers.cli", *(words if words[0] == "launch" else words[1:])],
            check=False,
            timeout=300,
        ).returncode
    if words[0] == "pytest":
        return subprocess.run([sys.executable, "-m", *words], check=False, timeout=300).returncode
    try:  # argparse leaves by SystemExit
        return cli.launch(words[1:]) if words[0] == "launch" else cli.raycipe(words[1:])
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")  # the page's files are a project of their own
    for block in blocks(page):
        if block.caption:
            target = tmp_path / block.caption
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text)
        elif block.language == "console" and block.style != "shown":
            for line in re.findall(r"^\$ (.*)$", block.text, re.MULTILINE):
                words = shlex.split(line, comments=True)
                code = run(words)
                assert code == (2 if block.style == "fails" else 0), f"{page}: `{line}` exited with {code}"


def test_the_book_has_examples() -> None:
    assert {"guide/start.md", "guide/own_data.md", "guide/own_component.md"} <= set(PAGES)
