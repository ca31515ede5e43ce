"""The `raycipe` commands about recipes and components as texts: list, show, check, schema, new."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any


def add_parsers(commands: Any) -> None:
    """Add this file's commands to `raycipe`'s subparsers."""
    found = _parser(commands, "list", run_list, "what a recipe can name, a line each")
    found.add_argument("kind", nargs="?", help="only this kind, e.g. models")

    found = _parser(commands, "show", run_show, "arguments, ranges, meaning and an example")
    found.add_argument(
        "name",
        metavar="NAME",
        help="a component (optimizers/sgd), a kind (optimizers), a section or its key (train.ema)",
    )

    found = _parser(commands, "check", run_check, "check recipes with all their profiles")
    found.add_argument("recipes", nargs="+", metavar="RECIPE", help="files, globs, or packaged recipes' names")
    found.add_argument("--format", choices=("text", "json"), default="text", help="json for tools")
    found.add_argument("--data-root", metavar="DIR", help="a folder outside the project that recipes may read from")

    found = _parser(commands, "schema", run_schema, "the JSON Schema that editors read, plugins included")
    found.add_argument("package", nargs="?", help="only the components of this plugin (a package, or a folder)")
    found.add_argument(
        "--write", action="store_true", help="write PACKAGE/schema.json, or .raycipe/schema.json for the recipes here"
    )

    new = commands.add_parser("new", help="write a component or a recipe that passes the checks")
    what = new.add_subparsers(dest="what", metavar="WHAT", required=True)
    found = _parser(what, "component", run_new_component, "write DIR/KIND/TYPE.py")
    found.add_argument("name", metavar="KIND/TYPE", help="e.g. models/gated_mlp")
    found.add_argument(
        "--in", dest="folder", default="lab", metavar="DIR", help="the folder for --components (default: ./lab)"
    )
    found = _parser(what, "recipe", run_new_recipe, "write NAME.yaml")
    found.add_argument("name", help="the recipe's name; its file is NAME.yaml in this folder")


def _parser(commands: Any, name: str, run: Any, help_: str) -> Any:
    parser = commands.add_parser(name, help=help_)
    parser.add_argument("--components", action="append", default=[], metavar="DIR", help="a folder with own components")
    parser.set_defaults(act=run)
    return parser


def _schema(args: argparse.Namespace) -> dict[str, Any]:
    from raycipe.framework import catalogue, plugins

    for folder in args.components:
        plugins.add_folder(folder)
    return catalogue.load()


def _usage(message: str, hint: str) -> int:
    sys.stderr.write(f"error: {message}\n    {hint}\n")
    return 2


# ---------------------------------------------------------------------------------------------- list and show


def run_list(args: argparse.Namespace) -> int:
    """One line per component; a plugin that can't be read is listed with its error."""
    from raycipe.launchers.showing import components

    schema = _schema(args)
    if args.kind is not None and args.kind not in schema["x-kinds"]:
        return _usage(f"no kind `{args.kind}`", _kind_hint(args.kind, schema["x-kinds"]))
    print(components(schema["$defs"], args.kind))
    for line in schema.get("x-broken", []):
        print(line)
    for _, sentence in schema.get("x-strays", []):
        print(sentence)
    return 0


def _kind_hint(kind: str, kinds: list[str]) -> str:
    from raycipe.framework.words import nearest

    near = nearest(kind, kinds)
    return f"did you mean `{near}`?" if near else f"kinds: {', '.join(kinds)}"


def run_show(args: argparse.Namespace) -> int:
    """A component's or a section's arguments, ranges, meaning and an example; a kind's components."""
    from raycipe.launchers import section_help, showing

    schema = _schema(args)
    defs, name = schema["$defs"], args.name
    if "/" in name and name in defs:
        if "x-error" in defs[name]:
            return _usage(f"{name} can't be imported: {defs[name]['x-error']}", f"in {defs[name]['x-file']}")
        print(showing.component(name, defs[name]))
        return 0
    if "/" in name:
        kind, _, type_ = name.partition("/")
        return _usage(f"no component `{name}`", showing.unknown(kind, type_, schema))
    found = section_help.section(name, schema)
    if found is None and name in schema["x-kinds"]:
        found = showing.components(defs, name)
    if found is None:
        return _usage(f"no component, kind or section `{name}`", section_help.unknown(name, schema))
    print(found)
    return 0


# ---------------------------------------------------------------------------------------------- check


def run_check(args: argparse.Namespace) -> int:
    """Check many recipes; exit code 2 if any is wrong."""
    from raycipe.framework.check import as_json, check_file
    from raycipe.framework.errors import explain

    schema = _schema(args)
    paths = _expanded(args.recipes)
    problems = [problem for path in paths for problem in check_file(path, schema, args.data_root)]
    if args.format == "json":
        print(json.dumps([as_json(problem) for problem in problems], indent=1))
    elif problems:
        print(explain(problems), file=sys.stderr)
    else:
        print(f"{len(paths)} recipe{'s' * (len(paths) != 1)} checked, no mistakes")
    return 2 if problems else 0


def _expanded(words: list[str]) -> list[str]:
    """Files, packaged recipes by name, and what globs match (`**` too); a glob without a match stays, to be reported as
    a missing file."""
    from raycipe.framework.extends import is_name, recipe_file

    paths: list[str] = []
    for word in words:
        if any(mark in word for mark in "*?[") and not os.path.exists(word):  # noqa: PTH110
            from glob import glob

            paths += sorted(glob(word, recursive=True)) or [word]  # noqa: PTH207
        else:
            paths.append(recipe_file(word) if is_name(word) else word)
    return list(dict.fromkeys(paths))


# ---------------------------------------------------------------------------------------------- schema and new


def run_schema(args: argparse.Namespace) -> int:
    """Print or write the merged schema, or one plugin's part of it."""
    from raycipe.framework import catalogue

    if args.package is not None:
        return _plugin_schema(args)
    text = catalogue.text(_schema(args))
    if args.write:
        print(_write_schema(os.getcwd(), text))  # noqa: PTH109
    else:
        sys.stdout.write(text)
    return 0


def _plugin_schema(args: argparse.Namespace) -> int:
    from raycipe.framework import catalogue, plugins, schema

    if os.path.isdir(args.package):  # noqa: PTH112
        root = plugins.add_folder(args.package)
    else:
        found = [root for root in plugins.roots() if root.package == args.package and root.folder]
        if not found:
            hint = "a package needs an entry point in the group raycipe.components; a folder is named by its path"
            return _usage(f"no plugin `{args.package}`", hint)
        root = found[0]
    defs = schema.definitions(root)
    if not defs:
        return _usage(f"no components in {root.folder}", "they are KIND/TYPE.py in there, e.g. models/gated_mlp.py")
    made = {"x-sha256": catalogue.fingerprint(root.folder), "$defs": defs}
    text = catalogue.text(made)
    if not args.write:
        sys.stdout.write(text)
        return 0
    file = os.path.join(root.folder, "schema.json")  # noqa: PTH118
    _write(file, text)
    print(file)
    return 0


def _write(file: str, text: str) -> None:
    """Write a file and the folders above it. Raises RunError where that is not possible."""
    from raycipe.framework.errors import RunError

    try:
        os.makedirs(os.path.dirname(file) or ".", exist_ok=True)  # noqa: PTH103, PTH120
        with open(file, "w", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        raise RunError("storage", f"can't write {file}: {error.strerror}") from error


def _write_schema(folder: str, text: str) -> str:
    path = os.path.join(folder, ".raycipe", "schema.json")  # noqa: PTH118
    _write(path, text)
    return path


def run_new_component(args: argparse.Namespace) -> int:
    """Write a component that works as it is and is meant to be changed."""
    from pathlib import Path

    from raycipe.framework import catalogue
    from raycipe.launchers import templates
    from raycipe.launchers.showing import unknown

    schema = _schema(args)
    kind, _, type_ = args.name.partition("/")
    if kind not in schema["x-kinds"]:
        return _usage(f"no kind `{kind}`: name a component as KIND/TYPE", unknown(kind, type_, schema))
    if not catalogue.is_type(type_):
        hint = "up to 64 of a-z 0-9 _, beginning with a letter, and no Python keyword"
        return _usage(f"`{type_}` can't be a type", hint)
    if args.name in schema["$defs"]:
        return _usage(f"{args.name} exists already", f"see `raycipe show {args.name}`, or choose another name")
    file = Path(args.folder, kind, f"{type_}.py")
    if file.exists():
        return _usage(f"{file} exists already", "choose another name, or remove it first")
    _write(str(file), templates.component(kind, type_))
    print(f"wrote {file}")
    print(f"see it with: raycipe show {args.name} --components {args.folder}")
    return 0


def run_new_recipe(args: argparse.Namespace) -> int:
    """Write a recipe that passes the checks, with the line that gives editors its schema."""
    import re
    from pathlib import Path

    from raycipe.framework import catalogue
    from raycipe.launchers import templates

    schema = _schema(args)
    wanted = schema["$defs"]["full"]["properties"]["name"]
    if not re.match(wanted["pattern"][:-1] + r"\Z", args.name):
        return _usage(f"`{args.name}` can't be a recipe's name", wanted["patternErrorMessage"])
    file = Path(f"{args.name}.yaml")
    if file.exists():
        return _usage(f"{file} exists already", "choose another name, or remove it first")
    here = Path.cwd()
    own = Path(catalogue.FILE)
    if own.parents[1] in (here, *here.parents) and not args.components:
        link = os.path.relpath(own, here)
    else:
        _write_schema(str(here), catalogue.text(schema))
        link = ".raycipe/schema.json"
    _write(str(file), templates.recipe(args.name, link))
    print(f"wrote {file}")
    print(f"run it with: launch {file}")
    return 0
