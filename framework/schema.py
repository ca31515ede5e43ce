"""The recipe schema: JSON Schema 2020-12, generated from the constructors of all components.

`python -m raycipe.framework.schema --write` writes `framework/schema.json`, which the checker and editors read.
Components are imported here (to read their annotations) and when one is built, nowhere else.
"""

from __future__ import annotations

import math
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from raycipe.framework import catalogue, declaration, plugins, records, registry
from raycipe.framework.annotations import OR_REFERENCE, of, record
from raycipe.framework.arguments import Default
from raycipe.framework.catalogue import layer_of, union
from raycipe.framework.contracts import KINDS, Component
from raycipe.framework.declaration import declaration_error, describe
from raycipe.framework.errors import RecipeError
from raycipe.framework.shapes import made
from raycipe.framework.tree import Place
from raycipe.framework.walk import Walk

FILE = Path(catalogue.FILE)
TRAIN = "how long, in which batches, how often evaluated and saved"
DOC_BLOCKS = ("Args:", "Recipe:", "Reference:")
Json = dict[str, Any]


# ------------------------------------------------------------------------------------------ components


def definition(cls: type[Component]) -> Json:
    """The closed object of one component. Raises RecipeError naming file and parameter."""
    summary, _ = describe(cls)
    properties: Json = {"type": {"const": cls.type_name}}
    required = []
    for name, parameter in declaration.parameters(cls).items():
        try:
            found = of(parameter.annotation)
        except TypeError as error:
            raise declaration_error(cls, name, str(error)) from error
        if parameter.help:
            found["description"] = parameter.help
        if parameter.default is not declaration.REQUIRED:
            found["default"] = _default(cls, name, parameter.default)
        elif not parameter.fact:
            required.append(name)
        properties[name] = found
    found = {"type": "object", "description": summary, "properties": properties, "additionalProperties": False}
    if required:
        found["required"] = sorted(required)
    pairs = [(a, b) for group in cls.at_most_one for i, a in enumerate(group) for b in group[i + 1 :]]
    if pairs:
        found["allOf"] = [{"not": {"required": list(pair)}} for pair in pairs]
    found.update(_extras(cls))
    return found


def _extras(cls: type[Component]) -> Json:
    about = declaration.text_between(cls, DOC_BLOCKS)
    found: Json = {
        "x-about": about,
        "x-recipe": declaration.block(cls, "Recipe:"),
        "x-reference": declaration.block(cls, "Reference:"),
    }
    reports = getattr(cls, "reports", ())
    if reports:
        found["x-reports"] = list(reports)
    scored = getattr(cls, "scored", ())
    if scored:
        found["x-scored"] = list(scored)
    return {name: value for name, value in found.items() if value != ""}


def _default(cls: type[Component], name: str, value: Any) -> Any:
    if isinstance(value, Default):
        return value.value
    if isinstance(value, (tuple, list)):
        return [_default(cls, name, entry) for entry in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _default(cls, name, entry) for key, entry in value.items()}
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise declaration_error(
        cls, name, f"its default {value!r} can't be written in a recipe", "use default(...) for a component"
    )


def component_files(folder: Path) -> list[tuple[str, str]]:
    """(kind, type) of every component file below a folder of kind folders."""
    files = [(path.parent.name, path.stem) for path in sorted(folder.glob("*/*.py")) if path.is_file()]
    return [(kind, type_) for kind, type_ in files if kind in KINDS and catalogue.is_type(type_)]


def definitions(root: plugins.Root, strict: bool = True) -> Json:
    """The `$defs` of one root's components. With `strict` false, a broken file becomes `x-error` instead of raising."""
    found: Json = {}
    for kind, type_ in component_files(Path(root.folder)):
        try:
            with redirect_stdout(sys.stderr):  # what a file prints must not stand in the midst of a command's output
                found[f"{kind}/{type_}"] = definition(registry.get(kind, type_))
        except Exception as error:  # a plugin's file may raise anything; told where the plugin is listed or used
            if strict:
                raise
            file = str(Path(root.folder, kind, f"{type_}.py"))
            words = _on_one_line(error)
            found[f"{kind}/{type_}"] = {"x-error": words, "x-file": file, "x-origin": root.origin}
    return found


def _on_one_line(error: Exception) -> str:
    if isinstance(error, RecipeError):  # its place is the file, which is told anyhow
        return "; ".join("; ".join(filter(None, [found.message, found.hint])) for found in error.problems)
    return " ".join(f"{type(error).__name__}: {error}".split())


# ------------------------------------------------------------------------------------------ the whole


def schema(defs: Json) -> Json:
    """The schema of a recipe over the given component definitions."""
    whole = dict(defs)
    for kind in KINDS:
        whole[kind] = union(kind, defs, describe(KINDS[kind])[0])
    for cls in (records.Train, records.TrainAgent, records.Resources, records.Sweep, records.Predict):
        whole[cls.__name__] = record(cls)
    whole["reference"] = {"type": "string", **OR_REFERENCE, "description": "the value of another path of this recipe"}
    whole["full"], whole["layer"] = _full(), _layer(defs)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Raycipe recipe",
        "type": "object",
        "required": ["recipe"],
        "if": {"required": ["extends"]},
        "then": {"$ref": "#/$defs/layer"},
        "else": {"$ref": "#/$defs/full"},
        "x-kinds": sorted(KINDS),
        "$defs": whole,
    }


def _sections() -> Json:
    head = record(records.Head)["properties"]
    helps = {section: {"$ref": f"#/$defs/{kind}"} for section, kind in records.SECTION_KINDS.items()}
    measures = {"type": "array", "items": {"$ref": "#/$defs/measures"}, "description": "what is measured at the end"}
    return {
        **head,
        **helps,
        "measures": measures,
        "resources": {"$ref": "#/$defs/Resources", "description": "how many workers, and what each needs"},
        "predict": {"$ref": "#/$defs/Predict", "description": "predictions for the rows of files, after the training"},
        "sweep": {"$ref": "#/$defs/Sweep", "description": "many trials of this recipe, each with other values"},
        "extends": {
            "type": "string",
            "description": "the recipe that this one changes: a path, or a packaged recipe's name",
        },
        "profiles": {
            "type": "object",
            "description": "the same recipe in other sizes",
            "additionalProperties": {"$ref": "#/$defs/layer"},
        },
    }


def _full() -> Json:
    train = {name: {"properties": {"train": {"$ref": f"#/$defs/{name}"}}} for name in ("Train", "TrainAgent")}
    return {
        "type": "object",
        "properties": {**_sections(), "train": {"description": TRAIN}},
        "required": ["name", "recipe"],
        "additionalProperties": False,
        "if": {"required": ["agent"]},
        "then": train["TrainAgent"],
        "else": train["Train"],
    }


def _layer(defs: Json) -> Json:
    """A recipe that changes another: nothing is required, and a component may be told in part."""
    properties = _sections()
    for section, kind in records.SECTION_KINDS.items():
        properties[section] = layer_of(kind, defs)
    both = {**record(records.TrainAgent)["properties"], **record(records.Train)["properties"]}
    properties["train"] = {"type": ["object", "null"], "properties": both, "additionalProperties": False}
    for name, cls in (("resources", records.Resources), ("predict", records.Predict), ("sweep", records.Sweep)):
        properties[name] = {**record(cls), "type": ["object", "null"]}
    for name in ("measures", "track", "expect", "paper", "start", "profiles"):
        properties[name] = {"anyOf": [properties[name], {"type": "null"}]}
    properties["expect"] = {"type": ["object", "null"], "additionalProperties": {"type": ["string", "null"]}}
    relaxed: Json = _without_required(properties)
    return {"type": "object", "properties": relaxed, "additionalProperties": False}


def _without_required(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: _without_required(value) for key, value in found.items() if key != "required"}
    return [_without_required(entry) for entry in found] if isinstance(found, list) else found


def built_in() -> Json:
    """The schema over the built-in components. Raises RecipeError if a default is one that a recipe could not set."""
    defs = definitions(plugins.roots()[0])
    whole = schema(defs)
    check_defaults(whole, list(defs))
    return whole


def check_defaults(whole: Json, names: list[str]) -> None:
    """Every default must be a value that its own annotation allows; RecipeError names those that are not."""
    walk = Walk(whole)
    at = Place("a component's default")
    for name in names:
        kind, _, type_ = name.partition("/")
        for argument, wanted in whole["$defs"][name]["properties"].items():
            if "default" in wanted:
                walk.value(wanted, made(wanted["default"], at, ""), f"{kind}/{type_}.{argument}", ("", {}))
    if walk.problems:
        raise RecipeError(walk.problems)


def main(arguments: list[str]) -> int:
    """Print the schema, or write it to its file with `--write`, or tell with `--check` whether that file is fresh."""
    fresh = catalogue.text(built_in())
    if arguments == ["--write"]:
        FILE.write_text(fresh, encoding="utf-8")
    elif arguments == ["--check"]:
        if not FILE.is_file() or FILE.read_text(encoding="utf-8") != fresh:
            sys.stderr.write("framework/schema.json is out of date: run `make schema`\n")
            return 1
    else:
        sys.stdout.write(fresh)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
