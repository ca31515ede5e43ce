"""From annotations to JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import jsonschema_rs
import pytest

from raycipe.framework import annotations, catalogue, plugins, registry, schema
from raycipe.framework.arguments import Count, Default, FromData, InputFile, Length, Pattern, Positive, Range, Share
from raycipe.framework.contracts import KINDS, Compressor, Schedule
from raycipe.framework.declaration import describe
from raycipe.framework.errors import RecipeError

Lab = Callable[..., Path]
OR = annotations.OR_REFERENCE
REFERENCE = {"$ref": "#/$defs/reference"}


class Point(TypedDict):
    """A place.

    Args:
        x: across
    """

    x: float


class Mark(Point, total=False):
    name: Annotated[str, Default("a")]


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    return catalogue.load()


# ---------------------------------------------------------------------------------------------- annotations


@pytest.mark.parametrize(
    ("annotation", "wanted"),
    [
        (bool, {"type": ["boolean", "string"], **OR}),
        (int, {"type": ["integer", "string"], **OR, "minimum": -(2**53) + 1, "maximum": 2**53 - 1}),
        (float, {"type": ["number", "string"], **OR}),
        (str, {"type": "string"}),
        (Positive, {"type": ["number", "string"], **OR, "exclusiveMinimum": 0}),
        (Share, {"type": ["number", "string"], **OR, "exclusiveMinimum": 0, "maximum": 1}),
        (Count, {"type": ["integer", "string"], **OR, "minimum": 1, "maximum": 10**9}),
        (Annotated[float, Range(lt=3)], {"type": ["number", "string"], **OR, "exclusiveMaximum": 3}),
        (Literal["a", 1], {"anyOf": [{"enum": ["a", 1]}, REFERENCE]}),
        (list[str], {"type": ["array", "string"], **OR, "items": {"type": "string"}}),
        (
            Annotated[list[str], Length(1, 2)],
            {"type": ["array", "string"], **OR, "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
        ),
        (
            tuple[str, bool],
            {
                "type": ["array", "string"],
                **OR,
                "prefixItems": [{"type": "string"}, {"type": ["boolean", "string"], **OR}],
                "minItems": 2,
                "maxItems": 2,
            },
        ),
        (dict[str, str], {"type": ["object", "string"], **OR, "additionalProperties": {"type": "string"}}),
        (Schedule, {"$ref": "#/$defs/schedules"}),
        (list[Schedule], {"type": ["array", "string"], **OR, "items": {"$ref": "#/$defs/schedules"}}),
        (Schedule | None, {"anyOf": [{"$ref": "#/$defs/schedules"}, {"type": "null"}]}),
        (Annotated[str, FromData("mode")], {"type": "string", "x-from-data": "mode"}),
        (Annotated[str, InputFile((".csv",))], {"type": "string", "x-file": [".csv"]}),
        (
            Annotated[str, Pattern("^a+$", "a row of a")],
            {"type": "string", "pattern": "^a+$", "patternErrorMessage": "must be a row of a"},
        ),
        (Literal["a"] | bool, {"anyOf": [{"enum": ["a"]}, REFERENCE, {"type": ["boolean", "string"], **OR}]}),
        (
            Mark,
            {
                "type": ["object", "string"],
                **OR,
                "properties": {
                    "x": {"type": ["number", "string"], **OR},
                    "name": {"type": "string", "default": "a"},
                },
                "additionalProperties": False,
                "required": ["x"],
            },
        ),
    ],
)
def test_each_annotation_has_its_schema(annotation: Any, wanted: dict[str, Any]) -> None:
    assert annotations.of(annotation) == wanted


def test_ranges_reach_the_members_of_a_union() -> None:
    found = annotations.of(Annotated[float | None, Range(ge=0)])
    assert found["anyOf"][0]["minimum"] == 0
    assert "minimum" not in found["anyOf"][1]


def test_a_records_help_comes_from_its_docstring() -> None:
    assert annotations.record(Point)["properties"]["x"]["description"] == "across"


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (int | float, "its members can't be told apart: more than one is a number"),
        (str | Literal["a"], "more than one is a text"),
        (Schedule | str, "more than one is a text"),
        (Schedule | Compressor, "more than one is a map"),
        (Schedule | dict[str, int], "more than one is a map"),
        (list[int] | tuple[int, int], "more than one is a list"),
        (tuple[int, ...], "a tuple needs a fixed length"),
        (bytes, "can't be written in a recipe"),
        (dict[int, str], "can't be written in a recipe"),
        (Any, "can't be written in a recipe"),
    ],
)
def test_what_a_recipe_cannot_express_is_refused_in_words(annotation: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        annotations.of(annotation)


# ---------------------------------------------------------------------------------------------- components

SCHEDULE = '''
@register
class Wave(Schedule):
    """A wave
    that comes and goes.

    factor(t) = cos(t).

    Args:
        length: steps of a wave,
            from crest to crest
        {names}

    Reference:
        A. Author, Waves, 2020.

    Recipe:
        optimizer: {{type: sgd, schedule: wave}}
    """

    at_most_one = (("a", "b"),)

    def __init__(self, {arguments}) -> None:
        pass

    def factor(self, step: int, total_steps: int) -> float:
        return 1.0
'''


def wave(lab: Lab, arguments: str) -> dict[str, Any]:
    lab({"schedules/wave": SCHEDULE.format(arguments=arguments, names="a: one of two")})
    return schema.definition(registry.get("schedules", "wave"))


def test_a_docstring_gives_description_help_formula_reference_and_recipe(lab: Lab) -> None:
    found = wave(lab, "length: Count, a: float | None = None, b: float | None = None")
    assert found["description"] == "A wave that comes and goes."
    assert found["x-about"] == "factor(t) = cos(t)."
    assert found["x-reference"] == "A. Author, Waves, 2020."
    assert found["x-recipe"] == "optimizer: {type: sgd, schedule: wave}"
    assert found["properties"]["length"]["description"] == "steps of a wave, from crest to crest"
    assert found["properties"]["a"]["description"] == "one of two"
    assert found["required"] == ["length"]
    assert found["allOf"] == [{"not": {"required": ["a", "b"]}}]
    assert found["additionalProperties"] is False


def test_defaults_are_told_as_in_a_recipe(lab: Lab) -> None:
    found = wave(lab, 'a: Schedule = default({"type": "cosine"}), b: tuple[int, int] = (1, 2), c: Share = 0.5')
    assert [found["properties"][name]["default"] for name in "abc"] == [{"type": "cosine"}, [1, 2], 0.5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("a", "Wave.a: needs an annotation"),
        ("*a: int", "Wave.a: an argument must be named"),
        ("**a: int", "Wave.a: an argument must be named"),
        ("a: bytes", "Wave.a: `<class 'bytes'>` can't be written in a recipe"),
        ("a: int | float", "Wave.a: its members can't be told apart"),
        ("a: float = float('inf')", "Wave.a: its default inf can't be written in a recipe"),
        ("a: Any = object()", "Wave.a: `typing.Any` can't be written in a recipe"),
        ("a: Nowhere", "Wave.Nowhere: its annotation can't be read .*\n    import what annotations name at run time"),
    ],
)
def test_generation_fails_with_file_and_parameter(lab: Lab, arguments: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message) as error:
        wave(lab, arguments)
    assert error.value.problems[0].at.source.endswith("lab/schedules/wave.py")
    assert error.value.problems[0].at.line > 10


def test_a_default_outside_its_own_range_is_refused(lab: Lab, whole: dict[str, Any]) -> None:
    found = {"schedules/wave": wave(lab, "a: Share = 2.0, b: Schedule = default('nope')")}
    with pytest.raises(RecipeError) as error:
        schema.check_defaults(catalogue.with_components(whole, found), list(found))
    assert "schedules/wave.a: must be a number > 0 and <= 1, not 2" in str(error.value)
    assert "schedules/wave.b: no schedules/nope" in str(error.value)


def test_a_broken_file_of_a_plugin_is_kept_with_its_error(lab: Lab) -> None:
    folder = lab({"schedules/broken": "1 / 0", "schedules/flat": SCHEDULE.format(arguments="", names="x: y")})
    root = plugins.Root("lab", str(folder), "--components")
    found = schema.definitions(root, strict=False)
    assert found["schedules/broken"]["x-error"] == "ZeroDivisionError: division by zero"
    assert "x-error" not in found["schedules/flat"]
    with pytest.raises(ZeroDivisionError):
        schema.definitions(root)


# ---------------------------------------------------------------------------------------------- the whole


def test_the_schema_file_is_fresh() -> None:
    made = catalogue.text(schema.built_in())
    assert schema.FILE.read_text(encoding="utf-8") == made, "run `make schema`"


def test_the_schema_is_sorted_and_has_one_definition_a_line() -> None:
    text = schema.FILE.read_text(encoding="utf-8")
    found = json.loads(text)
    lines = text.splitlines()
    names = [line.split('": ')[0].strip('"') for line in lines if line.startswith('"') and '": {' in line]
    assert [name for name in names if name in found["$defs"]] == sorted(found["$defs"])


def test_main_writes_and_checks_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(schema, "FILE", tmp_path / "schema.json")
    assert schema.main(["--check"]) == 1
    assert "run `make schema`" in capsys.readouterr().err
    assert schema.main(["--write"]) == 0
    assert schema.main(["--check"]) == 0
    assert schema.main([]) == 0
    assert capsys.readouterr().out == (tmp_path / "schema.json").read_text(encoding="utf-8")


def test_the_schema_is_valid_json_schema_and_names_every_kind(whole: dict[str, Any]) -> None:
    jsonschema_rs.meta.validate(whole)
    assert whole["x-kinds"] == sorted(KINDS)
    for kind, contract in KINDS.items():
        assert whole["$defs"][kind]["description"] == describe(contract)[0]


def test_a_union_offers_every_type_and_shorthand_only_where_nothing_is_required() -> None:
    defs = {
        "links/a": {"description": "A.", "properties": {"type": {"const": "a"}}},
        "links/b": {"description": "B.", "properties": {"type": {"const": "b"}, "x": {}}, "required": ["x"]},
        "links/broken": {"x-error": "no"},
    }
    found = catalogue.union("links", defs, "Links.")
    shorthand, reference, by_map = found["anyOf"]
    assert shorthand == {"enum": ["a"]}
    assert reference == REFERENCE
    assert by_map["properties"]["type"] == {"enum": ["a", "b"], "markdownEnumDescriptions": ["A.", "B."]}
    assert by_map["then"] == {"$ref": "#/$defs/links~1a"}
    assert by_map["else"]["if"] == {"properties": {"type": {"const": "b"}}}
    assert by_map["else"]["else"] == {}


def test_a_kind_without_components_is_an_empty_union(whole: dict[str, Any]) -> None:
    empty = catalogue.union("envs", {}, "Worlds.")
    assert empty["anyOf"][-1]["properties"]["type"]["enum"] == []
    assert len(empty["anyOf"]) == 2


CHILD = {"recipe": 1, "extends": "base.yaml"}


@pytest.mark.parametrize(
    ("recipe", "valid"),
    [
        ({**CHILD, "optimizer": {"lr": 0.2}}, True),
        ({**CHILD, "sweep": None, "expect": {"test/accuracy": None}}, True),
        ({**CHILD, "train": {"keep_best": {"mode": "max"}}}, True),
        ({**CHILD, "train": {"epoch": 1}}, False),
        ({**CHILD, "optimiser": "sgd"}, False),
        ({**CHILD, "task": "clasification"}, False),
        ({"extends": "base.yaml"}, False),
        ({"recipe": 1, "name": "a", "optimizer": {"lr": 0.2}}, False),
        ({"recipe": 1, "name": "a", "profiles": {"big": {"optimizer": {"lr": 0.2}}}}, True),
        ({"recipe": 1, "name": "a", "profiles": {"big": {"optimiser": {}}}}, False),
        ({"recipe": 1, "name": "a", "optimizer": {"type": "sgd", "lr": "${train.epochs}"}}, True),
        ({"recipe": 1, "name": "a", "optimizer": {"type": "sgd", "lr": "fast"}}, False),
        ({"recipe": 1, "name": "a", "train": {"precision": "${x}", "minutes": "${a.b}"}}, True),
    ],
)
def test_editors_see_layers_open_and_recipes_closed(recipe: Any, valid: bool, whole: dict[str, Any]) -> None:
    assert jsonschema_rs.validator_for(whole).is_valid(recipe) is valid
