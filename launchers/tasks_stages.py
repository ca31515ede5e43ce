"""The stages of a run after its training: an editor, and measures on one model or on every checkpoint."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raycipe.framework.errors import RunError, counted
from raycipe.framework.recorded import FINDINGS

if TYPE_CHECKING:
    from raycipe.framework.contracts import Trained
    from raycipe.launchers.tasks import Job

ALL = "all"


def wanted_checkpoint(recipe: Mapping[str, Any]) -> str | int:
    start = recipe.get("start")
    found: str | int = start.get("checkpoint", "last") if isinstance(start, Mapping) else "last"
    return found


def all_checkpoints(recipe: Mapping[str, Any]) -> bool:
    return wanted_checkpoint(recipe) == ALL


def trained_of(job: Job) -> Trained:
    """The model that this run trained, the one that it starts from, else the untrained one, or the data alone."""
    from raycipe.framework.training.loading import load_trained
    from raycipe.launchers.fan_out import mapper
    from raycipe.launchers.local import device_of

    recipe = job.recipe.plain
    if "task" in recipe:
        folder, checkpoint = str(job.run), "last"
    else:
        folder, checkpoint = job.start_dir, wanted_checkpoint(recipe)  # type: ignore[assignment]  # both kinds
    if "model" not in job.plain and "data" in job.plain and folder is None:
        return _data_alone(job)
    _require_model(job)
    trained = load_trained(job.plain, folder, checkpoint, device_of(recipe))
    trained.fan_out = mapper(job.places)
    return trained


def _data_alone(job: Job) -> Trained:
    """For measures of data, or of their own arguments; those that need a model are skipped with the reason."""
    from raycipe.framework.contracts import Trained
    from raycipe.framework.training.loading import load_data
    from raycipe.launchers.fan_out import mapper

    data, splits = load_data(job.plain)
    return Trained(recipe=job.plain, splits=splits, facts=data.facts, seed=job.seed, fan_out=mapper(job.places))


def _require_model(job: Job) -> None:
    for section in ("data", "model"):
        if section not in job.plain:
            place = f"the run of `start` ({job.start_dir}) has none" if job.start_dir else "the recipe has none"
            raise RunError(
                "recipe", f"needs `{section}`: {place}", f"add `{section}:`", "start" if job.start_dir else None
            )


# ---------------------------------------------------------------------------------------------- editor


def edit(job: Job) -> Trained:
    """Edit the model; figures before and after, the edited weights as a checkpoint, and the model for what follows."""
    from raycipe.framework.contracts import Editor, Skipped
    from raycipe.framework.measuring import require, write
    from raycipe.framework.registry import build
    from raycipe.framework.training.state import seed_all

    trained = trained_of(job)
    section = job.plain["editor"]
    editor: Editor = build(section, "editors", "editor", facts=trained.facts)
    try:
        require(editor.needs, trained)
    except Skipped as reason:
        raise RunError("recipe", f"editors/{section['type']} can't run: {reason}", where="editor") from reason
    job.on_info(f"editing with {section['type']} ...")
    job.find(_figures(trained, "before"))
    seed_all(job.seed)
    edited, evidence = editor.edit(trained)
    after = replace(trained, model=edited.eval(), cache={})
    job.find(_figures(after, "after"))
    job.find({f"edit/{name}": value for name, value in evidence.values.items()}, write(evidence, "edit", job.run.path))
    save_edited(edited, job.run.path)
    job.outcome["checkpoints"].append({"path": "checkpoints/edited", "step": job.outcome["steps"] or 0, "best": False})
    return after


def _figures(trained: Trained, when: str) -> dict[str, float]:
    """The task's figures on the held-out splits; none without a task."""
    from raycipe.framework.comm import LocalComm
    from raycipe.framework.training.evaluate import evaluate

    if trained.task is None:
        return {}
    found = {}
    for split in ("val", "test"):
        if split in trained.splits:
            assert trained.model is not None  # an editor has one
            size = int((trained.recipe.get("train") or {}).get("eval_batch_size") or 1024)
            values = evaluate(trained.model, trained.splits[split], trained.task, LocalComm(), size, trained.device)
            found.update({f"edit/{when}/{split}/{name}": value for name, value in values.items()})
    return found


def save_edited(model: Any, run_dir: Path) -> None:
    """`checkpoints/edited`: a checkpoint that `start: {run: ..., checkpoint: edited}` takes."""
    import shutil

    from raycipe.framework.comm import LocalComm
    from raycipe.framework.training.loading import EDITED
    from raycipe.framework.training.state import weights
    from raycipe.framework.training.store import Job as Write
    from raycipe.framework.training.store import Store, pt_writer, safetensors_writer

    tensors, tied = weights(model)
    home = run_dir / "checkpoints" / f".{EDITED}"
    shutil.rmtree(home, ignore_errors=True)
    store = Store(home, LocalComm(), keep=1)
    about = {"tied": tied, "best": [], "sharded": False}
    writers = {"model.safetensors": safetensors_writer(tensors), "state.pt": pt_writer({}), "rank0.pt": pt_writer({})}
    store.save(Write(0, writers, about), wait=True)
    (made,) = home.glob("step-*")
    there = home.parent / EDITED
    shutil.rmtree(there, ignore_errors=True)
    made.rename(there)
    shutil.rmtree(home)


# ---------------------------------------------------------------------------------------------- measures


def measure(job: Job, trained: Trained) -> None:
    """The measures of one model."""
    from raycipe.framework.measuring import run_measures

    findings = run_measures(trained, job.recipe.plain, job.run.path, job.log)
    job.outcome["skipped"] += findings.skipped
    job.find(findings.values, findings.artifacts)


def measure_checkpoints(job: Job) -> None:
    """The measures of every checkpoint of the run that `start` names: a row each, the last one the final values."""
    from raycipe.framework.files import to_json, write_atomic
    from raycipe.framework.training.loading import load_data, steps_of
    from raycipe.launchers.fan_out import Tally, fan_out
    from raycipe.launchers.local import device_of

    _require_model(job)
    assert job.start_dir is not None  # `all` stands in `start`
    steps = steps_of(job.start_dir)
    if not steps:
        raise RunError("storage", f"{job.start_dir} has no checkpoint to start from", where="start")
    if "data" in job.plain:
        job.keep_to_data(load_data(job.plain)[1])
    files = {step: job.unit(f"step-{step:08d}") for step in steps}
    left = [step for step in steps if job.recorded(files[step], FINDINGS) is None]
    tally = Tally("checkpoint", len(steps), len(steps) - len(left), job.progress)

    def ended(number: int, found: dict[str, Any]) -> None:
        write_atomic(files[left[number]], to_json(found))
        tally.end()

    shared = {
        "recipe": job.plain,
        "folder": job.start_dir,
        "run_dir": str(job.run),
        "device": device_of(job.plain),
        "roots": job.roots,
    }
    fan_out(measure_one, shared, left, job.places, on_end=ended, is_stopped=job.stop.exists)
    job.on_info(
        f"measured {counted(len(steps), 'checkpoint')}; the results are those of the last one, step {steps[-1]}"
    )
    _gather(job, {step: json.loads(file.read_text(encoding="utf-8")) for step, file in files.items()})


def measure_one(shared: Mapping[str, Any], step: int) -> dict[str, Any]:
    """The findings of one checkpoint, as plain data; runs in whatever process."""
    from raycipe.framework import plugins
    from raycipe.framework.measuring import run_measures
    from raycipe.framework.training.loading import load_trained

    plugins.adopt([tuple(root) for root in shared["roots"]])
    began = time.monotonic()
    trained = load_trained(shared["recipe"], shared["folder"], step, shared["device"])
    findings = run_measures(trained, shared["recipe"], shared["run_dir"], print, f"step-{step:08d}")
    return {**asdict(findings), "seconds": round(time.monotonic() - began, 3)}


def _gather(job: Job, found: Mapping[int, Mapping[str, Any]]) -> None:
    from raycipe.framework.files import number
    from raycipe.framework.training.rows import Rows

    rows = Rows(job.run.path / "metrics.jsonl")
    rows.cut(0)
    for step, one in found.items():
        values = {name: number(value) for name, value in one["values"].items()}
        rows.add({"step": step, "epoch": None, "seconds": one["seconds"], "attempt": 0, **values})
        job.outcome["skipped"] += [{**entry, "why": f"step {step}: {entry['why']}"} for entry in one["skipped"]]
        job.outcome["artifacts"] += one["artifacts"]
        job.outcome["final"].update(values)
        job.outcome["steps"] = step
    rows.close()
