"""Editors that forget, tuned with equal budgets: `python benchmarks/editors.py edit --data digits --seeds 5`.

`edit` trains a network for each seed and lets every editor take a class, or a random tenth, out of it. Each editor has
three settings; the one that is best by training and validation figures alone is reported on the test split, beside a
model that was trained without these examples. Written rows can be read again with `table FILE`.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from raycipe.components.editors._case import Case
from raycipe.components.editors._strength import retrained
from raycipe.components.measures.unlearning import gap, known
from raycipe.framework.contracts import Trained
from raycipe.framework.errors import RunError
from raycipe.framework.registry import build, make
from raycipe.framework.training.again import train_again

SGD = {"type": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4, "schedule": "cosine"}
SETTINGS: dict[str, dict[str, Any]] = {  # data -> recipe sections and requests
    "digits": {
        "data": {"type": "digits", "val": 0.15, "test": 0.3},
        "hidden": [32],
        "epochs": 40,
        "requests": {"class 3": 3, "random": None},
    },
    "mnist1d": {
        "data": {"type": "mnist1d", "val": 0.1, "test": 0.2},
        "hidden": [64, 32],
        "epochs": 60,
        "lr": 0.05,
        "requests": {"random": None, "class 2": 2},
    },
    "mnist5k": {
        "data": {"type": "mnist5k", "pooled": True, "val": 0.1, "test": 0.2},
        "hidden": [32],
        "epochs": 30,
        "requests": {"class 4": 4},
    },
    "reuters_r8": {
        "data": {"type": "labelled_text", "corpus": "reuters_r8", "max_features": 600},
        "hidden": [32],
        "epochs": 20,
        "lr": 0.5,
        "requests": {"class 5": 5},
    },
    "newsgroups": {
        "data": {"type": "labelled_text", "corpus": "newsgroups", "classes": 8, "max_features": 600},
        "hidden": [32],
        "epochs": 20,
        "lr": 0.5,
        "requests": {"class 1": 1},
    },
}
IF = ("if lissa", "if cg", "if arnoldi")


def editors(hvp: int, is_class: bool, bound: float) -> dict[str, list[dict[str, Any]]]:
    """name -> three settings each; `bound` is the accuracy that what goes is to come down to."""
    target: float | str = 0.0 if is_class else "validation"
    search = {"strength": {"target": target, "refine": 4}, "spectrum": 0}

    def influence(**solver: Any) -> dict[str, Any]:
        return {"type": "influence", "ihvp": {"max_hvp": hvp, **solver}, **search}

    def gif(subspace: Any, more: Mapping[str, Any] | None = None, **solver: Any) -> dict[str, Any]:
        settings = {"type": "p_lissa", "max_hvp": hvp, **solver}
        return {"type": "gif", "subspace": subspace, "ihvp": settings, **search, **(more or {})}

    def topk(score: str, **more: Any) -> dict[str, Any]:
        return {"type": "topk", "score": score, "ratio": 0.1, **more}

    warm = {"acceleration": "nesterov", "x0": "warm"}
    gates = [topk("gate"), topk("gate", q=0.8), topk("soft")]
    rates = (0.02, 0.1, 0.3) if is_class else (0.002, 0.01, 0.05)
    return {
        "if lissa": [influence(type="lissa", damping=d) for d in (0.01, 0.1, 1.0)],
        "if cg": [influence(type="cg", damping=d, tol=0.0) for d in (0.01, 0.1, 1.0)],
        "if arnoldi": [influence(type="arnoldi", top_k=k) for k in (10, 30, hvp)],
        "gif plain": [gif(each) for each in gates],
        "gif nesterov": [gif(each, acceleration="nesterov") for each in gates],
        "gif cgls": [gif(each, acceleration="cgls") for each in gates],
        "gif pilot warm": [gif(topk("pilot"), **warm), gif(topk("pilot"), x0="warm"), gif(topk("gate"), **warm)],
        "gif all rows": [gif(each, {"rows": "all"}) for each in gates],
        "full p_lissa": [gif("all"), gif("all", acceleration="nesterov"), gif("all", **warm)],
        "fine_tune": [{"type": "fine_tune", "lr": lr} for lr in rates],
        "gradient_ascent": [
            {"type": "gradient_ascent", "lr": lr, "steps": 300, "stop_at_forget_accuracy": bound}
            for lr in (0.003, 0.01, 0.1)
        ],
        "random_label": [{"type": "random_label", "lr": lr} for lr in rates],
        "salun": [{"type": "salun", "lr": lr} for lr in rates],
        "ssd": [{"type": "ssd", "alpha": alpha} for alpha in (2, 5, 15)],
        "scrub": [{"type": "scrub", "lr": lr} for lr in (0.003, 0.01, 0.03)],
        "fisher_forget": [{"type": "fisher_forget", "alpha": alpha} for alpha in (1e-7, 1e-6, 1e-5)],
    }


def trained_on(name: str, seed: int) -> Trained:
    """The trained network of one seed."""
    setting = SETTINGS[name]
    recipe = {
        "seed": seed,
        "data": setting["data"],
        "model": {"type": "mlp", "hidden": setting["hidden"], "activation": "tanh"},
        "task": {"type": "classification"},
        "optimizer": {**SGD, "lr": setting.get("lr", 0.1)},
        "train": {"epochs": setting["epochs"], "batch_size": 64},
    }
    data = build(recipe["data"], "data", "data")
    splits = data.load(seed)
    model = train_again(recipe, splits, data.facts)
    task = make("tasks/classification", num_classes=data.facts["num_classes"])
    return Trained(recipe=recipe, splits=splits, facts=data.facts, model=model, task=task, seed=seed)


def cells(name: str, seed: int, hvp: int, only: str | None) -> Iterator[dict[str, Any]]:
    """A row for each request and editor."""
    trained = trained_on(name, seed)
    assert trained.model is not None
    for request, label in SETTINGS[name]["requests"].items():
        if only and not request.startswith(only):
            continue
        is_class = label is not None
        forget = {"type": "one_class", "label": label} if is_class else {"type": "random", "fraction": 0.1}
        case = Case.of(trained, make(f"forget/{forget['type']}", **{k: v for k, v in forget.items() if k != "type"}))
        oracle, original = known(case, retrained(trained, case.stays)), known(case, trained.model)
        head = {"data": name, "seed": seed, "request": request}
        yield {**head, "editor": "retrain", **oracle, "avg_gap": 0.0}
        yield {**head, "editor": "original", **original, "avg_gap": gap(original, oracle)}
        bound = 0.01 if is_class else case.scores(case.model, case.held_out["val"])["accuracy"]
        for editor, settings in editors(hvp, is_class, bound).items():
            began = time.process_time()
            found = [result for each in settings if (result := attempt(trained, case, {**each, "forget": forget}))]
            if not found:
                yield {**head, "editor": editor, "failed": True}
                continue
            best = min(found, key=lambda result: result["loss"])
            figures = known(Case(**{**vars_of(case), "model": best["model"]}), best["model"])
            rest = {name: value for name, value in best.items() if name != "model"}
            seconds = time.process_time() - began
            yield {**head, "editor": editor, **figures, "avg_gap": gap(figures, oracle), "cpu_s": seconds, **rest}


def vars_of(case: Case) -> dict[str, Any]:
    fields = ("trained", "request", "model", "task", "ids", "goes", "stays", "weight_decay", "notes")
    return {name: getattr(case, name) for name in fields}


def attempt(trained: Trained, case: Case, section: dict[str, Any]) -> dict[str, Any] | None:
    """One setting and how good it is by training and validation figures; None if it failed."""
    torch.manual_seed(trained.seed)
    try:
        edited, found = build(section, "editors", "editor", facts=trained.facts).edit(trained)
    except RunError:
        return None
    val = case.held_out["val"]
    forgot, kept = found.values["after/forget/accuracy"], found.values["after/retain/accuracy"]
    valid = case.scores(edited, val)["accuracy"]
    before = case.scores(case.model, val)["accuracy"]
    if section["forget"]["type"] == "one_class":
        loss = max(0.0, forgot - 0.01) - valid
    else:
        loss = abs(forgot - before) + abs(found.values["before/retain/accuracy"] - kept) + max(0.0, before - valid)
    keys = ("strength", "reached", "products", "relative_residual", "normal_residual", "alignment", "step_norm")
    return {
        "model": edited,
        "loss": loss,
        "setting": json.dumps({k: v for k, v in section.items() if k in ("subspace", "ihvp", "lr", "alpha")}),
        **{key: found.values[key] for key in keys if key in found.values},
    }


# ---------------------------------------------------------------------------------------------- tables


def half_width(values: list[float]) -> float:
    """Of Student's 95 % interval."""
    if len(values) < 2:
        return math.nan
    from scipy import stats

    mean = sum(values) / len(values)
    sd = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    return float(stats.t.ppf(0.975, len(values) - 1)) * sd / math.sqrt(len(values))


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: for each data set and request the editors' figures in points, and paired differences."""
    groups: dict[tuple[str, str], dict[str, dict[int, dict[str, Any]]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        groups[row["data"], row["request"]][row["editor"]][row["seed"]] = row
    lines = []
    for (data, request), by_editor in groups.items():
        is_class = request != "random"
        key, sign = ("test_accuracy", 1) if is_class else ("avg_gap", -1)
        seeds = sorted(set.intersection(*(set(found) for found in by_editor.values())))
        lines += [
            f"\n{data}, {request}, {len(seeds)} seeds\n",
            "| editor | forget | retain | test | mia | avg gap | "
            + ("test" if is_class else "gap")
            + " against the best IF |",
            "|---|---|---|---|---|---|---|",
        ]
        ours = {s: max(sign * by_editor[e][s].get(key, math.nan) for e in IF) for s in seeds}
        for editor, found in by_editor.items():
            good = [found[s] for s in seeds if not found[s].get("failed")]
            if not good:
                lines.append(f"| {editor} | failed | | | | | |")
                continue
            mean = {
                name: 100 * sum(row[name] for row in good) / len(good)
                for name in ("forget_accuracy", "retain_accuracy", "test_accuracy", "mia", "avg_gap")
            }
            apart = [100 * (sign * found[s][key] - ours[s]) * sign for s in seeds if not found[s].get("failed")]
            shown = f"{sum(apart) / len(apart):+.2f} ± {half_width(apart):.2f}"
            lines.append(f"| {editor} | " + " | ".join(f"{value:.2f}" for value in mean.values()) + f" | {shown} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["edit", "table"])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--data", nargs="*", default=list(SETTINGS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--hvp", type=int, default=100)
    parser.add_argument("--only")
    parser.add_argument("--rows", help="a file to which rows are added as they come")
    words = parser.parse_args()
    torch.set_num_threads(1)
    if words.part == "table":
        rows = [json.loads(line) for file in words.files for line in Path(file).read_text().splitlines()]
        print(table(rows))
        return
    rows = []
    for seed in range(words.first, words.first + words.seeds):
        for name in words.data:
            for row in cells(name, seed, words.hvp, words.only):
                rows.append(row)
                if words.rows:
                    with Path(words.rows).open("a") as file:
                        file.write(json.dumps(row) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
