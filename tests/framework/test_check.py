"""Checking whole recipes: every mistake at once, with its place, its words and its code."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from raycipe.framework import catalogue
from raycipe.framework.check import as_json, check, check_file
from raycipe.framework.errors import CODES, Problem, RecipeError, explain
from raycipe.framework.recipe import load

Lab = Callable[..., Path]
TOP = Path(__file__).parents[2]
EXAMPLES = 300

GOOD = """\
recipe: 1
name: a
data: digits
model: {type: mlp, hidden: [8]}
task: classification
optimizer: {type: sgd, lr: 0.1}
"""

COMPRESSORS = '''
@register
class {name}(Compressor):
    """Keeps some entries.

    Args:
        ratio: share of entries kept
    """

    def __init__(self, ratio: Share = 0.01) -> None:
        self.ratio = ratio

    def plan(self, *a: Any) -> Any:
        return a

    def encode_(self, *a: Any) -> Any:
        return a

    def decode_(self, *a: Any) -> Any:
        return a

    def alpha(self, plan: Any) -> float:
        return 1.0
'''

EF_SGD = '''
@register
class FbSgd(Optimizer):
    """SGD with error feedback.

    Args:
        compressor: what each worker sends
        schedule: how the rate changes
    """

    def __init__(self, params: Any, compressor: Compressor, lr: Positive = 0.1, schedule: Schedule | None = None):
        pass
'''

TABLE = '''
from raycipe.framework.contracts import Data


@register
class Table(Data):
    """A table.

    Args:
        path: the file
        columns: names of the columns to read
    """

    def __init__(self, path: Annotated[str, InputFile((".csv",))], columns: list[str] | None = None) -> None:
        self.path = path

    def load(self, seed: int) -> Any:
        return {}
'''


@pytest.fixture
def schema(lab: Lab) -> dict[str, Any]:
    lab(
        {
            "optimizers/fb_sgd": EF_SGD,
            "compressors/bigk": COMPRESSORS.format(name="BigK"),
            "compressors/anyk": COMPRESSORS.format(name="AnyK"),
            "data/table": TABLE,
        }
    )
    return catalogue.load()


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    (tmp_path / "recipes").mkdir()
    monkeypatch.chdir(tmp_path)

    def make(text: str, name: str = "a") -> str:
        path = f"recipes/{name}.yaml"
        Path(path).write_text(text)
        return path

    return make


def problems(path: str, schema: Any, overrides: Any = (), profiles: Any = ()) -> list[Problem]:
    try:
        check(load(path, list(overrides), list(profiles)), schema)
    except RecipeError as error:
        return sorted(error.problems, key=lambda problem: problem.at)
    return []


def told(path: str, schema: Any, overrides: Any = (), profiles: Any = ()) -> list[str]:
    return [str(problem) for problem in problems(path, schema, overrides, profiles)]


# ---------------------------------------------------------------------------------------------- what it makes


def test_a_checked_recipe_holds_every_default(write: Any) -> None:
    recipe = check(load(write(GOOD)))
    assert recipe.plain["train"]["epochs"] == 10 and recipe.plain["train"]["batch_size"] == 64
    assert recipe.plain["seed"] == 0
    assert recipe.plain["task"]["type"] == "classification"
    assert recipe.plain["resources"]["num_workers"] == 1
    assert (recipe.name, recipe.path) == ("a", "recipes/a.yaml")


def test_steps_take_the_place_of_the_default_epochs(write: Any) -> None:
    train = check(load(write(GOOD + "train: {steps: 1e2}\n"))).plain["train"]
    assert train["steps"] == 100 and "epochs" not in train


def test_the_hash_ignores_names_and_claims_and_sees_values(write: Any) -> None:
    def hash_of(text: str) -> str:
        return check(load(write(text))).hash

    base = hash_of(GOOD)
    assert len(base) == 64
    assert hash_of(GOOD.replace("name: a", "name: b") + 'about: x\nexpect: {test/accuracy: ">= 0.1"}\n') == base
    assert hash_of(GOOD + "train: {epochs: 10}\n") == base, "a default written out is the same recipe"
    assert hash_of(GOOD + "profiles: {big: {train: {epochs: 2}}}\n") == base
    assert hash_of(GOOD + "train: {epochs: 11}\n") != base
    assert hash_of(GOOD + "seed: 1\n") != base


def test_files_become_absolute_and_the_hash_does_not_see_the_machine(
    write: Any, schema: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = []
    for place in ("one", "two"):
        folder = tmp_path / place
        (folder / "recipes").mkdir(parents=True)
        (folder / "pyproject.toml").touch()
        (folder / "recipes" / "d.csv").touch()
        (folder / "recipes" / "a.yaml").write_text(GOOD.replace("digits", "{type: table, path: d.csv}"))
        recipe = check(load(str(folder / "recipes" / "a.yaml")), schema)
        assert recipe.plain["data"]["path"] == str(folder / "recipes" / "d.csv")
        hashes.append(recipe.hash)
    assert hashes[0] == hashes[1]


def test_checking_the_resolved_recipe_changes_nothing(write: Any) -> None:
    from raycipe.framework.emit import dump

    first = check(load(write(GOOD + "measures: [confusion_matrix]\nsweep: null\n")))
    second = check(load(write(dump(first.plain), "b")))
    assert second.plain == first.plain
    assert second.hash == first.hash


def test_the_resolved_recipe_of_an_agent_is_a_recipe_again(write: Any) -> None:
    from raycipe.framework.emit import dump

    text = "recipe: 1\nname: a\nenv: {type: gymnasium, id: CartPole-v1}\nagent: ppo\ntrain: {iterations: 2}\n"
    first = check(load(write(text)))
    assert first.plain["resources"]["num_env_runners"] == 0 and "num_workers" not in first.plain["resources"]
    second = check(load(write(dump(first.plain), "b")))
    assert second.plain == first.plain and second.hash == first.hash


# ---------------------------------------------------------------------------------------------- every text

HEAD = "recipe: 1\nname: a\nmodel: mlp\ntask: classification\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            GOOD.replace("{type: sgd, lr: 0.1}", "{type: fb_sgd, compressor: {type: bigk, rato: 0.05}}"),
            "recipes/a.yaml:6:52: optimizer.compressor.rato: unknown argument of compressors/bigk\n"
            "    did you mean `ratio`?  (0 < ratio <= 1: share of entries kept; default 0.01)",
        ),
        (
            GOOD.replace("data: digits", "data: {type: table, path: d.csv, columns: [a, b, 7]}"),
            "recipes/a.yaml:3:50: data.columns.2: must be text, not 7\n"
            "    columns: names of the columns to read (default null)",
        ),
        (
            GOOD.replace("0.1}", "0.1, schedule: {type: cosin}}"),
            "recipes/a.yaml:6:50: optimizer.schedule.type: no schedules/cosin\n    did you mean `cosine`?",
        ),
        (
            GOOD.replace("{type: mlp, hidden: [8]}", "{type: sgd}"),
            "recipes/a.yaml:4:15: model.type: no models/sgd: `sgd` is one of optimizers\n"
            "    known: char_transformer, linear, mlp, ",
        ),
        (
            GOOD + "train:\n  momentum: 0.9\n",
            "recipes/a.yaml:8:3: train.momentum: unknown key of train\n    did you mean `optimizer.momentum`?",
        ),
        (
            GOOD.replace("{type: sgd, lr: 0.1}", "{type: fb_sgd}"),
            "recipes/a.yaml:6:1: optimizer: missing `compressor`, which optimizers/fb_sgd needs\n"
            "    compressor: what each worker sends",
        ),
        (GOOD + "lr: 1\n", "recipes/a.yaml:7:1: lr: unknown section\n    did you mean `optimizer.lr`?"),
        (GOOD + "optimiser: sgd\n", "recipes/a.yaml:7:1: optimiser: unknown section\n    did you mean `optimizer`?"),
        (
            GOOD + "profiles:\n  big: {resources: {gpus_per_worker: -1}}\n",
            "recipes/a.yaml:8:38: profiles.big.resources.gpus_per_worker: must be a number >= 0, not -1\n"
            "    gpus_per_worker: GPUs per worker, fractions allowed (gpus_per_worker >= 0; default 0)",
        ),
        (
            GOOD.replace("digits", "{type: table, path: nowhere.csv}"),
            "recipes/a.yaml:3:27: data.path: no such file: `nowhere.csv` in",
        ),
        (GOOD.replace("name: a", "name: A b"), "recipes/a.yaml:2:7: name: must be 1 to 64 of a-z 0-9 _ . -"),
        (GOOD.replace("name: a", "name: a."), "recipes/a.yaml:2:7: name: must be 1 to 64 of a-z 0-9 _ . -"),
        (GOOD.replace("name: a\n", ""), "recipes/a.yaml:1:1: missing `name`, which every recipe needs"),
        (GOOD.replace("recipe: 1", "recipe: 2"), "recipes/a.yaml:1:9: recipe: must be `1`, not 2"),
        (GOOD + "seed: 4294967296\n", "recipes/a.yaml:7:7: seed: must be an integer >= 0 and <= 4294967295, not"),
        (GOOD + "track: [tensorbord]\n", "recipes/a.yaml:7:9: track.0: must be `tensorboard` or `mlflow` or `wandb`"),
        (
            GOOD + "paper: {titel: x}\n",
            "recipes/a.yaml:7:9: paper.titel: unknown key of paper\n    did you mean `title`?",
        ),
        (GOOD + "measures: confusion_matrix\n", "recipes/a.yaml:7:11: measures: must be a list, not the text"),
        (GOOD + "resources: {num_workers: true}\n", "recipes/a.yaml:7:26: resources.num_workers: must be an integer"),
        (GOOD + "resources: {memory_per_worker: 8GiB}\n", 'resources.memory_per_worker: must be a size such as "8GB"'),
    ],
)
def test_each_mistake_has_its_text_and_place(text: str, wanted: str, write: Any, schema: Any, tmp_path: Path) -> None:
    (tmp_path / "recipes" / "d.csv").touch()
    found = told(write(text), schema)
    assert len(found) == 1, found
    assert wanted in found[0]


def test_an_override_is_its_own_place(write: Any, schema: Any) -> None:
    (found,) = told(write(GOOD), schema, ["train.accumulate=many"])
    assert found.splitlines()[0] == (
        "override `train.accumulate=many`: train.accumulate: "
        "must be an integer >= 1 and <= 1000000000, not the text `many`"
    )


def test_all_mistakes_are_shown_at_once_in_order_and_counted(write: Any, schema: Any) -> None:
    path = write(GOOD.replace("lr: 0.1", "lr: -1, x: 1").replace("[8]", "[0]") + "foo: 1\n")
    lines = explain(problems(path, schema)).splitlines()
    assert [line.split(": ")[0] for line in lines if line.startswith("recipes/")] == [
        "recipes/a.yaml:4:29",
        "recipes/a.yaml:6:28",
        "recipes/a.yaml:6:32",
        "recipes/a.yaml:7:1",
    ]
    assert lines[-1] == "4 mistakes"


def test_a_fault_of_the_recipe_is_not_repeated_for_each_profile(write: Any, schema: Any) -> None:
    path = write(GOOD.replace("lr: 0.1", "lr: -1") + "profiles: {one: {seed: 1}, two: {seed: -1}}\n")
    assert [problem.path for problem in problems(path, schema)] == ["optimizer.lr", "profiles.two.seed"]


def test_a_wrong_type_silences_what_would_follow_from_it(write: Any, schema: Any) -> None:
    text = GOOD.replace("task: classification", "task: clasification") + (
        'expect: {test/accuracy: ">= 0.9", val/foo: "> 1"}\n'
        "sweep: {space: {task.label_smoothing: [0, 0.1]}, metric: val/loss, mode: min, trials: 2}\n"
    )
    assert [problem.path for problem in problems(write(text), schema)] == ["task"]


def test_a_misspelt_section_silences_what_it_seems_to_leave_out(write: Any, schema: Any) -> None:
    found = problems(write(GOOD.replace("optimizer:", "optimiser:")), schema)
    assert [problem.path for problem in found] == ["optimiser"]


def test_problems_for_tools_have_fixed_words(write: Any, schema: Any) -> None:
    (found,) = problems(write(GOOD.replace("lr: 0.1", "lr: -1")), schema)
    told = json.loads(json.dumps(as_json(found)))
    assert set(told) == {"file", "line", "column", "path", "code", "message", "hint", "value", "allowed"}
    assert (told["file"], told["line"], told["column"]) == ("recipes/a.yaml", 6, 28)
    assert (told["path"], told["code"], told["value"]) == ("optimizer.lr", "out-of-range", -1)
    assert told["code"] in CODES


def test_a_file_that_is_not_there_is_one_problem(schema: Any, tmp_path: Path) -> None:
    (found,) = check_file(str(tmp_path / "no.yaml"), schema)
    assert found.code == "file"


def test_every_recipe_of_the_project_is_valid_with_every_profile() -> None:
    schema = catalogue.load()
    files = sorted((TOP / "recipes").rglob("*.yaml"))
    assert files
    assert [str(problem) for file in files for problem in check_file(str(file), schema)] == []


# ---------------------------------------------------------------------------------------------- any text

BUSY = (
    (TOP / "recipes" / "quickstart.yaml").read_text(encoding="utf-8")
    + """
sweep:
  space:
    optimizer.lr: {loguniform: [1e-3, 1.0]}
    optimizer.schedule: {choice: [cosine, {type: linear, floor: {uniform: [0, 0.5]}}]}
    train.batch_size: [32, 64]
  metric: val/loss
  mode: min
  trials: 4
  scheduler: {type: asha, grace_period: 2}
start: {run: abc, checkpoint: 3}
track: {wandb: {project: x}}
"""
)
LINES = BUSY.splitlines()
SNIPPETS = sorted(
    {word for line in LINES for word in line.replace(",", " ").split()}
    | {"null", "[]", "{}", "-1", "1e9", "${seed}", "~"}
)


def mutated(data: st.DataObject) -> str:
    """The busy recipe with words replaced, lines dropped, doubled or indented differently."""
    lines = list(LINES)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        words = lines[at].split(" ")
        word = data.draw(st.integers(0, len(words) - 1))
        snippet = data.draw(st.sampled_from(SNIPPETS))
        words[word : word + 1] = data.draw(st.sampled_from([[snippet], [], [words[word], snippet], [words[word][1:]]]))
        changed = " ".join(words)
        lines[at : at + 1] = data.draw(st.sampled_from([[changed], [changed, lines[at]], [], ["  " + changed]]))
    return "\n".join(lines)


def test_whatever_the_text_says_there_is_a_recipe_or_located_problems(tmp_path: Path) -> None:
    whole = catalogue.load()
    file = tmp_path / "r.yaml"

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def judged(data: st.DataObject) -> None:
        file.write_text(mutated(data))
        for problem in check_file(str(file), whole):
            assert problem.code in CODES
            assert problem.at.source and problem.message

    judged()


# ---------------------------------------------------------------------------------------------- cost

FORBIDDEN = ("torch", "ray", "numpy", "omegaconf", "pathlib", "dataclasses", "inspect", "importlib.metadata", "rich")


@pytest.mark.parametrize("words", [["check", "R"], ["list"], ["show", "optimizers/sgd"], ["--help"]])
def test_commands_that_only_read_import_nothing_heavy(words: list[str]) -> None:
    words = [str(TOP / "recipes" / "quickstart.yaml") if word == "R" else word for word in words]
    # The editable install's own finder imports pathlib and more at start, so only what the command adds counts.
    code = f"""
import sys
before = set(sys.modules)
from raycipe.launchers.cli import raycipe
try:
    raycipe({words!r})
except SystemExit:
    pass
print("\\n".join(set(sys.modules) - before), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    added = set(done.stderr.splitlines())
    assert added & set(FORBIDDEN) == set()


PAIR = '''
@register
class Pair(Schedule):
    """Two ways to say one thing."""

    at_most_one = (("few", "many"),)

    def __init__(self, few: float | None = None, many: float | list[float] | None = None) -> None:
        pass

    def factor(self, step: int, total_steps: int) -> float:
        return 1.0
'''


def test_an_upper_layer_chooses_between_excluding_keys(tmp_path: Path, lab: Lab) -> None:
    lab({"schedules/pair": PAIR})
    schema = catalogue.load()
    (tmp_path / "base.yaml").write_text(
        GOOD.replace("lr: 0.1", "schedule: {type: pair, few: 1}") + "train: {epochs: 2}\n"
    )
    file = tmp_path / "a.yaml"
    file.write_text(
        "recipe: 1\nname: b\nextends: base.yaml\noptimizer: {schedule: {many: 2}}\n"
        "profiles:\n  up: {train: {steps: 7}, optimizer: {schedule: {few: 3}}}\n"
    )

    def length(*overrides: str, profiles: tuple[str, ...] = ()) -> tuple[dict[str, Any], dict[str, Any]]:
        values = check(load(str(file), list(overrides), list(profiles)), schema).plain
        train = {key: values["train"][key] for key in ("epochs", "steps") if key in values["train"]}
        schedule = values["optimizer"]["schedule"]
        return train, {key: schedule[key] for key in ("few", "many") if key in schedule}

    assert length() == ({"epochs": 2}, {"many": 2})
    assert length(profiles=("up",)) == ({"steps": 7}, {"few": 3})
    assert length("train.epochs=1", "optimizer.schedule.many=[4]", profiles=("up",)) == ({"epochs": 1}, {"many": [4]})
    assert length("optimizer.schedule.few=5", "train={steps: 5}") == ({"steps": 5}, {"few": 5})
    assert length("train.steps=5", "train.epochs=null") == ({"steps": 5}, {"many": 2})
    for words in (["train.steps=5", "train.epochs=1"], ["optimizer.schedule.few=5", "optimizer.schedule.many=5"]):
        told = []
        for order in (words, words[::-1]):
            with pytest.raises(RecipeError, match="excludes") as caught:
                length(*order)
            told.append(str(caught.value))
        assert told[0] == told[1]


def test_overrides_by_index_make_a_list_that_no_layer_has(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(GOOD)
    words = ["measures.1.type=confusion_matrix", "measures.0=calibration_error", "measures.0.bins=5"]
    for order in (words, words[::-1]):
        measures = check(load(str(file), order)).plain["measures"]
        assert [measure["type"] for measure in measures] == ["calibration_error", "confusion_matrix"]
        assert measures[0]["bins"] == 5
    for words in (["measures.1=calibration_error"], ["measures.0=calibration_error", "measures.x=1"]):
        with pytest.raises(RecipeError) as caught:
            check(load(str(file), words))
        wrong = words[-1].partition("=")[0]
        assert str(caught.value) == (
            f"override `{words[-1]}`: {wrong}: "
            "measures is not written here: its entries are named by their numbers, and 0 makes the first\n"
            "    write measures.0=... first, or all of it: measures=[...]"
        )
    with pytest.raises(RecipeError, match="data.0: unknown argument of data/digits"):
        check(load(str(file), ["data.0=digits"]))


@pytest.mark.parametrize(
    ("section", "meant"), [("rl", "agent"), ("loss", "task"), ("network", "model"), ("metrics", "measures")]
)
def test_a_section_by_another_name_is_understood(tmp_path: Path, section: str, meant: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(GOOD + f"{section}: x\n")
    with pytest.raises(RecipeError, match=f"{section}: unknown section\n    did you mean `{meant}`"):
        check(load(str(file)))


def test_files_that_look_like_components_are_named_where_a_type_is_missing(tmp_path: Path, lab: Lab) -> None:
    loud = 'print("loud")\n\n' + PAIR.replace("Pair", "Loud")
    folder = lab({"models/my-model": "", "models/class": "", "others/mine": PAIR, "schedules/loud": loud}, add=False)
    (folder / "models" / "dir.py").mkdir()
    lab({})
    schema = catalogue.load()
    told = {
        "my_model": "lab/models/my-model.py is no component: a type is lower-case words with _, no Python keyword",
        "my-model": "lab/models/my-model.py is no component: a type is lower-case words with _, no Python keyword",
        "class": "lab/models/class.py is no component: a type is lower-case words with _, no Python keyword",
        "mine": "lab/others/mine.py is no component: it lies in no folder named as a kind",
        "dir": "lab/models/dir.py is no component: it is no file",
    }
    for type_, hint in told.items():
        file = tmp_path / "a.yaml"
        file.write_text(GOOD.replace("{type: mlp, hidden: [8]}", type_))
        (problem,) = check_file(str(file), schema)
        assert (problem.message, problem.hint) == (f"no models/{type_}", hint)


def test_a_component_that_exits_or_prints_disturbs_no_check(
    tmp_path: Path, lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    loud = 'print("loud")\n\n' + PAIR.replace("Pair", "Loud")
    lab({"models/quits": "import sys\nsys.exit(7)\n", "models/empty": "", "schedules/loud": loud})
    schema = catalogue.load()
    assert "loud" not in capsys.readouterr().out
    for type_, message in (
        ("quits", "ends Python when it is imported; it calls sys.exit(7): leave out what a script does"),
        ("empty", "registers no component; put @register above its class"),
    ):
        file = tmp_path / "a.yaml"
        file.write_text(GOOD.replace("{type: mlp, hidden: [8]}", type_))
        (problem,) = check_file(str(file), schema)
        assert (problem.code, problem.message) == ("plugin", f"models/{type_} can't be imported: {message}")
