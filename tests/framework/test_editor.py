"""What an editor offers with the generated schema, asked from the language server of the YAML extensions.

`npm install --global yaml-language-server` makes these tests run; without it they are skipped.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raycipe.framework import catalogue

SERVER = shutil.which("yaml-language-server")

pytestmark = pytest.mark.skipif(
    SERVER is None or shutil.which("node") is None, reason="needs node and yaml-language-server on PATH"
)

GOOD = """\
recipe: 1
name: a
data: digits
model: {type: mlp, hidden: [8]}
task: classification
optimizer:
  type: sgd
  lr: 0.1
"""


class Editor:
    """A client of the server: opens texts, asks for completions, hovers and diagnostics."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen([str(SERVER), "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.folder = folder
        self.sent = 0
        self.files = 0
        self.ask("initialize", processId=None, rootUri=None, capabilities={"workspace": {"configuration": True}})
        self.send("initialized")

    def send(self, method: str, **params: Any) -> None:
        self._write({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, **params: Any) -> Any:
        self.sent += 1
        self._write({"jsonrpc": "2.0", "id": self.sent, "method": method, "params": params})
        return self.wait(lambda message: message.get("id") == self.sent and "method" not in message).get("result")

    def wait(self, wanted: Any) -> dict[str, Any]:
        while True:
            message = self._read()
            if message.get("method") == "workspace/configuration":
                settings = {"validate": True, "hover": True, "completion": True, "schemaStore": {"enable": False}}
                result = [settings if item.get("section") == "yaml" else {} for item in message["params"]["items"]]
                self._write({"jsonrpc": "2.0", "id": message["id"], "result": result})
            elif "id" in message and "method" in message:
                self._write({"jsonrpc": "2.0", "id": message["id"], "result": None})
            if wanted(message):
                return message

    def open(self, text: str) -> tuple[str, list[dict[str, Any]]]:
        """The document's address and its diagnostics; `|` in the text is dropped by `offer` and `hover`."""
        self.files += 1
        uri = (self.folder / f"{self.files}.yaml").as_uri()
        text = f"# yaml-language-server: $schema={Path(catalogue.FILE).as_uri()}\n{text}"
        self.send("textDocument/didOpen", textDocument={"uri": uri, "languageId": "yaml", "version": 1, "text": text})
        method = "textDocument/publishDiagnostics"
        found = self.wait(lambda message: message.get("method") == method and message["params"]["uri"] == uri)
        return uri, found["params"]["diagnostics"]

    def mistakes(self, text: str) -> list[tuple[int, int, str]]:
        """(line, column, message) of each diagnostic, counted in the given text from 1."""
        starts = [(item["range"]["start"], item["message"]) for item in self.open(text)[1]]
        return [(start["line"], start["character"] + 1, message) for start, message in starts]

    def at(self, text: str) -> dict[str, Any]:
        """Open a text and point to the place marked by `|`."""
        before = text.partition("|")[0]
        uri, _ = self.open(text.replace("|", "", 1))
        line, column = before.count("\n") + 1, len(before.rpartition("\n")[2])
        return {"textDocument": {"uri": uri}, "position": {"line": line, "character": column}}

    def offers(self, text: str) -> set[str]:
        found = self.ask("textDocument/completion", **self.at(text))
        return {item["label"] for item in found["items"]}

    def hover(self, text: str) -> str:
        return str(self.ask("textDocument/hover", **self.at(text))["contents"]["value"])

    def _write(self, message: dict[str, Any]) -> None:
        body = json.dumps(message).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def _read(self) -> dict[str, Any]:
        stream = self.process.stdout
        assert stream is not None
        length = 0
        while line := stream.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        assert length, "the language server ended"
        found: dict[str, Any] = json.loads(stream.read(length))
        return found

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(10)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    client = Editor(tmp_path_factory.mktemp("editor"))
    yield client
    client.close()


def test_a_right_recipe_is_clean(editor: Editor) -> None:
    assert editor.mistakes(GOOD) == []


def test_references_are_not_marked(editor: Editor) -> None:
    assert editor.mistakes(GOOD.replace("0.1", '"${seed}"') + "seed: 3\ntrain: {batch_size: '${seed}'}\n") == []


def test_a_wrong_argument_is_marked_once_at_its_place(editor: Editor) -> None:
    (found,) = editor.mistakes(GOOD.replace("  lr: 0.1", "  rato: 0.1"))
    assert found[:2] == (8, 3)
    assert "rato is not allowed" in found[2]


def test_a_wrong_argument_deep_in_a_one_line_map_is_marked_once(editor: Editor) -> None:
    (found,) = editor.mistakes(GOOD + "  schedule: {type: cosine, flor: 0.1}\n")
    assert found[:2] == (9, 28)
    assert "flor is not allowed" in found[2]


def test_a_child_that_changes_a_part_is_clean_and_still_closed(editor: Editor) -> None:
    child = "recipe: 1\nextends: base.yaml\noptimizer: {lr: 0.2}\nsweep: null\n"
    assert editor.mistakes(child) == []
    assert len(editor.mistakes(child + "trian: {}\n")) == 1


def test_a_profile_may_change_a_part(editor: Editor) -> None:
    assert editor.mistakes(GOOD + "profiles:\n  big: {optimizer: {lr: 0.2}, expect: null}\n") == []


def test_every_type_is_offered_with_its_sentence(editor: Editor) -> None:
    offered = editor.offers(GOOD.replace("type: sgd\n  lr: 0.1", "type: |"))
    assert {"adam", "adamw", "sgd"} <= offered


def test_arguments_of_a_component_and_of_a_nested_one_are_offered(editor: Editor) -> None:
    assert {"momentum", "nesterov", "schedule"} <= editor.offers(GOOD + "  |\n")
    assert {"floor", "warmup"} <= editor.offers(GOOD + "  schedule:\n    type: cosine\n    |\n")


def test_shorthands_and_choices_are_offered(editor: Editor) -> None:
    assert {"cosine", "linear"} <= editor.offers(GOOD + "  schedule: |\n")
    assert {"fp32", "bf16"} <= editor.offers(GOOD + "train:\n  precision: |\n")


def test_entries_of_a_list_are_offered(editor: Editor) -> None:
    assert {"confusion_matrix", "calibration_error"} <= editor.offers(GOOD + "measures:\n  - |\n")


def test_hovering_over_an_argument_shows_its_help(editor: Editor) -> None:
    assert "learning rate" in editor.hover(GOOD.replace("  lr", "  l|r"))
