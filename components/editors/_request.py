"""What a request asks of the weights: the right-hand side v of H x = v, and the objective whose curvature H is."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from raycipe.components.editors._case import Case
from raycipe.components.editors._objective import Objective
from raycipe.framework.contracts import Split, TensorSplit
from raycipe.framework.errors import RunError

Operation = Literal["remove", "reweight", "relabel"]
RightSide = Literal["influence", "newton"]


class Change(NamedTuple):
    """An operation on the examples that go; `weight` is that of reweight, `labels` those of relabel."""

    operation: Operation
    weight: float
    goal: Split  # what the edited model is to be at the minimum of
    relabelled: Split | None  # the examples that go, with their new labels


def change_of(case: Case, operation: Operation, weight: float, labels: dict[int, int] | None) -> Change:
    if operation == "remove":
        return Change(operation, 0.0, case.stays, None)
    if operation == "reweight":
        return Change(operation, weight, case.train, None)
    y = new_labels(case, labels)  # (n,) of the whole training split
    train = case.train
    assert isinstance(train, TensorSplit)  # else there were no labels
    corrected = TensorSplit({**train.tensors, "y": y})
    relabelled = TensorSplit({name: tensor[case.ids] for name, tensor in corrected.tensors.items()})
    return Change(operation, 1.0, corrected, relabelled)


def new_labels(case: Case, labels: dict[int, int] | None) -> Tensor:
    """The labels of all training examples after the request: from a file, or the data's `clean_y`."""
    train = case.train
    if not isinstance(train, TensorSplit) or train.tensors["y"].dtype != torch.int64:
        raise RunError("data", "relabel needs classes in memory, and the data has none", where="editor.operation")
    y = train.tensors["y"].clone()
    if labels is None:
        if "clean_y" not in train.tensors:
            hint = "name a file in `labels`, or take data: {type: noisy_labels, ...}, which know the clean ones"
            raise RunError("data", "relabel does not know the new labels", hint, "editor.labels")
        y[case.ids] = train.tensors["clean_y"][case.ids]
        return y
    classes = int(case.trained.facts.get("num_classes", 0))
    for number in case.ids.tolist():
        if number not in labels:
            raise RunError("data", f"no new label for example {number}, which the request names", where="editor.labels")
        if not 0 <= labels[number] < classes:
            message = f"the new label of example {number} is {labels[number]}: classes are 0 to {classes - 1}"
            raise RunError("data", message, where="editor.labels")
        y[number] = labels[number]
    return y


def right_side(case: Case, change: Change, objective: Objective, kind: RightSide) -> Tensor:
    """v, (p,) float64: the step that H x = v proposes goes from the weights w towards the minimum of the new objective.

    g(F), the mean data gradient over what goes; n, n_F, n_R the counts of all, of what goes, of what stays; and d the
    decay's wd · w. At a stationary point of the old objective, influence and newton are the same.

    | operation | influence | newton |
    | remove | (n_F / n_R)(g(F) + d) | -(g(R) + d) |
    | reweight to u | (n_F / n)(1 - u) g(F) | -(g(all) + d) + (n_F / n)(1 - u) g(F) |
    | relabel y -> z | (n_F / n)(g(F, y) - g(F, z)) | -(g(corrected) + d) |
    """
    if kind == "newton" and change.operation != "reweight":
        return -objective.gradient()
    going = objective.gradient_of(case.goes)
    if change.operation == "remove":
        decay = case.weight_decay * objective.point.double()
        return len(case.goes) / len(case.stays) * (going + decay)
    share = len(case.goes) / len(case.train)
    if change.operation == "reweight":
        v = share * (1 - change.weight) * going
        return v - objective.gradient() if kind == "newton" else v
    assert change.relabelled is not None  # of relabel
    return share * (going - objective.gradient_of(change.relabelled))
