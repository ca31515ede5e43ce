"""Turns one annotation into JSON Schema, or says in words why a recipe can't express it."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin, get_type_hints, is_typeddict

from raycipe.framework import declaration
from raycipe.framework.arguments import Default, FromData, InputFile, Length, Paths, Pattern, Range
from raycipe.framework.catalogue import REFERENCE
from raycipe.framework.declaration import describe, kind_of, unwrap

OR_REFERENCE = {
    "pattern": "^\\$\\{[A-Za-z_][\\w/.-]*\\}$",
    "patternErrorMessage": "a text here must be a reference, ${path}",
}
LARGEST = 2**53 - 1  # integers beyond are not exact in JSON
SHAPES = {bool: "boolean", int: "integer", float: "number", str: "string"}
Json = dict[str, Any]


def of(annotation: Any, words: tuple[Any, ...] = ()) -> Json:
    """The schema of one annotation. Raises TypeError in words for what a recipe can't express."""
    bare, more = unwrap(annotation)
    words = (*words, *more)
    for word in words:
        if isinstance(word, Paths):  # open: checked by rules of its own
            return {"type": "object", "x-paths": "named" if word.named else "lists"}
    members = declaration.members(bare)
    found = _union(members, words) if len(members) > 1 else _single(bare, words)
    for word in words:
        if isinstance(word, FromData):
            found["x-from-data"] = word.fact
        elif isinstance(word, Default):
            found["default"] = word.value
    return found


def _single(bare: Any, words: tuple[Any, ...]) -> Json:
    origin, args = get_origin(bare), get_args(bare)
    kind = kind_of(bare)
    if kind:
        return {"$ref": f"#/$defs/{kind}"}
    if bare is None or bare is type(None):
        return {"type": "null"}
    if bare in (bool, int, float, str):
        return _scalar(bare, words)
    if origin is Literal:
        return {"anyOf": [{"enum": list(args)}, dict(REFERENCE)]}
    if origin is list or origin is tuple:
        return _array(origin, args, words)
    if origin is dict and args[0] is str:
        return {"type": ["object", "string"], **OR_REFERENCE, "additionalProperties": of(args[1])}
    if is_typeddict(bare):
        return record(bare)
    raise TypeError(
        f"`{bare}` can't be written in a recipe: "
        "use bool, int, float, str, Literal, None, list, tuple, dict[str, ...], a TypedDict or a kind's base class"
    )


def _scalar(bare: type, words: tuple[Any, ...]) -> Json:
    found: Json = {"type": SHAPES[bare] if bare is str else [SHAPES[bare], "string"]}
    if bare is not str:
        found.update(OR_REFERENCE)
    bounds = [word for word in words if isinstance(word, Range)]
    if bare is int and not bounds:
        bounds = [Range(ge=-LARGEST, le=LARGEST)]
    for word in words if bare is str else bounds if bare in (int, float) else ():
        if isinstance(word, Range) and bare is not str:
            names = {"exclusiveMinimum": word.gt, "minimum": word.ge, "exclusiveMaximum": word.lt, "maximum": word.le}
            found.update({name: bound for name, bound in names.items() if bound is not None})
        elif isinstance(word, Pattern):
            found.update({"pattern": word.regex, "patternErrorMessage": f"must be {word.words}"})
        elif isinstance(word, InputFile):
            found["x-file"] = [*word.suffixes, *(["/"] if word.folder else [])]
    return found


def _array(origin: type, args: tuple[Any, ...], words: tuple[Any, ...]) -> Json:
    found: Json = {"type": ["array", "string"], **OR_REFERENCE}
    if origin is tuple:
        if not args or Ellipsis in args:
            raise TypeError("a tuple needs a fixed length: use list[...] for a free one")
        return {**found, "prefixItems": [of(arg) for arg in args], "minItems": len(args), "maxItems": len(args)}
    found["items"] = of(args[0])
    for word in words:
        if isinstance(word, Length):
            found["minItems"] = word.min
            found.update({"maxItems": word.max} if word.max is not None else {})
    return found


def _union(members: tuple[Any, ...], words: tuple[Any, ...]) -> Json:
    branches: list[Json] = []
    shapes: list[str] = []
    for member in members:
        branch = of(member, words)
        branch.pop("x-from-data", None)
        branch.pop("default", None)
        shapes += _yaml_shapes(branch)
        branches += [part for part in branch.get("anyOf", [branch]) if part not in branches]
    doubled = sorted({shape for shape in shapes if shapes.count(shape) > 1})
    if doubled:
        raise TypeError(f"its members can't be told apart: more than one is a {doubled[0]}")
    return {"anyOf": branches}


def _yaml_shapes(branch: Json) -> list[str]:
    """What a member of a union looks like in YAML; members must differ in it, so that a mistake has one meaning."""
    if "$ref" in branch:
        return ["text", "map"]
    if "anyOf" in branch:
        values = branch["anyOf"][0]["enum"]
        names = {bool: "boolean", int: "number", float: "number", str: "text"}
        return sorted({names[type(value)] for value in values})
    shape = branch["type"] if isinstance(branch["type"], str) else branch["type"][0]
    return [{"integer": "number", "string": "text", "array": "list", "object": "map"}.get(shape, shape)]


def record(cls: type) -> Json:
    """A TypedDict as a closed map."""
    helps = describe(cls)[1]
    required = set(getattr(cls, "__required_keys__", ()))
    properties: Json = {}
    for name, hint in get_type_hints(cls, include_extras=True).items():
        optional = getattr(get_origin(hint), "_name", "")  # typing's or typing_extensions' own words
        if optional in ("NotRequired", "Required"):
            hint = get_args(hint)[0]
            (required.discard if optional == "NotRequired" else required.add)(name)
        properties[name] = {} if get_origin(hint) is None and hint is Any else of_key(hint)
        if name in helps:
            properties[name]["description"] = helps[name]
    found: Json = {
        "type": ["object", "string"],
        **OR_REFERENCE,
        "properties": properties,
        "additionalProperties": False,
    }
    return {**found, "required": sorted(required)} if required else found


def of_key(hint: Any) -> Json:
    """The schema of a record's key; `dict[str, Any]` is open there and checked by rules of its own."""
    if get_origin(hint) is dict and get_args(hint)[1] is Any:
        return {"type": "object"}
    return of(hint)
