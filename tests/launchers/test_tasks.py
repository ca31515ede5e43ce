"""The tasks launcher in this process: estimators, editors, measures of checkpoints, predictions, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from raycipe.framework.runs import Run
from raycipe.launchers import cli

ESTIMATOR = """
data: breast_cancer
estimator: {type: sklearn, name: LogisticRegression, arguments: {C: 0.1}, preprocessing: [standard_scaler], folds: 3}
"""
TRAINED = """
data: digits
model: {type: mlp, hidden: [16]}
task: classification
optimizer: {type: adam, lr: 0.01}
train: {epochs: 2}
resources: {num_workers: 0}
"""


def final(run: Run | None) -> dict[str, Any]:
    assert run is not None
    found: dict[str, Any] = run.read("result.json")["final"]
    return found


def test_an_estimator_is_fitted_scored_cross_validated_and_measured(launch: Any) -> None:
    text = ESTIMATOR + "measures: [calibration_error, weight_norms]\nexpect: {test/accuracy: '>= 0.9'}\n"
    code, run, _ = launch(text)
    found = final(run)
    assert code == 0 and found["test/accuracy"] >= 0.9 and 0 < found["measure/calibration_error/ece"] < 0.3
    folds = csv.read_csv(run.artifacts / "estimator-folds.csv").to_pylist()
    assert [row["fold"] for row in folds] == [0, 1, 2]
    accuracies = [row["accuracy"] for row in folds]
    assert found["estimator/cv_accuracy"] == pytest.approx(np.mean(accuracies))
    assert found["estimator/cv_accuracy_sd"] == pytest.approx(np.std(accuracies, ddof=1))
    assert [entry["component"] for entry in run.read("result.json")["skipped"]] == ["measures/weight_norms"]
    assert next(run.rows())["test/accuracy"] == found["test/accuracy"]


def test_cross_validation_agrees_with_scikit_learns_own(launch: Any) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from raycipe.framework.registry import make
    from raycipe.framework.tables import table

    _, run, _ = launch(ESTIMATOR)
    train = table(make("data/breast_cancer").load(0)["train"])
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, random_state=0))
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    wanted = cross_val_score(model, train["X"], train["y"], cv=folds, scoring="accuracy")
    assert final(run)["estimator/cv_accuracy"] == pytest.approx(wanted.mean(), abs=1e-12)


def test_folds_that_have_ended_are_not_fitted_again(launch: Any, tmp_path: Path) -> None:
    _, run, _ = launch(ESTIMATOR)
    before = final(run)
    unit = run.path / "units" / "fold-0001.json"
    scores = json.loads(unit.read_text())
    unit.write_text(json.dumps({**scores, "accuracy": 0.0}))
    result = run.read("result.json")
    run.write("result.json", {**result, "status": "interrupted"})
    assert cli.launch(["--resume", str(run), "--storage", str(tmp_path / "runs")]) == 0
    after = final(run)
    assert after["estimator/cv_accuracy"] == pytest.approx(before["estimator/cv_accuracy"] - scores["accuracy"] / 3)
    assert after["test/accuracy"] == before["test/accuracy"]


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        ("{type: sklearn, name: LogisticRegresion}", "did you mean `LogisticRegression`?"),
        ("{type: sklearn, name: Ridge}", "Ridge predicts numbers, and the data's target has 2 classes"),
        (
            "{type: sklearn, name: SVC, arguments: {c: 1}}",
            "estimator.arguments: SVC has no `c`; known: C,",
        ),
        (
            "{type: sklearn, name: SVC, arguments: {gama: 1}}",
            "estimator.arguments: SVC has no `gama`; did you mean `gamma`?",
        ),
        (
            "{type: sklearn, name: SVC, arguments: {C: -1}}",
            "The 'C' parameter of SVC must be a float in the range (0.0, inf]. Got -1 instead.",
        ),
        ("{type: sklearn, name: SVC, arguments: {random_state: 1}}", "`random_state` is set by Raycipe"),
        ("{type: sklearn, name: SVC, folds: 1}", "estimator.folds: must be 0, or 2 and more"),
        ("{type: sklearn, name: os.system}", "estimator.name: must be one of LogisticRegression, RidgeClassifier,"),
        ("{type: sklearn, name: SVC, preprocessing: [{name: pca, arguments: {n: 2}}]}", "entry 0: PCA has no `n`"),
    ],
)
def test_a_wrong_estimator_is_refused_before_anything_runs(launch: Any, estimator: str, words: str) -> None:
    code, run, output = launch(f"data: breast_cancer\nestimator: {estimator}\n")
    assert code == 2 and run is None and words in output, output
    assert "thing.yaml:4:" in output and "Traceback" not in output


def test_a_classifier_on_measured_targets_is_refused(launch: Any) -> None:
    text = "data: synthetic_regression\nestimator: {type: sklearn, name: HistGradientBoostingClassifier}\n"
    code, run, output = launch(text)
    assert code == 2 and run is None
    assert "HistGradientBoostingClassifier predicts classes, and the data's target is a number" in output


def test_missing_values_are_refused_by_name_where_the_estimator_knows_none(launch: Any, lab: Any) -> None:
    lab({"data/holes": HOLES})
    code, _, output = launch("data: holes\nestimator: {type: sklearn, name: GaussianNB}\n")
    assert code == 2
    assert "GaussianNB refuses missing values: 1 in `train`, the first in feature `width` of row 3" in output
    for estimator in (
        "{type: sklearn, name: GaussianNB, preprocessing: [simple_imputer]}",
        "{type: sklearn, name: HistGradientBoostingClassifier}",
    ):
        assert launch(f"data: holes\nestimator: {estimator}\n")[0] == 0


def test_an_empty_split_is_refused(launch: Any, lab: Any) -> None:
    lab({"data/hollow": HOLES.replace("class Holes", "class Hollow").replace("[:10]", "[:0]")})
    code, _, output = launch("data: hollow\nestimator: {type: sklearn, name: GaussianNB}\n")
    assert code == 2 and "the `test` split is empty" in output


HOLES = """
from raycipe.framework.contracts import Data, TensorSplit


@register
class Holes(Data):
    def load(self, seed):
        x = torch.arange(80.0).reshape(40, 2)
        y = (torch.arange(40) % 2).long()
        test = TensorSplit({"x": x[:10], "y": y[:10]})
        holed = x.clone()
        holed[3, 1] = float("nan")
        self.facts = {"input_shape": [2], "num_features": 2, "num_outputs": 2, "num_classes": 2,
                      "feature_names": ["length", "width"], "class_names": ["a", "b"]}
        return {"train": TensorSplit({"x": holed, "y": y}), "test": test}
"""


# ---------------------------------------------------------------------------------------------- editors, measures


def test_an_editor_runs_after_training_and_measures_see_what_it_made(launch: Any) -> None:
    text = TRAINED + "editor: {type: prune, share: 0.9}\nmeasures: [weight_norms]\n"
    code, run, _ = launch(text)
    found = final(run)
    assert code == 0
    assert found["edit/before/test/accuracy"] == pytest.approx(found["test/accuracy"], abs=1e-6)
    assert found["edit/after/test/accuracy"] < found["test/accuracy"]
    plain = final(launch(TRAINED + "measures: [weight_norms]\n", name="plain")[1])
    assert plain["test/accuracy"] == found["test/accuracy"]
    assert found["measure/weight_norms/norm"] < plain["measure/weight_norms/norm"]


def test_an_edited_model_can_be_started_from(launch: Any) -> None:
    first = final(launch(TRAINED + "editor: {type: prune, share: 0.5}\n", name="first")[1])
    text = "start: {run: first, checkpoint: edited}\neditor: {type: prune, share: 0.6}\n"
    code, run, _ = launch(text, name="second")
    second = final(run)
    assert code == 0
    assert second["edit/before/test/loss"] == pytest.approx(first["edit/after/test/loss"], rel=1e-6)
    assert second["edit/pruned"] > first["edit/pruned"]
    code, _, output = launch("start: {run: second, checkpoint: best}\neditor: prune\n", name="third")
    assert code == 1 and "has no checkpoint to start from" in output


def test_what_is_taken_from_a_run_has_that_runs_seed(launch: Any) -> None:
    """Else other examples would be held out, and the initial weights would be others."""
    text = TRAINED.replace("data: digits", "data: {type: synthetic_classification, classes: 3}")
    first = final(launch(text + "seed: 3\nmeasures: [weight_norms]\n", name="first")[1])
    second = final(launch("start: first\nmeasures: [weight_norms]\n", name="second")[1])
    third = final(launch("start: first\nseed: 7\neditor: prune\n", name="third")[1])
    assert second["measure/weight_norms/distance"] == pytest.approx(first["measure/weight_norms/distance"], rel=1e-6)
    assert third["edit/before/test/loss"] == pytest.approx(first["test/loss"], rel=1e-6)


def test_an_editor_of_ones_own_is_used_like_any_other(launch: Any, lab: Any) -> None:
    lab({"editors/halve": HALVE})
    code, run, _ = launch(TRAINED + "editor: halve\n")
    assert code == 0 and final(run)["edit/factor"] == 0.5
    assert (run.artifacts / "edit-why.txt").read_text() == "half of it"


HALVE = """
import copy
from raycipe.framework.contracts import Editor


@register
class Halve(Editor):
    def edit(self, trained):
        edited = copy.deepcopy(trained.model)
        with torch.no_grad():
            for parameter in edited.parameters():
                parameter.mul_(0.5)
        return edited, Measured(values={"factor": 0.5}, text={"why": "half of it"})
"""


def test_measures_alone_see_every_checkpoint(launch: Any, tmp_path: Path) -> None:
    first = launch(TRAINED + "measures: [weight_norms]\n", name="first")[1]
    code, run, output = launch("start: {run: first, checkpoint: all}\nmeasures: [weight_norms]\n", name="second")
    assert "measured 2 checkpoints; the results are those of the last one, step 38" in output
    rows = list(run.rows())
    assert code == 0 and [row["step"] for row in rows] == [19, 38]
    assert rows[0]["measure/weight_norms/norm"] != rows[1]["measure/weight_norms/norm"]
    assert final(run)["measure/weight_norms/norm"] == final(first)["measure/weight_norms/norm"]
    units = ["data.json", "step-00000019.json", "step-00000038.json"]
    assert sorted(path.name for path in (run.path / "units").iterdir()) == units


def test_measures_of_a_model_that_nobody_trained(launch: Any) -> None:
    code, run, _ = launch("data: digits\nmodel: {type: mlp, hidden: [16]}\nmeasures: [parameter_count, weight_norms]\n")
    assert code == 0 and final(run)["measure/weight_norms/distance"] == 0.0


def test_measures_of_data_alone_need_no_model(launch: Any) -> None:
    z = "{type: box, fp: 0.1, fn: 0.3}"
    code, run, _ = launch(f"data: breast_cancer\nmeasures: [{{type: boostability, z: {z}}}, weight_norms]\n")
    assert code == 0 and final(run)["measure/boostability/gamma"] == pytest.approx(0.253590, abs=1e-6)
    assert run.read("result.json")["skipped"] == [
        {"component": "measures/weight_norms", "why": "it needs `model`, which this run does not have"}
    ]


def test_a_trivial_promise_is_refused_in_words(launch: Any) -> None:
    text = "data: breast_cancer\nestimator: {type: zboost, z: {type: box, fp: 0.3, fn: 0.3}}\n"
    code, _, told = launch(text)
    assert code == 1 and "z is trivial: a coin keeps this promise" in told and "Traceback" not in told


def test_all_checkpoints_are_for_measures_alone(launch: Any) -> None:
    code, run, output = launch("start: {run: first, checkpoint: all}\neditor: prune\n")
    assert code == 2 and run is None
    assert "start.checkpoint: `all` is for measures alone, and there is `editor`" in output


def test_start_names_no_run(launch: Any) -> None:
    code, run, output = launch("start: nowhere\nmeasures: [weight_norms]\n")
    assert code == 2 and run is None and "thing.yaml:3:8: start: nowhere: no such run" in output


# ---------------------------------------------------------------------------------------------- predictions


@pytest.fixture
def flowers(tmp_path: Path) -> pa.Table:
    generator = np.random.default_rng(0)
    species = np.arange(120) % 3
    table = pa.table(
        {
            "number": np.arange(120),
            "length": generator.normal(size=120) + 4 * species,
            "color": np.array(["red", "blue"])[np.arange(120) % 2],
            "species": np.array(["iris", "rose", "tulip"])[species],
        }
    )
    csv.write_csv(table, tmp_path / "flowers.csv")
    parquet.write_table(table.drop(["species"]), tmp_path / "new.parquet")
    return table


DATA = "data: {type: csv, path: flowers.csv, target: species, one_hot: true, drop: [number]}\n"
MODEL = "model: linear\ntask: classification\noptimizer: {type: adam, lr: 0.05}\nresources: {num_workers: 0}\n"
FOREST = "estimator: {type: sklearn, name: RandomForestClassifier, arguments: {n_estimators: 20}}\n"


@pytest.mark.parametrize("how", [MODEL + "train: {epochs: 30}\n", FOREST], ids=["model", "estimator"])
def test_rows_of_a_file_are_predicted_in_their_order(launch: Any, flowers: pa.Table, tmp_path: Path, how: str) -> None:
    text = DATA + how + "predict: {path: new.parquet, batch_size: 7, columns: [number]}\n"
    code, run, output = launch(text)
    assert code == 0, output
    found = parquet.read_table(run.artifacts / "predictions.parquet")
    assert found.column_names == [
        "number",
        "prediction",
        *(f"probability_{name}" for name in ("iris", "rose", "tulip")),
    ]
    assert found.column("number").to_pylist() == list(range(120))
    right = np.array(found.column("prediction").to_pylist()) == np.array(flowers.column("species").to_pylist())
    assert right.mean() > 0.8
    text = "start: thing\npredict: {path: new.parquet, output: again.csv, columns: [number]}\n"
    code, run, output = launch(text, name="again")
    assert code == 0, output
    again = csv.read_csv(run.artifacts / "again.csv")
    assert again.column("prediction").to_pylist() == found.column("prediction").to_pylist()
    np.testing.assert_allclose(again.column("probability_iris"), found.column("probability_iris"), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (DATA + FOREST + "predict: {path: other.parquet}\n", "has no column `length`"),
        (DATA + FOREST + "predict: {path: new.parquet, columns: [nummer]}\n", "did you mean `number`?"),
        (DATA + FOREST + "predict: {path: nothing.parquet}\n", "predict.path: "),
        (
            DATA + FOREST + "predict: {path: new.parquet, output: ../x.csv}\n",
            "must be a file name such as rows.parquet",
        ),
        (
            "data: digits\n" + FOREST + "predict: {path: new.parquet}\n",
            "data/digits makes no features of a table's rows",
        ),
        (DATA + "predict: {path: new.parquet}\n", "predict: needs `task` or `estimator` or `start`"),
    ],
)
def test_a_prediction_that_can_not_be_is_refused_before_training(
    launch: Any, flowers: pa.Table, tmp_path: Path, text: str, words: str
) -> None:
    parquet.write_table(pa.table({"width": [1.0]}), tmp_path / "other.parquet")
    code, run, output = launch(text)
    assert code == 2 and run is None and words in output, output


def test_a_word_that_training_had_not_is_told(launch: Any, flowers: pa.Table, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"length": [1.0], "color": ["green"]}), tmp_path / "new.parquet")
    code, _, output = launch(DATA + FOREST + "predict: {path: new.parquet}\n")
    assert code == 1 and "column `color` holds `green`, which no row of the training data had" in output


# ---------------------------------------------------------------------------------------------- on Ray


@pytest.mark.ray
def test_ray_gives_the_same_folds(launch: Any, ray_session: Any) -> None:
    here, there = (final(launch(ESTIMATOR, f"resources.num_workers={n}", name=f"with{n}")[1]) for n in (0, 2))
    assert here == there and "estimator/cv_accuracy" in here


@pytest.mark.slow
@pytest.mark.ray
def test_ray_gives_the_same_rows_of_every_checkpoint(launch: Any, ray_session: Any) -> None:
    launch(TRAINED, name="first")
    text = "start: {run: first, checkpoint: all}\nmeasures: [weight_norms]\n"
    here = list(launch(text, "resources.num_workers=0", name="here")[1].rows())
    there = list(launch(text, "resources.num_workers=2", name="there")[1].rows())
    assert [{**row, "seconds": 0} for row in here] == [{**row, "seconds": 0} for row in there] and len(here) == 2


@pytest.mark.slow
@pytest.mark.ray
def test_ray_data_gives_the_same_predictions(launch: Any, flowers: pa.Table, ray_session: Any) -> None:
    text = DATA + FOREST + "predict: {path: new.parquet, batch_size: 16}\n"
    found = []
    for workers in (0, 2):
        code, run, output = launch(text, f"resources.num_workers={workers}", name=f"with{workers}")
        assert code == 0, output
        found.append(parquet.read_table(run.artifacts / "predictions.parquet"))
    assert found[0].equals(found[1])


@pytest.mark.slow
@pytest.mark.ray
def test_the_trials_of_a_sweep_over_an_estimator(launch: Any, tmp_path: Path, ray_session: Any) -> None:
    sweep = (
        "sweep: {space: {estimator.arguments.C: [0.001, 1.0]}, metric: val/loss, mode: min, trials: 2, search: grid}\n"
    )
    code, run, output = launch(ESTIMATOR + sweep, "--sweep")
    assert code == 0, output
    losses = [Run(path).read("result.json")["final"]["val/loss"] for path in sorted((run.path / "trials").iterdir())]
    assert len(losses) == 2 and final(run)["val/loss"] == min(losses) < max(losses)
