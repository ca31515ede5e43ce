"""What must hold of the tree as a whole: the arrows, the packaging map, sizes, and words that must not appear."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
FOLDERS = ("framework", "components", "launchers", "recipes")
MAX_FILE = 500
MAX_FUNCTION = 80


def sources(folder: str) -> list[Path]:
    return sorted((TOP / folder).rglob("*.py"))


def imported(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.lineno, node.module or ""


def imports_of(folder: str, *prefixes: str) -> list[str]:
    """`file:line` of each import in `folder` of a module under one of the prefixes."""
    return [
        f"{path.relative_to(TOP)}:{line} {name}"
        for path in sources(folder)
        for line, name in imported(path)
        if any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)
    ]


def test_dependencies_point_one_way() -> None:
    assert imports_of("framework", "raycipe.components", "raycipe.launchers") == []
    assert imports_of("components", "raycipe.launchers") == []
    assert imports_of("launchers", "raycipe.components") == []


def test_ray_is_imported_in_launchers_alone() -> None:
    outside = imports_of("framework", "ray") + imports_of("components", "ray")
    assert [line for line in outside if not line.startswith("components/agents/")] == []


def test_the_only_import_name_is_raycipe() -> None:
    for folder in (*FOLDERS, "tests", "benchmarks"):
        assert imports_of(folder, *FOLDERS) == []


def test_every_package_folder_is_in_the_packaging_map() -> None:
    settings = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {
        "raycipe." + path.parent.relative_to(TOP).as_posix().replace("/", ".")
        for folder in FOLDERS
        for path in (TOP / folder).rglob("__init__.py")
    }
    assert set(settings["packages"]) == folders
    assert all((TOP / folder / "py.typed").exists() for folder in FOLDERS)


@pytest.mark.slow
def test_the_wheel_holds_recipes_schema_and_every_source_file(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(TOP)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {f"raycipe/{path.relative_to(TOP)}" for folder in FOLDERS for path in sources(folder)}
    wanted |= {f"raycipe/{path.relative_to(TOP)}" for path in (TOP / "recipes").rglob("*.yaml")}
    wanted |= {
        "raycipe/framework/schema.json",
        "raycipe/framework/results/report.html.j2",
        "raycipe/launchers/skeletons/data.py.j2",
    }
    assert wanted - names == set()
    assert not any(name.startswith(FOLDERS) for name in names)


def test_files_and_functions_stay_readable() -> None:
    long = []
    for path in [path for folder in FOLDERS for path in sources(folder)]:
        text = path.read_text()
        if text.count("\n") > MAX_FILE:
            long.append(f"{path.relative_to(TOP)}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno is not None:
                length = node.end_lineno - node.lineno + 1
                if length > MAX_FUNCTION:
                    long.append(f"{path.relative_to(TOP)}:{node.lineno} {node.name}: {length} lines")
    assert long == []


def test_nothing_evaluates_text_or_loads_pickles() -> None:
    """Names that must not be called anywhere in the package (lint says the same; this also sees attributes)."""
    found = []
    for path in [path for folder in FOLDERS for path in sources(folder)]:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            safe_load = any(
                word.arg == "weights_only" and getattr(word.value, "value", None) is True for word in node.keywords
            )
            if name in ("eval", "exec", "pickle.load", "pickle.loads", "yaml.load") or (
                name == "torch.load" and not safe_load
            ):
                found.append(f"{path.relative_to(TOP)}:{node.lineno} {name}")
    assert found == []
