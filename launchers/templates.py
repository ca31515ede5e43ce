"""What `raycipe new` writes: small components and a recipe that work as they are, to be changed.

Their texts are the files in `skeletons`, one a kind; `other.py.j2` serves the kinds that have none.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from raycipe.framework import catalogue

FOLDER = Path(__file__).parent / "skeletons"
COMPONENT = ".py.j2"


def kinds_with_example() -> list[str]:
    """The kinds whose new component works as it is."""
    return sorted({file.name.removesuffix(COMPONENT) for file in FOLDER.glob(f"*{COMPONENT}")} - {"other"})


def component(kind: str, type_: str) -> str:
    """The text of a new component; where a kind has no example here, its methods say that they are to be written."""
    names = {"cls": "".join(word.capitalize() for word in type_.split("_")), "type": type_}
    if kind in kinds_with_example():
        return _fill(f"{kind}{COMPONENT}", names)
    contract, methods = _contract(kind)
    return _fill(f"other{COMPONENT}", {**names, "kind": kind, "contract": contract, "methods": methods})


def recipe(name: str, schema: str) -> str:
    """The text of a new recipe; block style, which editors complete best."""
    return _fill("recipe.yaml.j2", {"name": name, "schema": schema})


def _fill(file: str, values: dict[str, Any]) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(FOLDER), undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True
    )
    return environment.get_template(file).render(values)


def _contract(kind: str) -> tuple[str, dict[str, str]]:
    """The base class of a kind and its abstract methods with their help; read as text, as importing it costs torch."""
    folder = Path(catalogue.FOLDER, "contracts")
    body = [node for path in sorted(folder.glob("*.py")) for node in ast.parse(path.read_text(encoding="utf-8")).body]
    kinds = next(node for node in body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "KINDS")
    assert isinstance(kinds.value, ast.Dict)
    pairs = zip(kinds.value.keys, kinds.value.values, strict=True)
    names = {ast.literal_eval(key): ast.unparse(value) for key, value in pairs if key}
    cls = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == names[kind])
    methods = [node for node in cls.body if isinstance(node, ast.FunctionDef)]
    abstract = [node for node in methods if "abstractmethod" in map(ast.unparse, node.decorator_list)]
    return cls.name, {node.name: (ast.get_docstring(node) or "").partition("\n")[0] for node in abstract}
