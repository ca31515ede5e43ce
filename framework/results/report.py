"""report.html: one self-contained page about a run, opened from disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from raycipe.framework.files import number
from raycipe.framework.results.curves import data_uri, draw, draw_returns, panels, series, to_svg
from raycipe.framework.runs import Run, final_values

PICTURES = {".png": "image/png", ".svg": "image/svg+xml", ".gif": "image/gif", ".jpg": "image/jpeg"}
MAX_EMBEDDED = 20_000_000  # bytes; a larger file is linked
MAX_TABLE_ROWS = 200
MAX_TEXT = 20_000  # characters
RETURNS = "artifacts/returns.svg"  # of an agent's run: its page draws them at its head
IN_RETURNS = (
    "rl/episode_return",
    "rl/eval_return",
    *(f"rl/eval_return_{end}" for end in ("low", "high", "min", "max")),
)
SHORT = 12  # rows; a longer table of a study is folded
FEW_RUNS = 5  # fewer give intervals that say little


def write_report(run: Run) -> Path:
    """Write `report.html` into the run folder and return its path."""
    run.write("report.html", render(run))
    return run.path / "report.html"


def render(run: Run) -> str:
    from jinja2 import Environment, FileSystemLoader

    pages = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True)
    pages.filters["short"] = short
    result, provenance = run.read("result.json"), run.read("provenance.json")
    return pages.get_template("report.html.j2").render(
        run=run,
        result=result,
        status=result.get("status") or run.status(),
        final=by_group(final_values(result)),
        short_table=SHORT,
        is_study=any(name.startswith("study/") for name in final_values(result)),
        few=fewest_runs(final_values(result)),
        endings=endings(result),
        provenance=provenance,
        environment=environment(provenance),
        curves=curves_of(run),
        artifacts=artifacts_of(run, result),
        about=about(run),
        sweep=own_file(run, "sweep.html") is not None,
        recipe=text_of(run, "recipe.yaml"),
        resolved=text_of(run, "resolved.yaml"),
        log=text_of(run, "log.txt")[-MAX_TEXT:] if result.get("error") else "",
    )


class Curves(NamedTuple):
    """SVG pictures: those at the head of the page and those that are folded; and metrics that never changed."""

    shown: list[str]
    folded: list[str]
    constant: dict[str, float]


def curves_of(run: Run) -> Curves:
    """Curves of every metric that was reported at two steps or more; of an agent the returns come first."""
    found = {name: points for name, points in series(run.rows()).items() if len(points) > 1}
    is_agent = "rl/eval_return" in found or "rl/episode_return" in found
    constant = {
        name: points[0][1]
        for name, points in found.items()
        if len({value for _, value in points}) == 1 and not (is_agent and name in IN_RETURNS)
    }
    rest = [name for name in found if name not in constant and not (is_agent and name in IN_RETURNS)]
    pictures = [draw(title, {name: found[name] for name in names}) for title, names in panels(rest).items()]
    if is_agent:
        return Curves([to_svg(draw_returns(found))], pictures, constant)
    return Curves(pictures, [], constant)


def fewest_runs(final: Mapping[str, float]) -> int | None:
    """The fewest runs that an interval of a study stands on, if they are few: Student's t is wide then."""
    runs = [value for name, value in final.items() if name.startswith("study/") and name.endswith("/runs")]
    return int(min(runs)) if runs and 1 < min(runs) < FEW_RUNS else None


def by_group(final: Mapping[str, float]) -> dict[str, float]:
    """Held-out splits first, then training, then everything else in its own order."""
    return {name: final[name] for name in sorted(final, key=group_rank)}


def group_rank(name: str) -> int:
    order = ("test/", "val/", "train/")
    return next((rank for rank, group in enumerate(order) if name.startswith(group)), len(order))


def endings(result: Mapping[str, Any]) -> list[str]:
    """Why training ended before its length, and where the best checkpoints are."""
    steps = result.get("steps")
    reasons = {
        "early_stop": f"stopped early at step {steps}: the watched metric no longer improved",
        "minutes": f"stopped at step {steps}: the time of train.minutes is over",
    }
    lines = [reasons[result["stopped"]]] if result.get("stopped") in reasons else []
    kept = {item["step"]: item["path"] for item in result.get("checkpoints") or []}
    for metric, best in (result.get("best") or {}).items():
        where = f", {kept[best['step']]}" if best["step"] in kept else ""
        lines.append(f"best {metric} {short(best['value'])} at step {best['step']}{where}")
    return lines


def about(run: Run) -> dict[str, Any]:
    if not (run.path / "resolved.yaml").exists():
        return {}
    recipe = run.resolved()
    return {"about": recipe.get("about"), "paper": recipe.get("paper")}


def text_of(run: Run, file: str) -> str:
    path = own_file(run, file)
    return path.read_text(encoding="utf-8", errors="replace") if path is not None else ""


def own_file(run: Run, name: Any) -> Path | None:
    """A regular file inside the run folder, links followed; None for everything else, so that a stranger's run shows
    nothing of the reader's machine."""
    if not isinstance(name, str) or "\0" in name:
        return None
    home = run.path.resolve()
    path = (home / name).resolve()
    return path if path.is_relative_to(home) and path.is_file() else None


def environment(provenance: Mapping[str, Any]) -> dict[str, str]:
    """The facts that readers look for first; all packages stand in provenance.json."""
    packages = provenance.get("packages") or {}
    cpu = provenance.get("cpu") or {}
    recipe = provenance.get("recipe") or {}
    git = recipe.get("git") or {}
    raycipe = provenance.get("raycipe") or {}
    facts = {
        "command": " ".join(provenance.get("command") or []),
        "recipe hash": str(provenance.get("recipe_hash") or "")[:12],
        "seed": provenance.get("seed"),
        "recipe in git": git and f"{git['commit'][:12]}{' with changes' if git['dirty'] else ''}",
        "raycipe": raycipe.get("version"),
        "python": provenance.get("python"),
        "torch": packages.get("torch"),
        "ray": packages.get("ray"),
        "platform": provenance.get("platform"),
        "processor": cpu.get("model") and f"{cpu['model']}, {cpu['cores']} cores",
        "GPUs": ", ".join(gpu["name"] for gpu in provenance.get("gpus") or []),
        "threads a worker": provenance.get("threads"),
        "created": provenance.get("created"),
        "finished": provenance.get("finished"),
    }
    return {name: str(value) for name, value in facts.items() if value not in (None, "", {}, 0) or name == "seed"}


def artifacts_of(run: Run, result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Pictures first, then short tables and the rest; long tables and those of single runs come last and are folded.
    A table that lies there in two formats is shown once."""
    found: dict[str, dict[str, Any]] = {}
    for item in result.get("artifacts") or []:
        path = str(item.get("path"))
        stem = path.rpartition(".")[0] if path.endswith((".csv", ".parquet")) else path
        if stem in found:
            found[stem]["others"].append(artifact(run, item)["path"])
        elif path != RETURNS or own_file(run, path) is None:
            found[stem] = {**artifact(run, item), "others": []}
    for stem, item in found.items():
        item["folded"] = bool(item["rows"]) and (len(item["rows"]) > SHORT or stem.endswith("-runs"))
    is_picture = {stem: item.get("kind") in ("plot", "picture", "video") for stem, item in found.items()}
    return [found[stem] for stem in sorted(found, key=lambda stem: (found[stem]["folded"], not is_picture[stem]))]


def artifact(run: Run, item: Mapping[str, Any]) -> dict[str, Any]:
    """What the page shows of one artifact: a picture inside the page, the head of a table or text, or a link."""
    path = own_file(run, item.get("path"))
    shown: dict[str, Any] = {**item, "uri": None, "rows": [], "columns": [], "text": None, "more": 0}
    if path is None:
        return {**shown, "path": None}
    shown["path"] = path.relative_to(run.path.resolve()).as_posix()
    if path.stat().st_size > MAX_EMBEDDED:
        return shown
    if path.suffix in PICTURES:
        shown["uri"] = data_uri(path.read_bytes(), PICTURES[path.suffix])
    elif path.suffix in (".csv", ".parquet"):
        import pandas as pd

        table = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
        shown["columns"] = list(table.columns)
        rows = table.head(MAX_TABLE_ROWS).astype(object).to_numpy().tolist()
        shown["rows"] = [[None if cell != cell else cell for cell in row] for row in rows]  # NaN is what has no value
        shown["more"] = max(0, len(table) - MAX_TABLE_ROWS)
    elif item.get("kind") == "text":
        shown["text"] = path.read_text(encoding="utf-8", errors="replace")[:MAX_TEXT]
    return shown


def short(value: Any) -> str:
    """A number as people read it: six significant digits."""
    value = number(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "" if value is None else str(value)
    return str(value) if isinstance(value, int) else f"{value:.6g}"
