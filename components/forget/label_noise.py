"""The examples whose labels were made wrong."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from raycipe.components.forget._examples import FORGET, chosen, labels
from raycipe.framework.contracts import Forget, Split, TensorSplit
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register


@register
class LabelNoise(Forget):
    """The training examples whose label was exchanged for a wrong one by the data (`data: {type: noisy_labels}`).

    F = {i: y_i != clean_y_i}; the data keep the true classes as `clean_y`, so that request and noise can't disagree.

    Recipe:
        data: {type: noisy_labels, data: digits, fraction: 0.1}
        model: {type: mlp, hidden: [16], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: fine_tune, steps: 20, forget: label_noise}
    """

    def select(self, splits: Mapping[str, Split], seed: int) -> Tensor:
        train = splits["train"]
        y = labels(train)
        if not isinstance(train, TensorSplit) or "clean_y" not in train.tensors:
            hint = "data: {type: noisy_labels, data: digits, fraction: 0.1}"
            raise RunError("data", "the data do not tell which labels are wrong: they have no `clean_y`", hint, FORGET)
        return chosen(splits, (y != train.tensors["clean_y"]).nonzero().flatten(), "mislabelled")
