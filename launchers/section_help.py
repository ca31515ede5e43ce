"""What `raycipe show SECTION` prints: the keys of a section, or what can stand there, and rules that no key shows."""

from __future__ import annotations

from typing import Any

from raycipe.framework.catalogue import types
from raycipe.framework.words import branches, nearest, type_of
from raycipe.launchers.showing import arguments, components, facts, filled, keys

Json = dict[str, Any]
RULES = {  # section -> what its schema can't say
    "expect": """\
claims:
  test/accuracy: ">= 0.95"           or > < <= == !=; ">= 95%" is 0.95
  val/loss: "~ 0.12 ± 0.02"          or ± 10%
  max(val/accuracy): "0.9 .. 1.0"    both ends included; last (default), first, min, max, mean
  test/loss: "<= 1.1 * val/loss"     another metric: [number *] metric [+ or - number]
Quote them: an unquoted > begins a block of text.""",
    "sweep": """\
space: dotted path -> one of
  [a, b], {choice: [a, b]}           any values; {grid: [a, b]}: each of them once
  {uniform: [low, high]}             also loguniform
  {randint: [low, high]}             whole numbers, both ends included; also lograndint
  {quniform: [low, high, step]}      also qloguniform, qrandint
  {normal: [mean, sd]}               with clip: [low, high] where the argument is bounded
example:
  sweep: {space: {optimizer.lr: {loguniform: [1e-3, 1.0]}}, metric: val/loss, mode: min, trials: 16}""",
    "profiles": """\
name (a-z 0-9 _) -> sections, laid over the recipe by `launch RECIPE --profile NAME`.
A profile can't change recipe, name, extends or profiles. Under the name `smoke` claims are judged for presence alone.
example:
  profiles: {smoke: {train: {epochs: 1}}, cluster: {resources: {num_workers: 8}}}""",
    "extends": """\
a path relative to this file that ends in .yaml, or a packaged recipe's name.
Maps merge, lists are replaced, another `type` drops the old type's arguments, null removes a section.
example:
  extends: quickstart""",
    "track": """\
example:
  track: [tensorboard, mlflow]
  track: {wandb: {project: digits, tags: {team: vision}}}""",
    "start": """\
example:
  start: {run: runs/quickstart/2026-12-01-031405-k3f9, checkpoint: best}""",
}


def section(path: str, schema: Json) -> str | None:
    """A section, or a key in it (`train.keep_best`); None where there is none of this name."""
    wanted = _at(path.split("."), schema)
    if wanted is None:
        return None
    head = [path]
    if wanted.get("description"):
        head.append(filled(wanted["description"], "  "))
    kind = _kind(wanted, schema)
    if kind:
        about = schema["$defs"][kind]["description"]
        several = "a list, each one of:" if type_of(wanted) == "array" else "one of:"
        head += [] if "description" in wanted else [filled(about, "  ")]
        listing = components(schema["$defs"], kind)
        return "\n\n".join(["\n".join(head), *([several] if types(kind, schema["$defs"]) else []), listing])
    inner = keys(wanted)
    required: list[str] = next(
        (branch.get("required", []) for branch in branches(wanted) if "properties" in branch), []
    )
    if not inner or len(branches(wanted)) > 1:
        head.append(f"  {_alone(path, wanted)}")
    parts = ["\n".join(head), arguments(inner, required, "keys"), RULES.get(path, "")]
    if path == "train" and types("agents", schema["$defs"]):
        parts.append(arguments(schema["$defs"]["TrainAgent"]["properties"], [], "keys with an agent"))
    return "\n\n".join(filter(None, parts))


def unknown(path: str, schema: Json) -> str:
    """What to do about a name that is no section, no key of one and no component."""
    defs, first = schema["$defs"], path.partition(".")[0]
    sections = schema["$defs"]["full"]["properties"]
    above, _, last = path.rpartition(".")
    wanted = _at(above.split("."), schema) if above else None
    if wanted is not None:
        kind = _kind(wanted, schema)
        if kind:
            return f"its arguments depend on its type: see `raycipe show {above}`"
        near = nearest(last, keys(wanted))
        return f"did you mean `{above}.{near}`?" if near else f"see `raycipe show {above}`"
    known = [key for key in defs if "/" in key]
    same = [key for key in known if key.endswith(f"/{path}")]
    near = nearest(first, [*sections, *schema["x-kinds"]]) or nearest(path, [key.partition("/")[2] for key in known])
    found = same[0] if same else next((key for key in known if key.endswith(f"/{near}")), near)
    return f"did you mean `{found}`?" if found else "see `raycipe list`, and `raycipe show recipe` for sections"


def _at(parts: list[str], schema: Json) -> Json | None:
    """The schema of a section (`train`: of a task's training) or of a key in it."""
    properties = schema["$defs"]["full"]["properties"]
    wanted = _followed(properties[parts[0]], schema) if parts[0] in properties else None
    if parts[0] == "train" and wanted is not None:
        wanted = {**schema["$defs"]["Train"], **wanted}
    for part in parts[1:]:
        inner = keys(wanted) if wanted is not None else {}
        wanted = _followed(inner[part], schema) if part in inner else None
    return wanted


def _followed(wanted: Json, schema: Json) -> Json:
    """A record for the reference to it; a reference to a kind stays."""
    name = wanted.get("$ref", "").rpartition("/")[2]
    return {**schema["$defs"][name], **wanted} if name[:1].isupper() else wanted


def _kind(wanted: Json, schema: Json) -> str:
    """The kind of component that a section holds, one or a list."""
    name = str(wanted.get("items", wanted).get("$ref", "")).rpartition("/")[2]
    return name if name in schema["x-kinds"] else ""


def _alone(path: str, wanted: Json) -> str:
    """What stands for the section or key itself."""
    form = wanted.get("patternErrorMessage", "").removeprefix("must be ") if type_of(wanted) == "string" else ""
    return form or facts(path.rpartition(".")[2], wanted, path in ("recipe", "name"))
