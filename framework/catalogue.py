"""What components there are: the generated schema, with the definitions of plugins and `--components` folders added.

Reads files only. A component is imported just for a plugin that brings no fresh `schema.json` of its own; the result is
kept in the user's cache folder.
"""

from __future__ import annotations

import json
import os
import re
from keyword import iskeyword
from typing import Any

from raycipe.framework import plugins
from raycipe.framework.errors import Problem, RecipeError, shown
from raycipe.framework.tree import Place

Json = dict[str, Any]
FOLDER = os.path.dirname(os.path.realpath(__file__))
FILE = os.path.join(FOLDER, "schema.json")
TYPE = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
REFERENCE = {"$ref": "#/$defs/reference"}


def load() -> Json:
    """The schema over all components that can be named now. `x-broken` lists plugins that can't be read, `x-strays`
    the files of `--components` folders that look like components and are none: a name like a type's, and a sentence.

    Raises RecipeError (code `plugin`) if one type exists in two places.
    """
    with open(FILE, encoding="utf-8") as file:
        schema: Json = json.load(file)
    added: Json = {}
    broken = []
    strays: list[tuple[str, str]] = []
    for root in plugins.roots()[1:]:
        if not root.folder:
            broken.append(f"{root.origin}: the package {root.package} can't be found")
            continue
        if root.origin == "--components":
            strays += _strays(root.folder, schema["x-kinds"])
        for key, found in definitions(root).items():
            if key in schema["$defs"] or key in added:
                raise _twice(key, root)
            added[key] = found
    if broken:
        schema["x-broken"] = broken
    if strays:
        schema["x-strays"] = strays
    return with_components(schema, added) if added else schema


def _twice(key: str, root: plugins.Root) -> RecipeError:
    kind, _, type_ = key.partition("/")
    files = [os.path.join(other.folder, kind, f"{type_}.py") for other in plugins.roots()]
    first, second = [file for file in files if os.path.isfile(file)][:2]
    message = f"{key} exists twice: also in {first}"
    return RecipeError(
        [Problem("plugin", Place(second), "", message, "rename or remove one of the files", root.package)]
    )


def with_components(schema: Json, added: Json) -> Json:
    """The schema with more component definitions: unions and layers know their types."""
    defs = {**schema["$defs"], **added}
    for kind in schema["x-kinds"]:
        defs[kind] = union(kind, defs, defs[kind]["description"])
    layer = {**defs["layer"], "properties": dict(defs["layer"]["properties"])}
    for section, wanted in defs["full"]["properties"].items():
        kind = wanted.get("$ref", "").rpartition("/")[2]
        if kind in schema["x-kinds"]:
            layer["properties"][section] = layer_of(kind, defs)
    defs["layer"] = layer
    return {**schema, "$defs": defs}


def types(kind: str, defs: Json) -> list[str]:
    """The types of a kind whose definitions could be read, sorted."""
    keys = sorted(key for key in defs if key.startswith(f"{kind}/") and "x-error" not in defs[key])
    return [key.partition("/")[2] for key in keys]


def union(kind: str, defs: Json, description: str) -> Json:
    """Any component of a kind: a type's name, or a map whose `type` decides which closed object it must be.

    The chain of conditions, unlike a plain union, gives one message per mistake and lets editors offer every type.
    """
    names = types(kind, defs)
    chain: Json = {}
    for name in reversed(names):
        then = {"$ref": f"#/$defs/{kind}~1{name}"}  # ~1 is a slash within a JSON pointer's word
        chain = {"if": {"properties": {"type": {"const": name}}}, "then": then, "else": chain}
    type_ = {"enum": names, "markdownEnumDescriptions": [defs[f"{kind}/{name}"]["description"] for name in names]}
    by_map = {"type": "object", "required": ["type"], "properties": {"type": type_}, **chain}
    alone = [name for name in names if "required" not in defs[f"{kind}/{name}"]]
    return {"description": description, "anyOf": [*([{"enum": alone}] if alone else []), dict(REFERENCE), by_map]}


def layer_of(kind: str, defs: Json) -> Json:
    """A component in a recipe that changes another: it may be told in part, or removed."""
    return {"anyOf": [{"enum": types(kind, defs)}, dict(REFERENCE), {"type": ["object", "null"]}]}


def text(found: Json) -> str:
    """A schema as sorted JSON with one definition a line, so that a difference is readable."""
    defs = ",\n".join(f"{json.dumps(key)}: {_line(found['$defs'][key])}" for key in sorted(found["$defs"]))
    rest = ",\n".join(f"{json.dumps(key)}: {_line(found[key])}" for key in sorted(found) if key != "$defs")
    return "{\n" + (rest + ",\n" if rest else "") + '"$defs": {\n' + defs + "\n}\n}\n"


def _line(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)


# ------------------------------------------------------------------------------------------ plugins


def definitions(root: plugins.Root) -> Json:
    """The definitions of one plugin's components: its own fresh schema.json, the cache, or by importing its files."""
    mark = fingerprint(root.folder)
    for file in (os.path.join(root.folder, "schema.json"), _cache_file(mark)):
        found = _read(file)
        if found.get("x-sha256") == mark:
            return dict(found["$defs"])
    from raycipe.framework import schema  # imports torch

    made = schema.definitions(root, strict=False)
    if not any("x-error" in found for found in made.values()):  # an error may be mended without touching these files
        _write(_cache_file(mark), {"x-sha256": mark, "$defs": made})
    return made


def is_type(word: str) -> bool:
    """Whether a component may have this name."""
    return bool(TYPE.match(word)) and not iskeyword(word)


def _strays(folder: str, kinds: list[str]) -> list[tuple[str, str]]:
    """What lies in a `--components` folder as a component does, but is no component."""
    from difflib import get_close_matches  # costs 6 ms, so only own components import it

    found = []
    above = os.path.dirname(folder)
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if name in kinds and os.path.isdir(path):
            found += [_stray(file, above, why) for file, why in _not_types(path)]
            continue
        inside = [os.path.join(path, file) for file in sorted(os.listdir(path))] if os.path.isdir(path) else [path]
        for file in inside:
            if file.endswith(".py") and os.path.isfile(file) and b"\n@register" in _content(file):
                near = get_close_matches(name, kinds, n=1, cutoff=0.75) if os.path.isdir(path) else []
                meant = f": did you mean `{near[0]}`?" if near else ""
                found.append(_stray(file, above, f"it lies in no folder named as a kind{meant}"))
    return found


def _not_types(folder: str) -> list[tuple[str, str]]:
    """The entries of a kind's folder that can't be components, and why."""
    found = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if not name.endswith(".py") or name.startswith("_"):
            continue
        if not os.path.isfile(path):
            found.append((path, "it is no file"))
        elif not is_type(name[:-3]):
            found.append((path, "a type is lower-case words with _, no Python keyword"))
    return found


def _stray(path: str, above: str, why: str) -> tuple[str, str]:
    stem = os.path.basename(path)[:-3].lower().replace("-", "_")
    return stem, f"{shown(os.path.relpath(path, above), 100)} is no component: {why}"


def fingerprint(folder: str) -> str:
    """sha256 over the component files of a folder and over what turns them into a schema."""
    from hashlib import sha256

    digest = sha256()
    for name in ("schema.py", "annotations.py", "declaration.py", "arguments.py"):
        digest.update(_content(os.path.join(FOLDER, name)))
    for kind in sorted(os.listdir(folder)):
        path = os.path.join(folder, kind)
        for name in sorted(os.listdir(path)) if os.path.isdir(path) else ():
            if name.endswith(".py") and os.path.isfile(os.path.join(path, name)):
                digest.update(f"{kind}/{name}\0".encode() + _content(os.path.join(path, name)))
    return digest.hexdigest()


def _content(file: str) -> bytes:
    with open(file, "rb") as opened:
        return opened.read()


def _cache_file(mark: str) -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "raycipe", "schemas", f"{mark}.json")


def _read(file: str) -> Json:
    try:
        found = json.loads(_content(file))
    except (OSError, ValueError):  # not there, or damaged: it is made anew
        return {}
    return found if isinstance(found, dict) else {}


def _write(file: str, value: Json) -> None:
    try:
        os.makedirs(os.path.dirname(file), exist_ok=True)
        temporary = f"{file}.{os.getpid()}"
        with open(temporary, "w", encoding="utf-8") as opened:
            json.dump(value, opened)
        os.replace(temporary, file)
    except OSError:  # a cache that can't be written only costs time
        return
