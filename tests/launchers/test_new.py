"""The command new: components and recipes to be changed."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from raycipe.framework import catalogue, plugins, registry
from raycipe.framework.conformance.battery import check_component
from raycipe.framework.contracts import KINDS
from raycipe.framework.errors import RunError
from raycipe.launchers import templates
from raycipe.launchers.cli import raycipe

Lab = Callable[..., Path]
TOP = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_new_component_of_every_kind_is_accepted(
    kind: str, here: Path, lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab({}, "my_lab", add=False)
    folder = here.parent / "my_lab"
    assert raycipe(["new", "component", f"{kind}/gated_thing", "--in", str(folder)]) == 0
    assert capsys.readouterr().out.startswith(f"wrote {folder}/{kind}/gated_thing.py\n")
    plugins.add_folder(str(folder))
    assert registry.get(kind, "gated_thing").__name__ == "GatedThing"
    found = catalogue.load()["$defs"][f"{kind}/gated_thing"]
    assert "x-error" not in found
    assert all(wanted.get("description") for name, wanted in found["properties"].items() if name != "type")


@pytest.mark.parametrize("kind", templates.kinds_with_example())
def test_a_new_component_keeps_every_promise_of_its_kind(kind: str, here: Path, lab: Lab) -> None:
    lab({}, "my_lab", add=False)
    folder = here.parent / "my_lab"
    raycipe(["new", "component", f"{kind}/mine", "--in", str(folder)])
    plugins.add_folder(str(folder))
    check_component(f"{kind}/mine", here)


def test_new_components_work_together(here: Path, lab: Lab) -> None:
    lab({}, "my_lab", add=False)
    folder = here.parent / "my_lab"
    for kind in templates.kinds_with_example():
        raycipe(["new", "component", f"{kind}/mine", "--in", str(folder)])
    plugins.add_folder(str(folder))
    data = registry.make("data/mine")
    splits = data.load(0)
    batch = {name: tensor[:16] for name, tensor in splits["train"].tensors.items()}
    model = registry.make("models/mine", facts=data.facts)
    task = registry.make("tasks/mine")
    optimizer = registry.make("optimizers/mine", params=model.parameters(), lr=0.01, schedule="mine")
    first = task.loss(model, batch).value.item()
    for _ in range(20):
        optimizer.zero_grad()
        task.loss(model, batch).value.backward()
        optimizer.step()
    assert task.loss(model, batch).value.item() < first
    assert optimizer.schedule.factor(0, 10) == 1.0 and optimizer.schedule.factor(9, 10) == pytest.approx(0.01)
    assert torch.equal(data.load(0)["train"].tensors["x"], splits["train"].tensors["x"])


def test_a_method_that_is_to_be_written_says_so(here: Path, lab: Lab) -> None:
    lab({}, "my_lab", add=False)
    raycipe(["new", "component", "links/wire", "--in", str(here.parent / "my_lab")])
    plugins.add_folder(str(here.parent / "my_lab"))
    with pytest.raises(RunError, match="links/wire: `seconds` is not written yet"):
        registry.make("links/wire").seconds(1, 2)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model/x", "no kind `model`: name a component as KIND/TYPE\n    did you mean `models/x`?"),
        ("x", "no kind `x`: name a component as KIND/TYPE\n    kinds: agents, calibrations"),
        ("widgets/foo", "no kind `widgets`: name a component as KIND/TYPE\n    kinds: agents, calibrations"),
        ("models/My-Net", "`My-Net` can't be a type\n    up to 64 of a-z 0-9 _"),
        ("models/class", "`class` can't be a type"),
        ("models/", "`` can't be a type"),
        ("models/../x", "`../x` can't be a type"),
        ("models/mlp", "models/mlp exists already\n    see `raycipe show models/mlp`"),
    ],
)
def test_a_new_component_needs_a_free_name(
    name: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert raycipe(["new", "component", name]) == 2
    assert message in capsys.readouterr().err
    assert list(here.iterdir()) == []


def test_new_never_writes_over_a_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "lab" / "models").mkdir(parents=True)
    (here / "lab" / "models" / "x.py").write_text("mine")
    (here / "x.yaml").write_text("mine")
    assert raycipe(["new", "component", "models/x"]) == 2
    assert raycipe(["new", "recipe", "x"]) == 2
    assert capsys.readouterr().err.count("exists already") == 2
    assert (here / "lab" / "models" / "x.py").read_text() == (here / "x.yaml").read_text() == "mine"


def test_a_new_recipe_passes_the_checks_and_names_its_schema(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert raycipe(["new", "recipe", "mine"]) == 0
    assert capsys.readouterr().out == "wrote mine.yaml\nrun it with: launch mine.yaml\n"
    text = (here / "mine.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=.raycipe/schema.json\n")
    assert json.loads((here / ".raycipe" / "schema.json").read_text())["title"] == "Raycipe recipe"
    assert raycipe(["check", "mine.yaml"]) == 0


def test_a_new_recipe_inside_the_project_points_to_the_projects_schema(
    monkeypatch: pytest.MonkeyPatch, here: Path, tmp_path: Path
) -> None:
    (tmp_path / "raycipe" / "framework").mkdir(parents=True)
    (tmp_path / "raycipe" / "recipes").mkdir()
    schema = tmp_path / "raycipe" / "framework" / "schema.json"
    schema.write_text(Path(catalogue.FILE).read_text(encoding="utf-8"))
    monkeypatch.setattr(catalogue, "FILE", str(schema))
    monkeypatch.chdir(tmp_path / "raycipe" / "recipes")
    assert raycipe(["new", "recipe", "mine"]) == 0
    text = Path("mine.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=../framework/schema.json\n")


@pytest.mark.parametrize("name", ["Mine", "a/b", "", "a.", "../x"])
def test_a_new_recipe_needs_a_recipes_name(name: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert raycipe(["new", "recipe", name]) == 2
    assert f"`{name}` can't be a recipe's name" in capsys.readouterr().err
    assert list(here.iterdir()) == []


def test_contracts_are_read_without_importing_them() -> None:
    for kind, contract in KINDS.items():
        name, methods = templates._contract(kind)
        assert name == contract.__name__
        assert set(methods) == set(getattr(contract, "__abstractmethods__", ()))
        ast.parse(templates.component(kind, "some_thing"))


def test_new_and_list_tell_where_nothing_can_be_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "lab").write_text("a file, no folder")
    assert raycipe(["new", "component", "models/mine"]) == 2
    assert capsys.readouterr().err == "error: can't write lab/models/mine.py: Not a directory\n"
    (here / ".raycipe").write_text("a file, no folder")
    assert raycipe(["new", "recipe", "mine"]) == 2
    assert capsys.readouterr().err == f"error: can't write {here}/.raycipe/schema.json: File exists\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_disk_below_the_output_is_told() -> None:
    program = "import sys; from raycipe.launchers.cli import raycipe; sys.exit(raycipe(['list']))"
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "error: can't write: No space left on device\n")
