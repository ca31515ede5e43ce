"""The commands list, show, check and schema."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from raycipe.framework import catalogue, plugins, registry
from raycipe.framework.errors import RecipeError
from raycipe.launchers.cli import raycipe

Lab = Callable[..., Path]
TOP = Path(__file__).parents[2]
FLAT = '''
@register
class Flat(Schedule):
    """The same rate throughout."""

    def factor(self, step: int, total_steps: int) -> float:
        return 1.0
'''
GOOD = """\
recipe: 1
name: a
data: digits
model: mlp
task: classification
optimizer: sgd
"""


# ---------------------------------------------------------------------------------------------- list and show


def test_list_prints_one_line_per_component(capsys: pytest.CaptureFixture[str]) -> None:
    assert raycipe(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("optimizers/sgd") and line.endswith(".") for line in lines)
    assert lines == sorted(lines)


@pytest.fixture
def no_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue in which one kind has no components."""
    schema = catalogue.load()
    defs = {name: found for name, found in schema["$defs"].items() if not name.startswith("votes/")}
    monkeypatch.setattr(catalogue, "load", lambda: {**schema, "$defs": defs})


def test_list_can_show_one_kind(no_votes: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert raycipe(["list", "models"]) == 0
    assert all(line.startswith("models/") for line in capsys.readouterr().out.splitlines())
    assert raycipe(["list", "votes"]) == 0
    assert capsys.readouterr().out == "no votes are installed\n"


def test_list_of_an_unknown_kind_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert raycipe(["list", "model"]) == 2
    assert capsys.readouterr().err == "error: no kind `model`\n    did you mean `models`?\n"


def test_list_shows_a_broken_plugin_with_its_error(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    folder = lab({"schedules/broken": "1 / 0", "schedules/flat": FLAT}, add=False)
    assert raycipe(["list", "schedules", "--components", str(folder)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "schedules/broken can't be imported: ZeroDivisionError: division by zero" in out
    assert "schedules/flat The same rate throughout." in out


def test_list_shows_a_plugin_whose_package_is_gone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = plugins.Root("gone_away", "", "plugin gone")
    monkeypatch.setattr(plugins, "_installed", [plugins.roots()[0], gone])
    assert raycipe(["list"]) == 0
    assert capsys.readouterr().out.endswith("plugin gone: the package gone_away can't be found\n")


def test_show_prints_arguments_ranges_meaning_and_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert raycipe(["show", "optimizers/sgd"]) == 0
    out = capsys.readouterr().out
    assert "a number, 0 <= momentum < 1, default 0" in out
    assert "learning rate; the schedule scales it" in out
    assert "recipe:\n  data: digits\n" in out
    assert "reference:\n" in out


def test_show_tells_how_long_a_list_must_be_and_what_its_entries_are(capsys: pytest.CaptureFixture[str]) -> None:
    raycipe(["show", "optimizers/adam"])
    assert "a list of 2, each a number >= 0 and < 1, default [0.9, 0.999]" in capsys.readouterr().out


def test_show_tells_what_a_measure_reports(capsys: pytest.CaptureFixture[str]) -> None:
    assert raycipe(["show", "measures/calibration_error"]) == 0
    assert "reports: measure/calibration_error/ece" in capsys.readouterr().out


def test_show_prints_a_sections_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert raycipe(["show", "train"]) == 0
    out = capsys.readouterr().out
    assert "batch_size" in out and "examples per optimizer step over all workers" in out
    assert "patience: an integer >= 1" in out
    assert "iterations" in out.partition("keys with an agent")[2]


def test_show_of_a_kind_lists_it(capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("models", "envs"):
        assert raycipe(["list", kind]) == raycipe(["show", kind]) == 0
        out = capsys.readouterr().out
        assert out == out[: len(out) // 2] * 2


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sgd", "did you mean `optimizers/sgd`?"),
        ("adam_w", "did you mean `optimizers/adamw`?"),
        ("trian", "did you mean `train`?"),
        ("modles", "did you mean `models`?"),
        ("train.keep_bst", "did you mean `train.keep_best`?"),
        ("train.zzzzzzzz", "see `raycipe show train`"),
        ("optimizer.lr", "its arguments depend on its type: see `raycipe show optimizer`"),
        ("%%%%%%", "see `raycipe list`, and `raycipe show recipe` for sections"),
    ],
)
def test_show_of_an_unknown_name_says_what_to_do(name: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert raycipe(["show", name]) == 2
    assert capsys.readouterr().err == f"error: no component, kind or section `{name}`\n    {hint}\n"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("optimizers/sdg", "did you mean `optimizers/sgd`?\n"),
        ("optimizer/sgd", "did you mean `optimizers/sgd`?\n"),
        ("data/lion", "known: a"),
        ("votes/maze", "no votes are installed\n    own components: --components DIR\n"),
        ("widgets/foo", "kinds: agents, calibrations, compressors, "),
    ],
)
def test_show_of_an_unknown_component_says_what_to_do(
    name: str, hint: str, no_votes: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert raycipe(["show", name]) == 2
    assert capsys.readouterr().err.startswith(f"error: no component `{name}`\n    {hint}")


def test_a_list_breaks_between_words_on_a_terminal_and_nowhere_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raycipe(["list", "optimizers"])
    piped = capsys.readouterr().out
    assert len(piped.splitlines()) == len([key for key in catalogue.load()["$defs"] if key.startswith("optimizers/")])
    beside, below = len("optimizers/adaptive_saddle  "), 4
    for columns, indent in ((80, beside), (60, beside), (45, below), (30, below)):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        raycipe(["list", "optimizers"])
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= max(columns, 40)
        assert {len(line) - len(line.lstrip()) for line in lines} == {0, indent}
        assert " ".join(lines).split() == piped.split()


def test_long_names_stand_above_their_text_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    raycipe(["list", "measures"])
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("measures/calibration_error")
    assert lines[at + 1].startswith("    Expected and largest")
    raycipe(["show", "train"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 40


def test_show_of_a_broken_plugin_tells_its_error(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    folder = lab({"schedules/broken": "1 / 0"}, add=False)
    assert raycipe(["show", "schedules/broken", "--components", str(folder)]) == 2
    assert "can't be imported: ZeroDivisionError" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------- check


def test_check_takes_files_and_globs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "sub").mkdir()
    for name in ("a.yaml", "b.yaml", "sub/c.yaml"):
        (here / name).write_text(GOOD)
    assert raycipe(["check", "a.yaml", "*.yaml"]) == 0
    assert capsys.readouterr().out == "2 recipes checked, no mistakes\n"
    assert raycipe(["check", "**/*.yaml"]) == 0
    assert capsys.readouterr().out == "3 recipes checked, no mistakes\n"
    assert raycipe(["check", "sub/c.yaml"]) == 0
    assert capsys.readouterr().out == "1 recipe checked, no mistakes\n"


def test_check_tells_every_mistake_of_every_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "a.yaml").write_text(GOOD + "train: {epoch: 1}\n")
    (here / "b.yaml").write_text(GOOD + "seed: -1\n")
    assert raycipe(["check", "a.yaml", "b.yaml", "none*.yaml"]) == 2
    err = capsys.readouterr().err.splitlines()
    assert err[0] == "a.yaml:7:9: train.epoch: unknown key of train"
    assert err[2].startswith("b.yaml:7:7: seed: must be an integer >= 0")
    assert err[4].startswith("none*.yaml: no such file")
    assert err[-1] == "3 mistakes in 3 files"


def test_check_speaks_json_to_tools(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "a.yaml").write_text(GOOD + "train: {epoch: 1}\n")
    assert raycipe(["check", "a.yaml", "--format", "json"]) == 2
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["file"], found["line"], found["code"]) == ("a.yaml", 7, "unknown-key")
    (here / "a.yaml").write_text(GOOD)
    assert raycipe(["check", "a.yaml", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_check_knows_own_components(here: Path, lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    folder = lab({"schedules/flat": FLAT}, add=False)
    (here / "a.yaml").write_text(GOOD.replace("optimizer: sgd", "optimizer: {type: sgd, schedule: flat}"))
    assert raycipe(["check", "a.yaml"]) == 2
    assert "no schedules/flat" in capsys.readouterr().err
    assert raycipe(["check", "a.yaml", "--components", str(folder)]) == 0


# ---------------------------------------------------------------------------------------------- plugins' schemas


def test_the_second_look_at_own_components_imports_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab({"schedules/flat": FLAT})
    first = catalogue.load()["$defs"]["schedules/flat"]

    def fail(*a: Any) -> Any:
        raise AssertionError("imported again")

    monkeypatch.setattr(registry, "get", fail)
    assert catalogue.load()["$defs"]["schedules/flat"] == first


def test_a_changed_file_is_read_again(lab: Lab) -> None:
    folder = lab({"schedules/flat": FLAT})
    assert "extra" not in catalogue.load()["$defs"]["schedules/flat"]["properties"]
    before = catalogue.fingerprint(str(folder))
    lab({"schedules/_helper": ""}, add=False)
    assert catalogue.fingerprint(str(folder)) != before, "a helper can change what a component declares"


def test_schema_of_a_plugin_is_written_beside_its_kind_folders(
    lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = lab({"schedules/flat": FLAT}, add=False)
    assert raycipe(["schema", str(folder), "--write"]) == 0
    assert capsys.readouterr().out == f"{folder}/schema.json\n"
    found = json.loads((folder / "schema.json").read_text())
    assert list(found["$defs"]) == ["schedules/flat"]
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent / "empty"))
    assert catalogue.definitions(plugins.roots()[-1]) == found["$defs"]
    assert not (folder.parent / "empty").exists(), "the plugin's own schema was fresh"
    assert raycipe(["schema", str(folder)]) == 0
    assert json.loads(capsys.readouterr().out) == found


def test_schema_of_an_unknown_plugin_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert raycipe(["schema", "nowhere"]) == 2
    assert capsys.readouterr().err.startswith("error: no plugin `nowhere`\n")


def test_schema_of_a_folder_without_components_is_refused(
    here: Path, lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = lab({}, "mylab", add=False)
    assert raycipe(["schema", str(folder), "--write"]) == 2
    hint = "they are KIND/TYPE.py in there, e.g. models/gated_mlp.py"
    assert capsys.readouterr().err == f"error: no components in {folder}\n    {hint}\n"
    assert not (folder / "schema.json").exists()


def test_a_damaged_cache_is_made_anew(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = lab({"schedules/flat": FLAT})
    first = catalogue.load()["$defs"]["schedules/flat"]
    (file,) = (tmp_path / "cache" / "raycipe" / "schemas").iterdir()
    assert file.stem == catalogue.fingerprint(str(folder))
    file.write_text("{")
    assert catalogue.load()["$defs"]["schedules/flat"] == first


def test_a_cache_that_cannot_be_written_only_costs_time(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    lab({"schedules/flat": FLAT})
    assert "schedules/flat" in catalogue.load()["$defs"]


def test_one_type_in_two_places_names_both_files(lab: Lab) -> None:
    first, second = lab({"schedules/flat": FLAT}, "one"), lab({"schedules/flat": FLAT}, "two")
    with pytest.raises(RecipeError) as error:
        catalogue.load()
    assert f"{second}/schedules/flat.py: schedules/flat exists twice: also in {first}/schedules/flat.py" in str(
        error.value
    )


def test_schema_prints_a_valid_schema_with_own_components(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    folder = lab({"schedules/flat": FLAT}, add=False)
    assert raycipe(["schema", "--components", str(folder)]) == 0
    whole = json.loads(capsys.readouterr().out)
    recipe = {"recipe": 1, "name": "a", "optimizer": {"type": "sgd", "schedule": "flat"}}
    assert jsonschema_rs.validator_for(whole).is_valid(recipe)
    assert raycipe(["schema"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plugins.roots()[-1].folder == str(folder), "the folder stays for this process"
    assert "schedules/flat" in plain["$defs"]


def test_schema_prints_the_packaged_file_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert raycipe(["schema"]) == 0
    assert capsys.readouterr().out == Path(catalogue.FILE).read_text(encoding="utf-8")


def test_schema_refreshes_the_copy_beside_the_recipes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raycipe(["new", "recipe", "mine"])
    copy = here / ".raycipe" / "schema.json"
    copy.write_text("old")
    assert raycipe(["schema", "--write"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(copy)
    assert copy.read_text() == Path(catalogue.FILE).read_text(encoding="utf-8")


def test_list_names_what_looks_like_a_component(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    folder = lab({"models/my-model": ""}, add=False)
    assert raycipe(["list", "--components", str(folder)]) == 0
    assert "lab/models/my-model.py is no component: a type is lower-case" in capsys.readouterr().out
    assert raycipe(["show", "models/my_model", "--components", str(folder)]) == 2
    assert "lab/models/my-model.py is no component" in capsys.readouterr().err
