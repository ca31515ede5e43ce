"""Every way of exchanging gradients gives the exact mean over the global batch, and survives a restart bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from raycipe.framework.comm import Comm, LocalComm, SimulatedWorld
from raycipe.framework.contracts import Batch, Loss, Task, TensorSplit
from raycipe.framework.errors import RunError
from raycipe.framework.training import exchange as exchanges
from raycipe.framework.training.exchange import Exchange, Flat, choose
from raycipe.framework.training.feed import Feed, order_of
from raycipe.framework.training.gradients import Gradients
from raycipe.framework.training.precision import Precision
from raycipe.framework.training.rows import Interval

CPU = torch.device("cpu")


class Squares(Task):
    """Squared error, a mean over examples or over tokens (an example's `weight`)."""

    def __init__(self, tokens: bool) -> None:
        self.tokens = tokens

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        each = (model(batch["x"]).squeeze(1) - batch["y"]) ** 2
        if not self.tokens:
            return Loss(each.mean(), each)
        weight = batch["weight"].sum()
        return Loss((each * batch["weight"]).sum() / weight, each, weight)


def gradient(comm: Comm, accumulate: int, tokens: bool, size: int = 10, kind: type[Exchange] = Flat) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(size, 4, generator=generator, dtype=torch.float64)
    split = TensorSplit({"x": x, "y": x.sum(1), "weight": torch.arange(1.0, size + 1, dtype=torch.float64)})
    model = nn.Linear(4, 1).double()
    with torch.no_grad():
        model.weight.fill_(0.5)
        model.bias.zero_()
    order = order_of(split, size, 0, True, True)
    feed = Feed(split, order, comm.rank, comm.world_size, accumulate, CPU)
    exchange = kind(model, comm)
    gradients = Gradients(Squares(tokens), model, exchange, Precision("fp32", CPU), comm, True)
    assert not gradients.compute(feed.next(), 1, Interval(), False)
    exchange.finish()
    return torch.cat([parameter.grad.reshape(-1) for parameter in model.parameters()])


@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize(("world_size", "accumulate"), [(1, 3), (2, 1), (3, 2), (3, 3)])
def test_uneven_shares_and_micro_batches_give_the_mean_of_the_global_batch(
    world_size: int, accumulate: int, tokens: bool
) -> None:
    whole = gradient(LocalComm(), 1, tokens)
    for found in SimulatedWorld(world_size).run(lambda comm: gradient(comm, accumulate, tokens)):
        torch.testing.assert_close(found, whole, rtol=1e-14, atol=1e-14)


def test_a_rank_without_examples_adds_nothing() -> None:
    whole = gradient(LocalComm(), 1, False, size=2)
    for found in SimulatedWorld(3).run(lambda comm: gradient(comm, 1, False, size=2)):
        torch.testing.assert_close(found, whole, rtol=1e-14, atol=1e-14)


def test_flat_and_plain_gradients_of_one_worker_have_the_same_bits() -> None:
    assert torch.equal(gradient(LocalComm(), 1, False, kind=Flat), gradient(LocalComm(), 1, False, kind=Exchange))


def test_clipping_on_the_flat_buffer_limits_the_norm() -> None:
    model = nn.Linear(3, 2)
    flat = Flat(model, LocalComm())
    flat.gradient.copy_(torch.full((8,), 2.0))
    assert float(flat.clip(1.0)) == pytest.approx(2 * 8**0.5)
    assert float(flat.gradient.norm()) == pytest.approx(1.0, abs=1e-5)
    assert model.bias.grad is not None and float(model.bias.grad[0]) == pytest.approx(8**-0.5)


def test_a_replaced_gradient_is_told() -> None:
    model = nn.Linear(3, 2)
    flat = Flat(model, LocalComm())
    flat.check()
    model.bias.grad = torch.zeros(2)
    with pytest.raises(RunError, match="a component replaced a parameter's `.grad`"):
        flat.check()


def test_flags_are_summed_over_ranks_with_the_gradients() -> None:
    def work(comm: Comm) -> tuple[float, float]:
        flat = Flat(nn.Linear(2, 1), comm)
        flat.finish(stop=comm.rank == 1, nonfinite=comm.rank == 2)
        return flat.flags

    assert SimulatedWorld(3).run(work) == [(1.0, 1.0)] * 3


def test_the_exchange_follows_optimizer_request_and_device() -> None:
    def kind(comm: Comm, **changes: Any) -> str:
        given = {"parallel": None, "own": False, "clips": False, "device": CPU, **changes}
        return type(choose(nn.Linear(2, 1), comm, **given)).__name__

    assert kind(LocalComm()) == kind(LocalComm(), parallel="fsdp") == "Exchange"
    assert kind(LocalComm(), clips=True) == "Flat"
    assert SimulatedWorld(2).run(kind) == ["Flat", "Flat"]
    assert kind(LocalComm(), own=True) == "Own"


def weights_of(folder: Path) -> dict[str, Tensor]:
    from raycipe.framework.training.saved import read

    newest = max((folder / "checkpoints").glob("step-*"))
    return read(newest).tensors("model.safetensors")


def stopped_at(step: int) -> Any:
    def stop(session: Any, event: str) -> None:
        session.watch.requested = session.watch.requested or session.step >= step

    return stop


def train_twice(toy: Any, fit: Any, world: Any, tmp_path: Path, world_size: int, **changes: Any) -> tuple[Any, Any]:
    """The final weights of an unbroken run and of one that was stopped on its way and resumed."""
    recipe = toy(model={"type": "net", "dropout": 0.0, "width": 300}, **changes)
    recipe["train"].update(steps=20, log_every=3)
    recipe["train"].pop("epochs", None)
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    for folder in (unbroken, broken):
        (folder / "checkpoints").mkdir(parents=True)
    world(world_size, lambda rank: fit(recipe, unbroken).steps).gather()
    steps = world(world_size, lambda rank: fit(recipe, broken, hooks=[stopped_at(6)]).steps).gather()
    assert len(set(steps)) == 1 and steps[0] < 20
    world(world_size, lambda rank: fit(recipe, broken, True).steps).gather()
    return weights_of(unbroken), weights_of(broken)


def equal(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize("parallel", [None, "ddp"])
def test_three_ranks_restart_bit_for_bit(toy: Any, fit: Any, world: Any, tmp_path: Path, parallel: str | None) -> None:
    assert equal(*train_twice(toy, fit, world, tmp_path, 3, train_parallel=parallel))


def test_ddp_without_its_warm_pass_would_not_restart_bit_for_bit(
    toy: Any, fit: Any, world: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(exchanges, "WARM_PASSES", 0)
    assert not equal(*train_twice(toy, fit, world, tmp_path, 3, train_parallel="ddp"))


def test_ddp_takes_short_last_batches_and_accumulation(toy: Any, fit: Any, world: Any, tmp_path: Path) -> None:
    finals = []
    for parallel in (None, "ddp"):
        recipe = toy(
            data={"type": "blobs", "train": 61},
            model={"type": "net", "dropout": 0.0, "norm": False},
            optimizer={"type": "sgd", "lr": 0.1},
            train_parallel=parallel,
            train_drop_last=False,
            train_accumulate=2,
        )
        folder = tmp_path / str(parallel)
        (folder / "checkpoints").mkdir(parents=True)
        finals.append(world(2, lambda rank, recipe=recipe, folder=folder: fit(recipe, folder).final).gather()[0])
    assert finals[0] == pytest.approx(finals[1], abs=1e-5)


def fsdp_recipe(toy: Any) -> dict[str, Any]:
    recipe = toy(
        model={"type": "net", "dropout": 0.0, "norm": False, "width": 33},
        train_parallel="fsdp",
        train_clip_norm=1.0,
        train_accumulate=2,
    )
    recipe["train"].update(steps=16, log_every=4, checkpoint_every=8)
    recipe["train"].pop("epochs")
    return recipe


@pytest.mark.parametrize(
    ("first", "then"),
    [(2, 2), *(pytest.param(*worlds, marks=pytest.mark.slow) for worlds in [(2, 3), (2, 1), (1, 2)])],
)
def test_fsdp_resumes_bit_for_bit_and_on_other_numbers_of_workers(
    toy: Any, fit: Any, world: Any, tmp_path: Path, first: int, then: int
) -> None:
    recipe = fsdp_recipe(toy)
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    for folder in (unbroken, broken):
        (folder / "checkpoints").mkdir(parents=True)
    world(2, lambda rank: fit(recipe, unbroken).steps).gather()
    world(first, lambda rank: fit(recipe, broken, hooks=[stopped_at(4)]).steps).gather()
    world(then, lambda rank: fit(recipe, broken, True).steps).gather()
    wanted, found = weights_of(unbroken), weights_of(broken)
    assert first != then or equal(wanted, found)
    for name in wanted:
        torch.testing.assert_close(found[name], wanted[name], atol=1e-6, rtol=1e-5)
    pickles = [path for path in unbroken.rglob("*") if path.is_file() and path.read_bytes()[:2] == b"\x80\x02"]
    assert not pickles
    manifest = json.loads(next((unbroken / "checkpoints").glob("step-*16/manifest.json")).read_text())
    assert any(name.startswith("shards/") for name in manifest["files"])


def test_a_middle_checkpoint_in_shards_is_a_model_to_start_from(toy: Any, fit: Any, world: Any, tmp_path: Path) -> None:
    from raycipe.framework.training.loading import pick
    from raycipe.framework.training.plan import TrainPlan
    from raycipe.framework.training.session import train
    from raycipe.framework.training.sharded import read_whole

    recipe, folder, next_folder = fsdp_recipe(toy), tmp_path / "run", tmp_path / "next"
    for each in (folder, next_folder):
        (each / "checkpoints").mkdir(parents=True)
    world(2, lambda rank: fit(recipe, folder).steps).gather()
    last, middle = pick(folder, "last"), pick(folder, 8)
    assert last.has("model.safetensors") and last.has("ema.safetensors") and not middle.has("model.safetensors")
    for averaged, prefix in ((False, "model."), (True, "ema.")):
        whole = last.model(averaged)
        assert equal(whole, read_whole(last, prefix))
        assert middle.model(averaged).keys() == whole.keys() and not equal(middle.model(averaged), whole)
    assert not equal(last.model(), last.model(averaged=True))
    started = {**toy(train_steps=1, model=recipe["model"]), "start": {"run": "run", "checkpoint": 8}}
    first: list[Any] = []

    def look(session: Any, event: str) -> None:
        if event == "start":
            first.append({name: value.clone() for name, value in session.model.state_dict().items()})

    train(TrainPlan(started, str(next_folder), start_dir=str(folder)), hooks=[look])
    assert all(torch.equal(first[0][name], value) for name, value in middle.model().items())
