"""The walk over a recipe: the same verdict as a JSON Schema validator, and better words."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from raycipe.framework import catalogue
from raycipe.framework.inputs import Inputs
from raycipe.framework.reader import read_text
from raycipe.framework.tree import Node, Place, plain
from raycipe.framework.walk import Walk

Lab = Callable[..., Path]

THING = '''
class Box(TypedDict, total=False):
    side: Share


class Full(TypedDict):
    name: str


@register
class Thing(Schedule):
    """Everything that a recipe can express."""

    at_most_one = (("few", "many"),)

    def __init__(
        self,
        needed: Literal["yes", "no"],
        count: Annotated[int, Range(ge=1, le=9)] = 1,
        rate: Share = 0.5,
        flag: bool = False,
        maybe: Positive | None = None,
        words: Annotated[list[str], Length(1, 3)] = ("a",),
        pair: tuple[int, bool] = (1, True),
        free: dict[str, Share] = {},
        box: Box = {},
        full: Full | bool = False,
        mixed: Literal["auto", 1] | bool = "auto",
        inner: Schedule = default("flat"),
        several: list[Schedule] | None = None,
        either: float | Schedule = 1.0,
        few: Count | None = None,
        many: Count | None = None,
        text: Annotated[str, FromData("words")] = "x",
    ) -> None:
        pass

    def factor(self, step: int, total_steps: int) -> float:
        return 1.0
'''

FLAT = '''
@register
class Flat(Schedule):
    """The same rate throughout."""

    def __init__(self, level: Annotated[float, Range(gt=0, le=1)] = 1.0) -> None:
        pass

    def factor(self, step: int, total_steps: int) -> float:
        return 1.0
'''

GOOD = {
    "type": "thing",
    "needed": "yes",
    "count": 2,
    "rate": 0.25,
    "maybe": None,
    "words": ["a", "b"],
    "pair": [3, False],
    "free": {"a": 0.5},
    "box": {"side": 1},
    "full": {"name": "x"},
    "mixed": 1,
    "inner": {"type": "flat", "level": 0.5},
    "several": ["flat", {"type": "flat"}, {"type": "thing", "needed": "no"}],
    "either": {"type": "flat"},
    "few": 3,
}


AT = Place("r.yaml", 1, 1)


def as_node(value: Any) -> Node:
    if isinstance(value, dict):
        return Node({key: as_node(child) for key, child in value.items()}, AT)
    return Node([as_node(child) for child in value], AT) if isinstance(value, list) else Node(value, AT)


@pytest.fixture
def things(lab: Lab) -> dict[str, Any]:
    lab({"schedules/thing": THING, "schedules/flat": FLAT})
    return catalogue.load()


def walked(whole: dict[str, Any], value: Any) -> tuple[Any, Walk]:
    walk = Walk(whole)
    node = value if isinstance(value, Node) else as_node(value)
    found = walk.component("schedules", node, "schedule", ("schedule", {}))
    walk.finish()
    return plain(found), walk


def told(whole: dict[str, Any], text: str) -> list[str]:
    return [str(problem) for problem in walked(whole, read_text(text, "r.yaml"))[1].problems]


def codes(whole: dict[str, Any], text: str) -> list[str]:
    return [problem.code for problem in walked(whole, read_text(text, "r.yaml"))[1].problems]


# ---------------------------------------------------------------------------------------------- verdicts

numbers = [0, 1, 2, -1, 0.5, 1.0, 3.5, 10**10, 1e300]
leaves = st.sampled_from([None, True, False, *numbers, "yes", "flat", "thing", "cosine", "a", "", [], {}, ["a"]])
names = ["type", "level", "needed", "count", "rate", "x", "few", "many", "side", "name", "inner", "maybe"]
keys = st.sampled_from(names)


def spots(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(spot for key, child in children for spot in spots(child, (*path, key)))]


def mutate(value: Any, data: st.DataObject) -> Any:
    """Replace, remove or add something somewhere."""
    changed = copy.deepcopy(value)
    path = data.draw(st.sampled_from(spots(changed)))
    if not path:
        return data.draw(leaves)
    parent = changed
    for key in path[:-1]:
        parent = parent[key]
    action = data.draw(st.sampled_from(["replace", "replace", "remove", "add", "copy"]))
    if action == "remove":
        del parent[path[-1]]
    elif action == "add" and isinstance(parent, dict):
        parent[data.draw(keys)] = data.draw(leaves)
    elif action == "copy":
        parent[path[-1]] = copy.deepcopy(GOOD[data.draw(st.sampled_from(sorted(GOOD)))])
    else:
        parent[path[-1]] = data.draw(leaves)
    return changed


def test_the_walk_and_a_json_schema_validator_give_the_same_verdict(things: dict[str, Any]) -> None:
    validator = jsonschema_rs.validator_for({"$ref": "#/$defs/schedules", "$defs": things["$defs"]})
    assert validator.is_valid(GOOD)

    @settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(st.data())
    def same(data: st.DataObject) -> None:
        value = GOOD
        for _ in range(data.draw(st.integers(1, 3))):
            value = mutate(value, data)
        problems = walked(things, value)[1].problems
        assert (not problems) == validator.is_valid(value), (value, [str(problem) for problem in problems])

    same()


def test_whole_recipes_have_the_same_verdict_too() -> None:
    whole = catalogue.load()
    validator = jsonschema_rs.validator_for(whole)
    recipe = yaml.safe_load(Path(__file__).parents[2].joinpath("recipes/quickstart.yaml").read_text())
    full = whole["$defs"]["full"]
    wanted = {**full, "properties": {**full["properties"], "train": {"$ref": "#/$defs/Train"}, "profiles": {}}}

    @settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(st.data())
    def same(data: st.DataObject) -> None:
        value = recipe
        for _ in range(data.draw(st.integers(1, 2))):
            value = mutate(value, data)
        if not isinstance(value, dict):
            return
        value = {key: child for key, child in value.items() if key not in ("profiles", "extends")}
        walk = Walk(whole)
        walk.record(wanted, as_node(value), "", ("", {}))
        assert (not walk.problems) == validator.is_valid(value), (value, [str(problem) for problem in walk.problems])

    same()


# ---------------------------------------------------------------------------------------------- what it makes


def test_values_are_normalised_and_defaults_filled_in(things: dict[str, Any]) -> None:
    found, walk = walked(things, {"type": "thing", "needed": "no", "count": 2.0, "inner": "flat"})
    assert walk.problems == []
    assert found["count"] == 2 and isinstance(found["count"], int)
    assert found["inner"] == {"type": "flat", "level": 1.0}
    assert found["words"] == ["a"] and found["free"] == {} and found["maybe"] is None
    assert "text" not in found, "the data fills it"
    assert "few" not in found and "many" not in found, "one of them would exclude the other when read again"
    assert walked(things, found)[0] == found, "walking again changes nothing"


def test_no_node_of_a_layer_is_changed(things: dict[str, Any]) -> None:
    node = as_node({"type": "thing", "needed": "no", "count": 2.0, "inner": "flat"})
    before = plain(node)
    walked(things, node)
    assert plain(node) == before


def test_a_default_says_where_it_comes_from(things: dict[str, Any]) -> None:
    walk = Walk(things)
    found = walk.component("schedules", as_node({"type": "thing", "needed": "no"}), "s", ("s", {}))
    assert found.value["rate"].origin == "default of schedules/thing"
    assert found.value["inner"].value["level"].origin == "default of schedules/flat"


def test_the_walk_records_every_map_with_all_its_arguments(things: dict[str, Any]) -> None:
    walk = walked(things, {"type": "thing", "needed": "no", "several": ["flat"]})[1]
    assert set(walk.maps) == {"schedule", "schedule.box", "schedule.free", "schedule.inner", "schedule.several.0"}
    assert "level" in walk.maps["schedule.several.0"].arguments
    assert walk.maps["schedule"].label == "schedules/thing"


# ---------------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("count: 0", "r.yaml:3:8: schedule.count: must be an integer >= 1 and <= 9, not 0"),
        ("count: 1.5", "r.yaml:3:8: schedule.count: must be an integer >= 1 and <= 9, not 1.5"),
        ("count: many", "r.yaml:3:8: schedule.count: must be an integer >= 1 and <= 9, not the text `many`"),
        ("count: true", "r.yaml:3:8: schedule.count: must be an integer >= 1 and <= 9, not true"),
        ("count: null", "r.yaml:3:8: schedule.count: must be an integer >= 1 and <= 9, not null"),
        ("rate: 2", "r.yaml:3:7: schedule.rate: must be a number > 0 and <= 1, not 2"),
        ("flag: 1", "r.yaml:3:7: schedule.flag: must be true or false, not 1"),
        ("maybe: x", "r.yaml:3:8: schedule.maybe: must be a number > 0 or null, not the text `x`"),
        ("maybe: -1", "r.yaml:3:8: schedule.maybe: must be a number > 0, not -1"),
        ("words: []", "r.yaml:3:8: schedule.words: must have 1 to 3 entries, not 0"),
        ("words: [a, 7]", "r.yaml:3:12: schedule.words.1: must be text, not 7"),
        ("words: a", "r.yaml:3:8: schedule.words: must be a list, not the text `a`"),
        ("pair: [1]", "r.yaml:3:7: schedule.pair: must have 2 entries, not 1"),
        ("pair: [1, 2]", "r.yaml:3:11: schedule.pair.1: must be true or false, not 2"),
        ("free: {a: 2}", "r.yaml:3:11: schedule.free.a: must be a number > 0 and <= 1, not 2"),
        ("free: 2", "r.yaml:3:7: schedule.free: must be a map, not 2"),
        ("box: {sid: 1}", "r.yaml:3:7: schedule.box.sid: unknown key of schedule.box"),
        ("full: {}", "r.yaml:3:1: schedule.full: missing `name`, which schedule.full needs"),
        ("full: 3", "r.yaml:3:7: schedule.full: must be a map or true or false, not 3"),
        ("mixed: nope", "r.yaml:3:8: schedule.mixed: must be `auto` or `1`, not the text `nope`"),
        ("mixed: [1]", "r.yaml:3:8: schedule.mixed: must be `auto` or `1` or true or false, not a list"),
        (
            "inner: 3",
            "r.yaml:3:8: schedule.inner: must be one of schedules (its name, or a map with `type`), not 3",
        ),
        ("inner: {level: 1}", "r.yaml:3:1: schedule.inner: missing `type`, which says which of schedules it is"),
        ("inner: {type: 3}", "r.yaml:3:15: schedule.inner.type: must be text, not 3"),
        ("inner: thing", "r.yaml:3:1: schedule.inner: missing `needed`, which schedules/thing needs"),
        ("either: 7 days", "r.yaml:3:9: schedule.either: must be a number or one of schedules, not the text `7 days`"),
        ("either: [1]", "r.yaml:3:9: schedule.either: must be a number or one of schedules, not a list"),
        ("many: 3\nfew: 4", "r.yaml:3:1: schedule.many: excludes `few`: at most one of them can be given"),
    ],
)
def test_each_mistake_is_told_at_its_place(text: str, message: str, things: dict[str, Any]) -> None:
    lines = [line.splitlines()[0] for line in told(things, f"type: thing\nneeded: yes\n{text}\n")]
    assert lines == [message]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("count: 0", "out-of-range"),
        ("count: a", "wrong-type"),
        ("needed: maybe", "wrong-choice"),
        ("words: []", "length"),
        ("nonsense: 1", "unknown-key"),
        ("inner: nope", "unknown-type"),
        ("inner: {level: 1}", "missing"),
    ],
)
def test_each_mistake_has_its_code(text: str, code: str, things: dict[str, Any]) -> None:
    base = "type: thing\n" if text.startswith("needed") else "type: thing\nneeded: yes\n"
    assert codes(things, base + text) == [code]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("rat: 1", "did you mean `rate`?  (0 < rate <= 1; default 0.5)"),
        ("RATE: 1", "did you mean `rate`?  (0 < rate <= 1; default 0.5)"),
        ("level: 1", "did you mean `schedule.inner.level`?"),
        ("inner: {type: flat, zzz: 1}", "known: level"),
        ("inner: flt", "did you mean `flat`?"),
        ("inner: zzz", "known: constant, cosine, flat, inverse_sqrt, linear, step, theory, thing"),
        ("inner: sgd", "known: constant, cosine, flat, inverse_sqrt, linear, step, theory, thing"),
        ("inner: torch.optim.SGD", "a type is one registered word, never an import path"),
        ("inner: ../flat", "a type is one registered word, never an import path"),
        ("rate: 2", "rate: 0 < rate <= 1; default 0.5"),
        ("flag: 2", "flag: default false"),
    ],
)
def test_each_mistake_says_what_to_do(text: str, hint: str, things: dict[str, Any]) -> None:
    (found,) = told(things, f"type: thing\nneeded: yes\n{text}\n")
    assert found.splitlines()[1].strip() == hint


def test_a_type_that_nobody_knows_may_be_the_users_own(things: dict[str, Any]) -> None:
    own = "\n    own components: --components DIR"
    assert told(things, "type: thing\nneeded: yes\ninner: zzz\n")[0].endswith(own)
    for text in ("inner: flt", "inner: sgd", "inner: {level: 1}"):
        assert "--components" not in told(things, f"type: thing\nneeded: yes\n{text}\n")[0]


def test_a_near_choice_is_named_before_the_help(things: dict[str, Any]) -> None:
    assert "did you mean `auto`?" in told(things, "type: thing\nneeded: yes\nmixed: Auto\n")[0]


def test_a_type_of_another_kind_is_recognised(things: dict[str, Any]) -> None:
    (found,) = told(things, "type: thing\nneeded: yes\ninner: sgd\n")
    assert found.splitlines()[0].endswith("no schedules/sgd: `sgd` is one of optimizers")


def test_a_kind_without_components_says_so(things: dict[str, Any]) -> None:
    without = {name: found for name, found in things["$defs"].items() if not name.startswith("votes/")}
    walk = Walk({**things, "$defs": without})
    walk.component("votes", as_node({"type": "maze"}), "vote", ("vote", {}))
    words = ["r.yaml:1:1: vote.type: no votes/maze", "no votes are installed", "own components: --components DIR"]
    assert str(walk.problems[0]) == "\n    ".join(words)


def test_a_map_without_a_type_also_tells_keys_that_no_type_knows(things: dict[str, Any]) -> None:
    found = told(things, "type: thing\nneeded: yes\ninner: {level: 1, foo: 2}\n")
    assert len(found) == 2
    assert "schedule.inner.foo: no schedules have the argument `foo`" in found[1]


def test_a_broken_plugin_is_told_where_it_is_named(lab: Lab) -> None:
    folder = lab({"schedules/broken": "1 / 0"})
    found = told(catalogue.load(), "type: broken")
    assert found == [
        "r.yaml:1:7: schedule.type: schedules/broken can't be imported: ZeroDivisionError: division by zero\n"
        f"    in {folder}/schedules/broken.py (--components)"
    ]


def test_a_value_from_a_reference_names_it(things: dict[str, Any]) -> None:
    node = as_node({"type": "thing", "needed": "yes"})
    node.value["rate"] = Node(2, Place("r.yaml", 3, 7), via="from `${train.x}`, base.yaml:7:3")
    (problem,) = walked(things, node)[1].problems
    assert problem.message == "must be a number > 0 and <= 1, not 2 (from `${train.x}`, base.yaml:7:3)"


def test_long_and_unprintable_values_are_cut_and_escaped(things: dict[str, Any]) -> None:
    (found,) = told(things, f'type: thing\nneeded: yes\ncount: "{"x" * 100}\\t"\n')
    assert f"not the text `{'x' * 37}...`" in found
    assert "\\t" in told(things, 'type: thing\nneeded: yes\ncount: "a\\tb"\n')[0]


# ---------------------------------------------------------------------------------------------- files


def read_file(tmp_path: Path, value: str, data_root: str | None = None, suffixes: Any = ()) -> tuple[str, str]:
    recipe = tmp_path / "project" / "recipes" / "r.yaml"
    recipe.parent.mkdir(parents=True, exist_ok=True)
    recipe.write_text("")
    (tmp_path / "project" / "pyproject.toml").touch()
    return Inputs(str(recipe), data_root).find(Node(value, Place(str(recipe), 1, 1)), list(suffixes))


def test_a_file_is_looked_for_beside_the_recipe_that_names_it(tmp_path: Path) -> None:
    read_file(tmp_path, "x")
    (tmp_path / "project" / "a.csv").touch()
    assert read_file(tmp_path, "../a.csv") == (str(tmp_path / "project" / "a.csv"), "")
    assert read_file(tmp_path, str(tmp_path / "project" / "a.csv"))[1] == ""


def test_the_hash_sees_a_file_relative_to_its_project(tmp_path: Path) -> None:
    read_file(tmp_path, "x")
    recipe, file = tmp_path / "project" / "recipes" / "r.yaml", tmp_path / "project" / "a.csv"
    file.touch()
    inputs = Inputs(str(recipe))
    inputs.find(Node("../a.csv", Place(str(recipe), 1, 1)), [])
    assert inputs.relative == {str(file): "a.csv"}


def test_a_file_outside_the_project_needs_the_data_root(tmp_path: Path) -> None:
    outside = tmp_path / "elsewhere" / "a.csv"
    outside.parent.mkdir()
    outside.touch()
    assert "lies outside the project" in read_file(tmp_path, str(outside))[1]
    assert "--data-root" in read_file(tmp_path, "../../elsewhere/a.csv")[1]
    assert read_file(tmp_path, str(outside), str(outside.parent)) == (str(outside), "")


def test_a_link_does_not_lead_out_of_the_project(tmp_path: Path) -> None:
    read_file(tmp_path, "x")
    (tmp_path / "secret").touch()
    (tmp_path / "project" / "link").symlink_to(tmp_path / "secret")
    assert "lies outside the project" in read_file(tmp_path, "../link")[1]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("nowhere.csv", "no such file: `nowhere.csv` in "),
        (".", "is a folder: `.` in "),
        ("http://x/a.csv", "must be a path to a file, not `http://x/a.csv`"),
        ("a\0b", "must be a path to a file, not `a\\x00b`"),
    ],
)
def test_what_is_no_file_is_told(tmp_path: Path, value: str, message: str) -> None:
    assert read_file(tmp_path, value)[1].startswith(message)


def test_a_wrong_ending_is_told(tmp_path: Path) -> None:
    assert read_file(tmp_path, "a.txt", suffixes=[".csv", ".tsv"])[1] == "must end in .csv or .tsv, not `a.txt`"


def test_a_recipe_without_a_project_has_its_own_folder_as_root(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").touch()
    (tmp_path / "a.csv").touch()
    assert Inputs(str(tmp_path / "r.yaml")).find(Node("a.csv", Place(str(tmp_path / "r.yaml"), 1, 1)), [])[1] == ""
