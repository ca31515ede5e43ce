"""Runs the measures of a recipe on what was trained, and writes what they drew and listed under `artifacts/`.

A measure that can't say anything, or that fails, is recorded with its reason and does not lose the run.
"""

from __future__ import annotations

import csv
import io
import json
import signal
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raycipe.framework.contracts import Measure, Measured, Skipped, Trained
from raycipe.framework.files import finite, write_atomic
from raycipe.framework.registry import build, get


@dataclass
class Findings:
    """What all measures of a run found together."""

    values: dict[str, float] = field(default_factory=dict)  # measure/<type>/<name>
    artifacts: list[dict[str, str]] = field(default_factory=list)
    skipped: list[dict[str, str]] = field(default_factory=list)


def run_measures(
    trained: Trained,
    recipe: Mapping[str, Any],
    run_dir: str | Path | None,
    log: Callable[[str], None] = lambda text: None,
    folder: str = "",
) -> Findings:
    """Every measure of the recipe, in its order. `log` gets the traceback of one that fails.

    `folder` is where under `artifacts/` the files go; without `run_dir` there are none.
    """
    findings = Findings()
    used: dict[str, int] = {}
    for section in recipe.get("measures") or []:
        type_ = section if isinstance(section, str) else section["type"]
        used[type_] = used.get(type_, 0) + 1
        name = type_ if used[type_] == 1 else f"{type_}_{used[type_]}"
        try:
            measure: Measure = build(section, "measures", "measures", facts=trained.facts)
            require(measure.needs, trained)
            measured = measure.measure(trained)
            if run_dir is not None:
                findings.artifacts += write(measured, name, Path(run_dir), folder)
            findings.values.update({f"measure/{name}/{key}": float(value) for key, value in measured.values.items()})
        except Skipped as reason:
            findings.skipped.append({"component": f"measures/{type_}", "why": str(reason)})
        except (Exception, SystemExit) as error:  # hours of training must not be lost to a mistake of a measure
            if isinstance(error, SystemExit) and error.code == signal.SIGTERM:
                raise  # not the measure's: how Ray ends a process
            log(f"measures/{type_} failed:\n{traceback.format_exc()}")
            findings.skipped.append({"component": f"measures/{type_}", "why": f"{type(error).__name__}: {error}"})
    return findings


def in_training(sections: Sequence[Any]) -> list[Any]:
    """The measures that are taken in the middle of training, too."""

    def is_taken(section: Any) -> bool:
        cls: Any = get("measures", section if isinstance(section, str) else section["type"])
        return bool(cls.in_training)

    return [section for section in sections if is_taken(section)]


def require(needs: Sequence[str], trained: Trained) -> None:
    """Raise Skipped, with the reason, if something is missing."""
    for need in needs:
        there = getattr(trained, need)
        if there is None or (isinstance(there, (Mapping, Sequence)) and not there):
            raise Skipped(f"it needs `{need}`, which this run does not have")


def write(
    measured: Measured, name: str, run_dir: Path, folder: str = "", parquet: bool = False
) -> list[dict[str, str]]:
    """Files under `artifacts/<folder>/`; gives their entries for the result. With `parquet`, tables come so, too."""
    entries: list[dict[str, str]] = []

    def add(file: str, kind: str, title: str, content: str | bytes) -> None:
        path = run_dir / "artifacts" / folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content)
        entries.append(
            {"path": path.relative_to(run_dir).as_posix(), "kind": kind, "title": f"{name}: {title.replace('_', ' ')}"}
        )

    for title, draw in measured.figures.items():
        add(f"{name}-{title}.svg", "plot", title, _svg(draw))
    for title, rows in measured.tables.items():
        add(f"{name}-{title}.csv", "table", title, _csv(rows))
        if parquet and rows:
            add(f"{name}-{title}.parquet", "table", title, _parquet(rows))
    for title, text in measured.text.items():
        add(f"{name}-{title}.txt", "text", title, text)
    return entries


def _svg(draw: Callable[[], Any]) -> bytes:
    import matplotlib

    matplotlib.use("Agg")  # never a window, wherever this runs
    # Without these a figure's file would differ from run to run.
    with matplotlib.rc_context({"svg.hashsalt": "raycipe"}):
        buffer = io.BytesIO()
        draw().savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    return buffer.getvalue()


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if rows:
        writer.writerow(rows[0])
        writer.writerows([_cell(row[key]) for key in rows[0]] for row in rows)
    return out.getvalue()


def _parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    buffer = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist([dict(row) for row in rows]), buffer)
    return buffer.getvalue()


def _cell(value: Any) -> Any:
    return json.dumps(finite(value)) if isinstance(value, (dict, list)) else finite(value)
