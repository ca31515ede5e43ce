"""How well a model has forgotten."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from raycipe.components.editors._case import Case, Draws
from raycipe.components.editors._strength import retrained
from raycipe.framework.arguments import Positive, Range
from raycipe.framework.contracts import Forget, Measure, Measured, Skipped, Split, Trained
from raycipe.framework.registry import build, register
from raycipe.framework.training.evaluate import evaluation_mode

LOWEST = -20.0  # log p of the true class is cut off there
SHOWN = ("retain_accuracy", "forget_accuracy", "test_accuracy", "mia")  # what the gap averages over


@register
class Unlearning(Measure):
    """What a model knows of the examples that it was to forget, beside the model before the edit and a retrained one.

    Accuracies on what goes (forget) and stays (retain), on the test split without the examples that the request means
    there (its class), and on those; mia, the share of what goes that an attack takes for examples not trained on: a
    logistic regression on log p(true class), fitted to equally many examples that stay and of the test split; and
    avg_gap, the mean of |edited - retrained| over retain, forget, test and mia. The attack says nothing where mia_auc,
    its cross-validated AUC, is near 0.5. All are shares: 0.01 is a point.

    Args:
        forget: the request; null takes the editor's
        retrain: train the recipe again without what goes, to compare with
        relearn_steps: the most steps of SGD on what goes until its loss is the original's again; 0 does not try
        relearn_lr: learning rate of these steps

    Reference:
        C. Fan, J. Liu, Y. Zhang, E. Wong, D. Wei, S. Liu, SalUn, ICLR 2024 (the averaged gap); A. Golatkar,
        A. Achille, S. Soatto, Eternal Sunshine of the Spotless Net, CVPR 2020 (relearn time).

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        train: {epochs: 1}
        editor: {type: gif, forget: {type: one_class, label: 3}}
        measures: [{type: unlearning, relearn_steps: 20}]
    """

    needs: ClassVar[tuple[str, ...]] = ("model", "task", "splits")
    reports: ClassVar[tuple[str, ...]] = (
        *("retain_accuracy", "forget_accuracy", "test_accuracy", "forget_test_accuracy", "mia", "mia_auc", "score"),
        *("original_retain_accuracy", "original_forget_accuracy", "original_test_accuracy", "original_mia"),
        *("retrain_retain_accuracy", "retrain_forget_accuracy", "retrain_test_accuracy", "retrain_mia"),
        *("original_forget_test_accuracy", "retrain_forget_test_accuracy", "original_mia_auc", "retrain_mia_auc"),
        *("original_score", "retrain_score"),
        *("avg_gap", "original_avg_gap", "kl_to_retrain", "activation_distance", "relearn_steps"),
        *("parameter_distance", "retrain_parameter_distance"),
    )

    def __init__(
        self,
        forget: Forget | None = None,
        retrain: bool = True,
        relearn_steps: Annotated[int, Range(ge=0, le=10**5)] = 200,
        relearn_lr: Positive = 0.01,
    ) -> None:
        self.forget = forget
        self.retrain = retrain
        self.relearn_steps = relearn_steps
        self.relearn_lr = relearn_lr

    def measure(self, trained: Trained) -> Measured:
        if "num_classes" not in trained.facts:
            raise Skipped("the data has no classes")
        if "test" not in trained.splits:
            raise Skipped("the data has no `test` split")
        case = Case.of(trained, self._request(trained))
        values = known(case, case.model)
        rows = [{"model": "edited", **values}]
        if trained.checkpoints:
            _, load = trained.checkpoints[-1]
            self._beside_the_original(case, load().to(case.device), values, rows)
        if self.retrain:
            _beside_the_retrained(case, values, rows)
        return Measured(values, {"models": lambda: draw(rows)}, {"models": rows})

    def _request(self, trained: Trained) -> Forget:
        if self.forget is not None:
            return self.forget
        section = trained.recipe.get("editor")
        if not isinstance(section, Mapping) or "forget" not in section:
            raise Skipped("the recipe has no editor with a request, and the measure was given none (`forget`)")
        request: Forget = build(section["forget"], "forget", "editor.forget", facts=trained.facts)
        return request

    def _beside_the_original(
        self, case: Case, original: nn.Module, values: dict[str, float], rows: list[dict[str, Any]]
    ) -> None:
        before = known(case, original)
        rows.insert(0, {"model": "original", **before})
        values.update({f"original_{name}": value for name, value in before.items()})
        values["parameter_distance"] = distance(case.model, original)
        if self.relearn_steps:
            bound = case.scores(original, case.goes)["loss"]
            values["relearn_steps"] = float(relearn(case, bound, self.relearn_steps, self.relearn_lr))


def _beside_the_retrained(case: Case, values: dict[str, float], rows: list[dict[str, Any]]) -> None:
    other = retrained(case.trained, case.stays)
    found = known(case, other)
    rows.append({"model": "retrained", **found})
    values.update({f"retrain_{name}": value for name, value in found.items()})
    values["avg_gap"] = gap(values, found)
    if "original_mia" in values:
        values["original_avg_gap"] = gap({name: values[f"original_{name}"] for name in SHOWN}, found)
    values["retrain_parameter_distance"] = distance(case.model, other)
    edited, wanted = logits(case, case.model, case.goes)[0], logits(case, other, case.goes)[0]
    values["kl_to_retrain"] = float(
        F.kl_div(edited.log_softmax(1), wanted.log_softmax(1), reduction="batchmean", log_target=True)
    )
    values["activation_distance"] = float((edited.softmax(1) - wanted.softmax(1)).norm(dim=1).mean())


# ---------------------------------------------------------------------------------------------- one model


def known(case: Case, model: nn.Module) -> dict[str, float]:
    """The figures of one model."""
    parts = {"retain": case.stays, "forget": case.goes, "test": case.held_out["test"]}
    if "forget_test" in case.held_out:
        parts["forget_test"] = case.held_out["forget_test"]
    outputs = {name: logits(case, model, split) for name, split in parts.items()}
    found = {
        f"{name}_accuracy": float((scores.argmax(dim=1) == y).double().mean()) for name, (scores, y) in outputs.items()
    }
    sureness = {name: confidence(*outputs[name]) for name in ("retain", "forget", "test")}
    found["mia"], found["mia_auc"] = attack(sureness["retain"], sureness["test"], sureness["forget"], case.trained.seed)
    found["score"] = score(found["forget_accuracy"], found["retain_accuracy"])
    return found


def logits(case: Case, model: nn.Module, split: Split) -> tuple[Tensor, Tensor]:
    """(n, classes) float64 and the labels (n,), on the CPU."""
    scores, labels = [], []
    with torch.inference_mode(), evaluation_mode(model):
        for batch in case.batches(split):
            scores.append(model(batch["x"]).double().cpu())
            labels.append(batch["y"].cpu())
    return torch.cat(scores), torch.cat(labels)


def confidence(scores: Tensor, labels: Tensor) -> Tensor:
    """log p(true class), (n,), cut off below."""
    return scores.log_softmax(dim=1).gather(1, labels.unsqueeze(1)).squeeze(1).clamp(min=LOWEST)


def score(forget: float, retain: float) -> float:
    """The harmonic mean of 1 - forget and retain accuracy."""
    return 2 * (1 - forget) * retain / (1 - forget + retain) if 1 - forget + retain else 0.0


def attack(members: Tensor, others: Tensor, asked: Tensor, seed: int) -> tuple[float, float]:
    """The share of `asked` that is taken for not trained on, and the attack's AUC in five folds.

    A logistic regression on one number, fitted to equally many members and others, drawn with `seed`.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import cross_val_predict

    from raycipe.framework.streams import torch_generator

    count = min(len(members), len(others))
    generator = torch_generator(seed, "attack")
    drawn = [each[torch.randperm(len(each), generator=generator)[:count]] for each in (members, others)]
    x = torch.cat(drawn).unsqueeze(1).numpy()
    is_member = torch.cat([torch.ones(count), torch.zeros(count)]).long().numpy()
    model = LogisticRegression()
    folds = min(5, count)
    if folds < 2:
        raise Skipped("too few examples for an attack")
    chances = cross_val_predict(model, x, is_member, cv=folds, method="predict_proba")[:, 1]
    predicted = model.fit(x, is_member).predict(asked.unsqueeze(1).numpy())
    return float((predicted == 0).mean()), float(roc_auc_score(is_member, chances))


def gap(values: Mapping[str, float], wanted: Mapping[str, float]) -> float:
    """The mean absolute difference over retain, forget and test accuracy and the attack's share."""
    return sum(abs(values[name] - wanted[name]) for name in SHOWN) / len(SHOWN)


def distance(model: nn.Module, other: nn.Module) -> float:
    """|w - u| / |u| over all parameters."""
    pairs = [(w.detach(), u.detach()) for w, u in zip(model.parameters(), other.parameters(), strict=True)]
    square = sum(float((w.double() - u.double()).square().sum()) for w, u in pairs)
    norm = sum(float(u.double().square().sum()) for _, u in pairs)
    return (square / norm) ** 0.5 if norm else 0.0


def relearn(case: Case, bound: float, most: int, lr: float) -> int:
    """Steps of SGD on what goes until its loss is no larger than `bound`; `most` if it never is."""
    model = copy.deepcopy(case.model)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=lr, momentum=0.9)
    goes = Draws(case, case.goes, 64, "relearn batches")
    for step in range(most):
        if case.scores(model, case.goes)["loss"] <= bound:
            return step
        optimizer.zero_grad()
        case.task.loss(model, goes.next()).value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return most


def draw(rows: list[dict[str, Any]]) -> Any:
    """A group of bars for each figure, a bar for each model."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 3.2), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(rows)
    colors = {"original": "0.6", "edited": "#f58518", "retrained": "#4c78a8"}
    for place, row in enumerate(rows):
        at = [number + (place - (len(rows) - 1) / 2) * width for number in range(len(SHOWN))]
        axes.bar(at, [row[name] for name in SHOWN], width, label=row["model"], color=colors[row["model"]])
    axes.set_xticks(range(len(SHOWN)), [name.replace("_", " ") for name in SHOWN])
    axes.set(ylim=(0, 1.02))
    axes.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure
