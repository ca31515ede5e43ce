"""Evaluation counts every example once, with the same bits for every number of workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
import torchmetrics
from torch import Tensor, nn

from raycipe.framework.comm import Comm, LocalComm, SimulatedWorld
from raycipe.framework.contracts import Batch, Loss, Task, TensorSplit
from raycipe.framework.errors import RunError
from raycipe.framework.training.evaluate import agreed_buffers, evaluate
from raycipe.framework.training.state import capture_rng

CPU = torch.device("cpu")


class Scored(Task):
    """Cross-entropy, additive accuracy, and metrics with list states and tensor states."""

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        outputs = model(batch["x"])
        return Loss(nn.functional.cross_entropy(outputs, batch["y"]), outputs)

    def scores(self, outputs: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"accuracy": (outputs.argmax(1) == batch["y"]).sum()}

    def metrics(self) -> dict[str, Any]:
        return {
            "auroc": torchmetrics.AUROC("binary", sync_on_compute=False),
            "ece": torchmetrics.CalibrationError("binary", sync_on_compute=False),
            "accuracy_again": torchmetrics.Accuracy("binary", sync_on_compute=False),
        }

    def update(self, metrics: Mapping[str, Any], outputs: Tensor, batch: Batch) -> None:
        for metric in metrics.values():
            metric.update(outputs.softmax(1)[:, 1], batch["y"])


def data(count: int) -> tuple[TensorSplit, nn.Module]:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(count, 5, generator=generator), torch.randint(2, (count,), generator=generator)
    torch.manual_seed(1)
    return TensorSplit({"x": x, "y": y}), nn.Sequential(nn.Linear(5, 2), nn.Dropout(0.5))


@pytest.mark.parametrize(("count", "batch_size"), [(1003, 64), (120, 64)])
@pytest.mark.parametrize("world_size", [2, 3])
def test_every_number_of_workers_gives_the_same_bits(count: int, batch_size: int, world_size: int) -> None:
    split, model = data(count)  # 120 examples in batches of 64: the third rank has no data

    def work(comm: Comm) -> dict[str, float]:
        return evaluate(model, split, Scored(), comm, batch_size, CPU)

    alone = work(LocalComm())
    for values in SimulatedWorld(world_size).run(work):
        assert repr(values["loss"]) == repr(alone["loss"])
        assert values == pytest.approx(alone, abs=1e-7)
        assert values["accuracy"] == alone["accuracy"] == pytest.approx(alone["accuracy_again"])
    with torch.no_grad():
        outputs = model.eval()(split.tensors["x"])
    assert alone["loss"] == pytest.approx(float(nn.functional.cross_entropy(outputs, split.tensors["y"])), abs=1e-6)
    assert alone["accuracy"] == float((outputs.argmax(1) == split.tensors["y"]).double().mean())


def test_evaluation_leaves_generators_and_modes_alone() -> None:
    split, model = data(50)
    model[0].eval()
    before = capture_rng()["torch"]

    class Drawing(Scored):
        def loss(self, model: nn.Module, batch: Batch) -> Loss:
            torch.rand(3)
            return super().loss(model, batch)

    evaluate(model, split, Drawing(), LocalComm(), 20, CPU)
    assert torch.equal(before, capture_rng()["torch"])
    assert model.training and model[1].training and not model[0].training


def test_token_weights_make_the_mean() -> None:
    class Tokens(Task):
        def loss(self, model: nn.Module, batch: Batch) -> Loss:
            return Loss(batch["y"].float().mean(), None, weight=batch["x"][:, 0].sum())

        def finish(self, values: dict[str, float]) -> dict[str, float]:
            return {**values, "doubled": 2 * values["loss"]}

    split = TensorSplit({"x": torch.tensor([[1.0], [1.0], [6.0]]), "y": torch.tensor([2, 4, 8])})
    values = evaluate(nn.Identity(), split, Tokens(), LocalComm(), 2, CPU)
    assert values == {"loss": (3 * 2 + 8 * 6) / 8, "doubled": 2 * (3 * 2 + 8 * 6) / 8}


def test_float_buffers_are_averaged_inside_only() -> None:
    def work(comm: Comm) -> tuple[float, int, float]:
        model = nn.BatchNorm1d(1)
        model.running_mean.fill_(float(comm.rank))
        model.num_batches_tracked.fill_(7 + comm.rank)
        with agreed_buffers(model, comm):
            inside = float(model.running_mean), int(model.num_batches_tracked)
        return (*inside, float(model.running_mean))

    assert SimulatedWorld(2).run(work) == [(0.5, 7, 0.0), (0.5, 7, 1.0)]


def test_a_metric_that_cannot_be_merged_is_named() -> None:
    class Whole(torchmetrics.MeanMetric):
        full_state_update = True

    class Unmergeable(Scored):
        def metrics(self) -> dict[str, Any]:
            return {"whole": Whole(sync_on_compute=False)}

        def update(self, metrics: Mapping[str, Any], outputs: Tensor, batch: Batch) -> None:
            metrics["whole"].update(1.0)

    split, model = data(100)
    with pytest.raises(RunError, match="metric `whole` can't be merged over workers"):
        SimulatedWorld(2).run(lambda comm: evaluate(model, split, Unmergeable(), comm, 10, CPU))
