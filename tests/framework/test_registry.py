"""Finding, registering and building components."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from raycipe.framework import catalogue, plugins, registry
from raycipe.framework.contracts import KINDS, Schedule
from raycipe.framework.errors import RecipeError
from raycipe.framework.reader import read_text

Lab = Callable[..., Path]

FLAT = '''
@register
class Flat(Schedule):
    """The same rate throughout."""

    def __init__(self, level: Positive = 1.0) -> None:
        if level == 13:
            raise ValueError("level must not be 13")
        if level == 14:
            raise ValueError("no level here")
        self.level = level

    def factor(self, step: int, total_steps: int) -> float:
        return self.level
'''

TOY = '''
@register
class Toy(Optimizer, torch.optim.SGD):
    """Steps down the gradient."""

    def __init__(self, params: Any, lr: Positive = 0.1, schedule: Schedule | None = default("flat")) -> None:
        torch.optim.SGD.__init__(self, params, lr=lr)
        self.schedule = schedule
'''

MODEL = '''
@register
class Wide(Model):
    """A model that asks the data."""

    def __init__(self, width: Annotated[Count, FromData("num_features")], depth: Annotated[int, FromData("d")] = 3):
        super().__init__()
        self.width, self.depth = width, depth
'''


def message(error: pytest.ExceptionInfo[RecipeError]) -> str:
    return str(error.value)


# ---------------------------------------------------------------------------------------------- register and get


def test_a_components_type_is_its_file_name(lab: Lab) -> None:
    lab({"schedules/flat": FLAT})
    assert registry.get("schedules", "flat").type_name == "flat"
    assert registry.get("schedules", "flat") is registry.get("schedules", "flat")


def test_a_file_is_imported_only_when_it_is_named(lab: Lab) -> None:
    lab({"schedules/flat": FLAT, "schedules/other": "raise RuntimeError('imported')"})
    registry.get("schedules", "flat")
    assert "lab.schedules.flat" in sys.modules
    assert "lab.schedules.other" not in sys.modules


@pytest.mark.parametrize("name", ["_warmup", "__init__", "os", "a.b", "../x", "Cosine", "class", "x" * 65, ""])
def test_no_name_reaches_a_helper_a_package_or_a_path(name: str) -> None:
    with pytest.raises(RecipeError) as error:
        registry.get("schedules", name)
    assert error.value.problems[0].code == "unknown-type"


def test_a_class_in_the_wrong_folder_is_told_where_it_belongs(lab: Lab) -> None:
    lab({"tasks/flat": FLAT})
    with pytest.raises(RecipeError) as error:
        registry.get("tasks", "flat")
    assert "Flat does not derive from Task, the contract of tasks" in message(error)
    assert "it belongs into schedules/" in message(error)


def test_a_class_that_leaves_out_a_method_is_refused(lab: Lab) -> None:
    lab({"schedules/flat": '@register\nclass Flat(Schedule):\n    """x"""\n'})
    with pytest.raises(RecipeError, match=r"Flat leaves out factor"):
        registry.get("schedules", "flat")


def test_a_file_that_registers_nothing_is_told_how(lab: Lab) -> None:
    lab({"schedules/flat": FLAT.replace("@register", "")})
    with pytest.raises(RecipeError, match=r"registers no component\n    put @register above its class"):
        registry.get("schedules", "flat")


def test_two_components_in_one_file_are_refused(lab: Lab) -> None:
    lab({"schedules/flat": FLAT + FLAT.replace("Flat", "Second")})
    with pytest.raises(RecipeError, match=r"schedules/flat is registered twice: Flat in .*flat.py"):
        registry.get("schedules", "flat")


def test_a_second_import_of_the_same_class_is_fine(lab: Lab) -> None:
    lab({"schedules/flat": FLAT})
    first = registry.get("schedules", "flat")
    del sys.modules["lab.schedules.flat"]
    assert registry.get("schedules", "flat") is not first


def test_a_class_outside_every_root_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"Here lies outside raycipe.components, every plugin"):

        @registry.register
        class Here(Schedule):
            def factor(self, step: int, total_steps: int) -> float:
                return 1.0


def test_a_folder_that_is_no_kind_is_refused(lab: Lab) -> None:
    lab({"things/flat": FLAT})
    import importlib

    with pytest.raises(RecipeError, match=r"no kind is named `things`"):
        importlib.import_module("lab.things.flat")


def test_a_file_named_by_a_keyword_is_refused(lab: Lab) -> None:
    lab({"schedules/class": FLAT})
    assert registry.find("schedules", "class") is None
    import importlib

    with pytest.raises(RecipeError, match=r"`class` can't be a type\n    rename the file"):
        importlib.import_module("lab.schedules.class")


@pytest.mark.parametrize(
    "text, kind", [("1 / 0", ZeroDivisionError), ("def", SyntaxError), ("import nowhere", ImportError)]
)
def test_a_broken_file_keeps_its_exception_and_names_itself(lab: Lab, text: str, kind: type[Exception]) -> None:
    folder = lab({"schedules/broken": text})
    with pytest.raises(kind) as error:
        registry.get("schedules", "broken")
    told = "".join(error.value.__notes__)
    assert f"while importing schedules/broken from {folder}/schedules/broken.py (--components)" in told


def test_a_missing_optional_package_names_the_extra(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    lab({"schedules/gym": "import gymnasium.spaces"})
    with pytest.raises(ImportError) as error:
        registry.get("schedules", "gym")
    assert "pip install 'raycipe[rl]'" in "".join(error.value.__notes__)


def test_a_type_in_two_roots_names_both_files(lab: Lab) -> None:
    first, second = lab({"schedules/flat": FLAT}, "one"), lab({"schedules/flat": FLAT}, "two")
    with pytest.raises(RecipeError) as error:
        registry.get("schedules", "flat")
    assert f"{first}/schedules/flat.py" in message(error)
    assert f"{second}/schedules/flat.py" in message(error)


def test_nobody_overrides_a_built_in_type(lab: Lab) -> None:
    lab({"schedules/cosine": FLAT})
    with pytest.raises(RecipeError, match=r"schedules/cosine exists twice"):
        registry.get("schedules", "cosine")


# ---------------------------------------------------------------------------------------------- folders and plugins


@pytest.mark.parametrize("name", ["my-lab", "class", "1lab"])
def test_a_components_folder_needs_a_python_word_as_name(lab: Lab, name: str) -> None:
    folder = lab({"schedules/flat": FLAT}, name, add=False)
    with pytest.raises(RecipeError, match=r"is not a Python word\n    rename the folder"):
        plugins.add_folder(str(folder))


@pytest.mark.parametrize("name", ["json", "torch", "raycipe"])
def test_a_components_folder_may_not_shadow_a_package(lab: Lab, name: str) -> None:
    folder = lab({"schedules/flat": FLAT}, name, add=False)
    with pytest.raises(RecipeError, match=rf"`{name}` already names another Python package\n    rename the folder"):
        plugins.add_folder(str(folder))


def test_a_missing_components_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"--components: no such folder"):
        plugins.add_folder(str(tmp_path / "nowhere"))


def test_adding_a_folder_twice_is_adding_it_once(lab: Lab) -> None:
    folder = lab({"schedules/flat": FLAT})
    assert plugins.add_folder(str(folder)) == plugins.roots()[-1]
    assert [root.folder for root in plugins.roots()].count(str(folder.resolve())) == 1
    assert plugins.added_folders().count(str(folder.resolve())) == 1


def test_helpers_beside_a_component_are_importable_and_siblings_of_the_folder_are_not(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("")
    lab({"schedules/_level": "LEVEL = 7.0", "schedules/flat": "from lab.schedules._level import LEVEL\n" + FLAT})
    assert registry.get("schedules", "flat").__module__ == "lab.schedules.flat"
    with pytest.raises(ImportError):
        __import__("secret")


def test_a_worker_adopts_the_drivers_folders(lab: Lab) -> None:
    folder = lab({"schedules/flat": FLAT}, add=False)
    plugins.adopt([("raycipe.components", "", "built in"), ("lab", str(folder), "--components")])
    assert registry.make("schedules/flat").factor(0, 1) == 1.0


def test_an_installed_plugin_is_found_by_its_entry_point(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab({"schedules/flat": FLAT}, "plugged", add=False)
    info = tmp_path / "plugged_things-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text(
        "[console_scripts]\na = b:c\n\n[raycipe.components]\nmine = plugged\n\n[x]\ny = z\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(plugins, "_installed", None)
    assert ("plugged", str(tmp_path / "plugged"), "plugin plugged_things") in plugins.roots()
    assert registry.make("schedules/flat", level=2.0).level == 2.0


def test_a_folder_named_as_an_installed_plugin_stands_for_it(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = lab({"schedules/flat": FLAT}, "plugged", add=False)
    site = tmp_path / "site"
    (site / "plugged-1.0.dist-info").mkdir(parents=True)
    (site / "plugged-1.0.dist-info" / "entry_points.txt").write_text("[raycipe.components]\nmine = plugged\n")
    (site / "plugged" / "schedules").mkdir(parents=True)
    (site / "plugged" / "schedules" / "flat.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(plugins, "_installed", None)
    assert ("plugged", str(site / "plugged"), "plugin plugged") in plugins.roots()
    root = plugins.add_folder(str(folder))
    assert [found for found in plugins.roots() if found.package == "plugged"] == [root]
    assert catalogue.load()["$defs"]["schedules/flat"]["properties"]["level"]["default"] == 1.0
    assert registry.make("schedules/flat", level=2.0).level == 2.0


# ---------------------------------------------------------------------------------------------- build and make


def test_make_fills_defaults_and_builds_nested_components_first(lab: Lab) -> None:
    lab({"schedules/flat": FLAT, "optimizers/toy": TOY})
    params = [torch.zeros(1)]
    assert registry.make("optimizers/toy", params=params).schedule.level == 1.0
    made = registry.make("optimizers/toy", params=params, lr=0.5, schedule={"type": "flat", "level": 2.0})
    assert (made.param_groups[0]["lr"], made.schedule.level) == (0.5, 2.0)
    assert registry.make("optimizers/toy", params=params, schedule=None).schedule is None
    ready = registry.make("schedules/flat")
    assert registry.make("optimizers/toy", params=params, schedule=ready).schedule is ready


def test_build_takes_nodes_and_plain_values_alike(lab: Lab) -> None:
    lab({"schedules/flat": FLAT})
    assert registry.build("flat", "schedules").level == 1.0
    assert registry.build(read_text("{type: flat, level: 2}", "r.yaml"), "schedules", "a.b").level == 2


def test_facts_fill_arguments_that_the_recipe_leaves_out(lab: Lab) -> None:
    lab({"models/wide": MODEL})
    made = registry.make("models/wide", facts={"num_features": 4, "d": 5})
    assert (made.width, made.depth) == (4, 5)
    assert registry.make("models/wide", facts={"num_features": 4}, width=9).width == 9
    assert registry.make("models/wide", facts={"num_features": 4}).depth == 3


def test_a_fact_that_the_data_does_not_tell_is_a_missing_argument(lab: Lab) -> None:
    lab({"models/wide": MODEL})
    with pytest.raises(RecipeError) as error:
        registry.build(read_text("{type: wide}", "r.yaml"), "models", "model")
    assert message(error).startswith(
        "r.yaml:1:1: model: missing `width`, which models/wide needs and the data does not"
    )
    assert error.value.problems[0].code == "missing"


def test_the_data_may_say_why_it_does_not_tell_a_fact(lab: Lab) -> None:
    lab({"models/wide": MODEL})
    facts = {"missing": {"num_features": "the table is empty: bring rows"}}
    with pytest.raises(RecipeError, match=r"does not tell \(num_features\)\n    the table is empty: bring rows$"):
        registry.build("wide", "models", "model", facts=facts)


def test_a_fact_out_of_an_arguments_range_is_told(lab: Lab) -> None:
    lab({"models/wide": MODEL})
    with pytest.raises(RecipeError, match=r"model.width: must be >= 1 and <= 1e\+09, not 0, which the data tells as"):
        registry.build("wide", "models", "model", facts={"num_features": 0})


def test_a_constructors_complaint_is_located_where_nodes_are_known(lab: Lab) -> None:
    lab({"schedules/flat": FLAT})
    node = read_text("type: flat\nlevel: 13\n", "r.yaml")
    with pytest.raises(RecipeError, match=r"r.yaml:2:8: optimizer.schedule.level: must not be 13"):
        registry.build(node, "schedules", "optimizer.schedule")


def test_other_failures_keep_their_type_and_name_path_component_and_arguments(lab: Lab) -> None:
    lab({"schedules/flat": FLAT})
    with pytest.raises(ValueError) as error:
        registry.build({"type": "flat", "level": 14}, "schedules", "optimizer.schedule")
    told = "".join(error.value.__notes__)
    assert "while building optimizer.schedule = schedules/flat with {'level': 14}" in told


def test_every_kind_has_a_contract_with_a_docstring() -> None:
    assert all(contract.__doc__ for contract in KINDS.values())
