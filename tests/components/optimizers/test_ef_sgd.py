"""EF-SGD: the formulas by hand, and what must hold for any compressor and any number of workers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from raycipe.components.compressors._payload import PayloadMismatch
from raycipe.framework.comm import Comm, LocalComm, SimulatedWorld
from raycipe.framework.contracts import OptimizerRun
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make

TOP1 = {"type": "topk", "k": 1, "value_dtype": "fp32"}
START = [1.0, -2.0, 3.0, -4.0]
COMPRESSORS: list[Any] = [
    {"type": "identity", "dtype": "bf16"},
    {"type": "identity", "dtype": "fp64"},
    {"type": "topk", "ratio": 0.1},
    {"type": "topk", "ratio": 0.1, "value_dtype": "int4", "index_coding": "elias_fano", "scope": "tensor"},
    {"type": "randk", "ratio": 0.1},
    {"type": "randk", "ratio": 0.1, "shared": True, "value_dtype": "fp32"},
    {"type": "qsgd", "levels": 3, "block": 16},
    "signnorm",
    {"type": "powersgd", "rank": 2, "min_numel": 1},
    {"type": "lazy", "inner": "signnorm", "p": 0.5},
    {"type": "compose", "first": {"type": "topk", "ratio": 0.2}, "then": {"type": "qsgd", "block": 8}},
]


class Worker:
    """One rank on f_m(w) = |w - c_m|² / 2 in float64, with a matrix and a vector of weights."""

    def __init__(self, comm: Comm, lr: float = 0.1, total_steps: int = 100, **arguments: Any) -> None:
        self.comm = comm
        generator = torch.Generator().manual_seed(7)
        self.weights = [nn.Parameter(torch.randn(shape, generator=generator).double()) for shape in ((8, 6), (5,))]
        own = torch.Generator().manual_seed(100 + comm.rank)
        self.centers = [torch.randn(w.shape, generator=own).double() * 3 for w in self.weights]
        self.lr = lr
        self.optimizer = make("optimizers/ef_sgd", params=self.weights, lr=lr, **arguments)
        self.optimizer.prepare(OptimizerRun(total_steps, comm.group(), 5, lambda: torch.zeros(())))

    def step(self, count: int = 1, spoil: Callable[[int], bool] = lambda step: False) -> None:
        for number in range(count):
            for weight, center in zip(self.weights, self.centers, strict=True):
                weight.grad = weight.detach() - center
                if spoil(number):
                    weight.grad[0] = float("nan")
            self.optimizer.step()

    def flat(self) -> Tensor:
        return torch.cat([weight.detach().view(-1) for weight in self.weights])

    def error(self) -> Tensor:
        return torch.cat(self.optimizer.buffers["error"])

    def mean(self, values: Tensor) -> Tensor:
        return self.comm.all_reduce(values.clone(), "mean")

    def virtual(self) -> Tensor:
        """w - mean_m e_m, without what a server still owes."""
        owed = torch.zeros_like(self.flat())
        for index, error in enumerate(self.optimizer.wire.server_errors):
            owed += self.optimizer.wire.shards_of(index, self.comm.all_gather(error))
        return self.flat() - self.mean(self.error()) - owed


def workers(count: int, work: Callable[[Worker], Any], **arguments: Any) -> list[Any]:
    return SimulatedWorld(count).run(lambda comm: work(Worker(comm, **arguments)))


def steps_by_hand(count: int, **arguments: Any) -> tuple[list[list[float]], Any]:
    """f = |x|² / 2 from (1, -2, 3, -4), lr 0.1."""
    x = nn.Parameter(torch.tensor(START, dtype=torch.float64))
    optimizer = make("optimizers/ef_sgd", params=[x], lr=0.1, compressor=TOP1, **arguments)
    found = []
    for _ in range(count):
        x.grad = x.detach().clone()
        optimizer.step()
        found.append(x.tolist())
    return found, optimizer


def near(values: Any) -> Any:
    return pytest.approx(values, abs=1e-6)  # the compressor sends float32


# ---------------------------------------------------------------------------------------------- formulas


def test_error_feedback_with_one_entry_a_step() -> None:
    found, optimizer = steps_by_hand(6)
    wanted = [
        [1, -2, 3, -3.6],
        [1, -2, 2.4, -3.6],
        [1, -2, 2.4, -2.88],
        [1, -1.2, 2.4, -2.88],
        [1, -1.2, 1.68, -2.88],
        [1, -1.2, 1.68, -2.016],
    ]
    assert [near(row) for row in wanted] == found
    assert optimizer.buffers["error"][0].tolist() == near([0.6, -0.24, 0.168, 0])


def test_ef21_moves_after_its_estimate() -> None:
    found, optimizer = steps_by_hand(5, variant="ef21")
    wanted = [[1, -2, 3, -3.6], [1, -2, 2.7, -3.2], [1, -1.8, 2.4, -2.8], [1, -1.6, 2.1, -2.52]]
    assert found[:4] == [near(row) for row in wanted]
    assert optimizer.buffers["estimate"][0].tolist() == near([1, -2, 3, -2.8]), "the fifth call's estimate, at x4"


def test_ef21_with_momentum_in_the_gradient() -> None:
    found, optimizer = steps_by_hand(5, variant="ef21_sgdm", eta_momentum=0.5)
    assert found[3] == near([0.9, -1.6, 2.1, -2.4])
    assert optimizer.buffers["gradient_mean"][0].tolist() == near([0.95, -1.75, 2.3625, -2.775])
    assert optimizer.buffers["estimate"][0].tolist() == near([1, -2, 3, -2.775])


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=str)
@pytest.mark.parametrize("collective", ["auto", "all_gather", "two_phase"])
def test_the_virtual_iterate_moves_by_the_mean_gradient(compressor: Any, collective: str) -> None:
    if collective == "two_phase" and "powersgd" in str(compressor):
        return  # refused: see below

    def work(worker: Worker) -> float:
        worst = 0.0
        for _ in range(200 if collective == "all_gather" else 15):
            before, gradient = worker.virtual(), worker.flat() - torch.cat([c.view(-1) for c in worker.centers])
            worker.step()
            wanted = before - worker.lr * worker.mean(gradient)
            worst = max(worst, float((worker.virtual() - wanted).abs().max()))
        return worst

    half = collective == "auto" and "bf16" in str(compressor)  # summed in 16 bits outside every buffer
    bound = 2e-2 if half else 1e-12
    assert max(workers(2, work, compressor=compressor, collective=collective)) < bound


@pytest.mark.parametrize("variant", ["ef21", "ef21_sgdm"])
@pytest.mark.parametrize("collective", ["auto", "two_phase"])
@pytest.mark.parametrize("compressor", [{"type": "topk", "ratio": 0.1}, "identity"], ids=str)
def test_ef21_keeps_the_mean_of_the_estimates(variant: str, collective: str, compressor: Any) -> None:
    def work(worker: Worker) -> float:
        worker.step(30)
        mean = worker.mean(torch.cat(worker.optimizer.buffers["estimate"]))
        for index, error in enumerate(worker.optimizer.wire.server_errors):
            mean -= worker.optimizer.wire.shards_of(index, worker.comm.all_gather(error))
        return float((mean - torch.cat(worker.optimizer.buffers["mean_estimate"])).abs().max())

    arguments = {"compressor": compressor, "variant": variant, "collective": collective}
    assert max(workers(2, work, **arguments)) < 1e-12
    full = {**arguments, "init": "full", "collective": "auto"}
    assert max(workers(2, work, **full)) < 1e-12


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"momentum": 0.9, "weight_decay": 0.01},
        {"momentum": 0.9, "nesterov": True},
        {"variant": "none", "momentum": 0.5},
        {"momentum": 0.9, "momentum_at": "server"},
        {"variant": "ef21", "weight_decay": 0.1},
    ],
    ids=str,
)
def test_without_compression_it_is_sgd(arguments: dict[str, Any], after_steps: Any) -> None:
    given = {"lr": 0.1, "compressor": {"type": "identity", "dtype": "fp64"}, **arguments}
    ours = after_steps(lambda params: make("optimizers/ef_sgd", params=params, **given))
    sgd = {name: arguments[name] for name in ("momentum", "weight_decay", "nesterov") if name in arguments}
    theirs = after_steps(lambda params: torch.optim.SGD(params, lr=0.1, **sgd))
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("world_size", [1, 3])
def test_without_compression_what_was_left_out_before_is_sent_at_once(world_size: int) -> None:
    """A run that compressed goes on uncompressed: the errors go with the first step, and then there are none."""

    def work(comm: Comm) -> tuple[Tensor, Tensor, float]:
        weight = nn.Parameter(torch.zeros(4))

        def optimizer(compressor: Any) -> Any:
            made = make("optimizers/ef_sgd", params=[weight], lr=0.5, compressor=compressor)
            made.prepare(OptimizerRun(4, comm.group(), 0, lambda: torch.zeros(())))
            return made

        first, second = optimizer({"type": "topk", "k": 1, "value_dtype": "fp32"}), optimizer("identity")
        weight.grad = torch.tensor([1.0, 2.0, 3.0, 4.0]) * (1 + comm.rank)
        first.step()
        mine = first.rank_state_dict()
        second.load_state_dict(first.state_dict())
        second.load_rank_state(mine, [mine])
        second.step()
        mean = (1 + world_size) / 2
        return weight.detach(), -2 * 0.5 * mean * torch.tensor([1.0, 2.0, 3.0, 4.0]), second.stats()["comm/error_norm"]

    for found, wanted, left in SimulatedWorld(world_size).run(work):
        torch.testing.assert_close(found, wanted)
        assert left == 0


def test_server_momentum_by_hand() -> None:
    """b <- mu b + u; w <- w - (u + mu b), of what the compressor lets through: here the largest entry alone."""
    found, _ = steps_by_hand(2, momentum=0.5, momentum_at="server", nesterov=True)
    assert found[0] == near([1, -2, 3, -4 + 0.4 * 1.5])
    # p2 = e1 + 0.1 x = (.2, -.4, .6, -.34); u = (0, 0, .6, 0); b = .5 b + u
    assert found[1] == near([1, -2, 3 - 0.6 * 1.5, -3.4 + 0.5 * 0.5 * 0.4])


def test_old_errors_fade() -> None:
    _, optimizer = steps_by_hand(2, ef_decay=0.5)
    assert optimizer.buffers["error"][0].tolist() == near([0.15, -0.3, 0, -0.36])


def test_groups_have_rates_of_their_own_and_fragments_end_with_them() -> None:
    a, b = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    optimizer = make(
        "optimizers/ef_sgd", params=[{"params": [a], "lr": 0.5}, {"params": [b]}], lr=0.25, compressor="identity"
    )
    a.grad, b.grad = torch.ones(3), torch.ones(3)
    optimizer.step()
    assert a.tolist() == [0.5] * 3 and b.tolist() == [0.75] * 3 and len(optimizer.fragments) == 2


def test_parameters_are_cut_into_fragments() -> None:
    parameters = [nn.Parameter(torch.ones(size)) for size in (100, 100, 1000, 10, 10)]
    optimizer = make("optimizers/ef_sgd", params=parameters, compressor="identity", fragment_mb=8e-4)
    assert [fragment.sizes for fragment in optimizer.fragments] == [[100, 100], [1000], [10, 10]]


def test_half_precision_weights_have_errors_in_full_precision() -> None:
    weight = nn.Parameter(torch.ones(8, dtype=torch.bfloat16))
    optimizer = make("optimizers/ef_sgd", params=[weight], lr=1e-3, compressor=TOP1)
    weight.grad = torch.full((8,), 0.1, dtype=torch.bfloat16)
    optimizer.step()
    (error,) = optimizer.buffers["error"]
    assert error.dtype == torch.float32 and error[1:].allclose(torch.tensor(1e-4), rtol=1e-2)


@pytest.mark.parametrize(("average", "first"), [("uniform", 1), ("suffix0.5", 6)])
def test_averages_are_what_is_evaluated_and_exported(average: str, first: int) -> None:
    x = nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = make("optimizers/ef_sgd", params=[x], lr=0.1, compressor="identity", average=average)
    optimizer.prepare(OptimizerRun(10, LocalComm(), 0, lambda: torch.zeros(())))
    iterates = []
    for _ in range(10):
        x.grad = x.detach().clone()
        optimizer.step()
        iterates.append(x.detach().clone())
    wanted, last = torch.stack(iterates[first - 1 :]).mean(0), x.detach().clone()
    with optimizer.consensus():
        torch.testing.assert_close(x.detach(), wanted)
    assert torch.equal(x, last)
    optimizer.finish()
    torch.testing.assert_close(x.detach(), wanted)
    with optimizer.consensus():
        torch.testing.assert_close(x.detach(), wanted)


# ---------------------------------------------------------------------------------------------- ways of exchanging


def test_shared_entries_may_be_gathered_or_summed() -> None:
    compressor = {"type": "randk", "ratio": 0.1, "shared": True, "value_dtype": "fp32"}

    def work(worker: Worker) -> Tensor:
        worker.step(20)
        return worker.flat()

    summed, gathered = (workers(3, work, compressor=compressor, collective=way) for way in ("all_reduce", "all_gather"))
    for a, b in zip(summed, gathered, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("compressor", "world_size", "way"),
    [
        ("identity", 2, "all_reduce"),
        ({"type": "randk", "shared": True}, 4, "all_reduce"),
        ({"type": "topk", "ratio": 0.01}, 4, "all_gather"),
        ({"type": "topk", "ratio": 0.9, "value_dtype": "fp32"}, 4, "two_phase"),
        ({"type": "topk", "ratio": 0.9, "value_dtype": "fp32"}, 2, "all_gather"),
        ("signnorm", 1, "all_gather"),
    ],
    ids=str,
)
def test_auto_takes_the_cheapest_way(compressor: Any, world_size: int, way: str) -> None:
    def work(comm: Comm) -> str:
        weight = nn.Parameter(torch.zeros(50_000))
        optimizer = make("optimizers/ef_sgd", params=[weight], compressor=compressor)
        optimizer.prepare(OptimizerRun(1, comm, 0, lambda: torch.zeros(())))
        return str(optimizer.wire.way)

    assert set(SimulatedWorld(world_size).run(work)) == {way}


@pytest.mark.parametrize("world_size", [2, 3, 5])
def test_two_phases_send_about_two_payloads_whatever_the_number_of_workers(world_size: int) -> None:
    def work(worker: Worker) -> tuple[Tensor, int]:
        worker.step(10)
        return worker.flat(), worker.optimizer.wire.comm.bytes_sent // 10

    compressor = {"type": "topk", "ratio": 0.2}
    found = workers(world_size, work, compressor=compressor, collective="two_phase")
    assert all(torch.equal(flat, found[0][0]) for flat, _ in found)
    shard = make("compressors/topk", ratio=0.2).plan(-(-53 // world_size)).payload_bytes
    assert {count for _, count in found} == {2 * (world_size - 1) * shard}


def test_a_skipped_round_sends_nothing() -> None:
    def work(worker: Worker) -> list[int]:
        counts = []
        for _ in range(12):
            worker.step()
            counts.append(worker.optimizer.wire.comm.bytes_sent)
        return [b - a for a, b in zip([0, *counts], counts, strict=False)]

    found = workers(2, work, compressor={"type": "lazy", "inner": "signnorm", "p": 0.5})
    size = make("compressors/signnorm").plan(53).payload_bytes
    assert found[0] == found[1] and set(found[0]) == {0, size}


@pytest.mark.parametrize("collective", ["all_gather", "all_reduce", "two_phase"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_worker_without_a_finite_gradient_counts_nothing(collective: str, momentum: float) -> None:
    compressor = {"type": "randk", "shared": True, "value_dtype": "fp32", "ratio": 0.5}

    def work(worker: Worker) -> tuple[Tensor, ...]:
        worker.step(3)
        before, error = worker.flat(), worker.error().clone()
        buffer = torch.cat(worker.optimizer.buffers.get("momentum", [torch.zeros(1)]))
        worker.step(1, spoil=lambda step: worker.comm.rank == 1)
        return before, error, worker.flat(), worker.error(), buffer

    found = workers(3, work, compressor=compressor, collective=collective, momentum=momentum)
    assert all(torch.equal(found[0][2], other[2]) for other in found) and torch.isfinite(found[0][2]).all()
    assert torch.equal(found[1][1], found[1][3]), "its error stays as it was"
    assert not torch.equal(found[0][1], found[0][3]) and not torch.equal(found[0][0], found[0][2])


def test_weights_of_silent_workers_go_to_the_others() -> None:
    def work(worker: Worker) -> Tensor:
        worker.step(1, spoil=lambda step: worker.comm.rank == 1)
        return worker.flat()

    fp64 = {"type": "identity", "dtype": "fp64"}
    for collective in ("all_gather", "all_reduce"):
        three = workers(3, work, compressor=fp64, collective=collective)
        alone = Worker(LocalComm(), compressor=fp64)
        start = alone.flat()
        centers = []
        for rank in (0, 2):
            own = torch.Generator().manual_seed(100 + rank)
            drawn = [torch.randn(w.shape, generator=own).double() * 3 for w in alone.weights]
            centers.append(torch.cat([part.view(-1) for part in drawn]))
        wanted = start - 0.1 * (start - (centers[0] + centers[1]) / 2)
        torch.testing.assert_close(three[0], wanted, rtol=1e-12, atol=1e-12)


def test_a_gradient_that_is_not_finite_may_end_the_run() -> None:
    worker = Worker(LocalComm(), compressor="identity", on_nonfinite="raise")
    with pytest.raises(RunError, match="a worker's gradient is not finite at step 1"):
        worker.step(1, spoil=lambda step: True)


def test_missing_gradients_count_as_zero_and_the_error_drains() -> None:
    worker = Worker(LocalComm(), compressor=TOP1)
    worker.step(3)
    norms = [float(worker.error().norm())]
    for _ in range(100):
        worker.optimizer.zero_grad()
        worker.optimizer.step()
        norms.append(float(worker.error().norm()))
    assert norms[0] > 0 and norms == sorted(norms, reverse=True) and norms[-1] < 1e-9 * norms[0]


def test_sparse_gradients_are_refused() -> None:
    table = nn.Embedding(10, 3, sparse=True)
    optimizer = make("optimizers/ef_sgd", params=table.parameters(), compressor="identity")
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(RunError, match="sparse gradients can't be compressed"):
        optimizer.step()


def test_ranks_that_would_send_other_things_are_told_apart() -> None:
    def work(comm: Comm) -> None:
        weight = nn.Parameter(torch.zeros(4 + comm.rank))
        optimizer = make("optimizers/ef_sgd", params=[nn.Parameter(torch.zeros(3)), weight], compressor="identity")
        optimizer.prepare(OptimizerRun(1, comm, 0, lambda: torch.zeros(())))

    with pytest.raises(RunError) as caught:
        SimulatedWorld(2).run(work)
    assert "rank 1 would exchange something else than rank 0" in str(caught.value)
    assert "parameter 1 has shape (5,) there, (4,) on rank 0" in str(caught.value)


def test_a_foreign_payload_is_refused() -> None:
    def work(comm: Comm) -> None:
        worker = Worker(comm, compressor="signnorm")
        worker.optimizer.count = comm.rank  # another round
        worker.step()

    with pytest.raises(PayloadMismatch, match=r"waited for Header\(.*round=\d.* of rank \d, which sent"):
        SimulatedWorld(2).run(work)


# ---------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"compressor": {"type": "topk", "k": 60}}, r"^compressor: k: can't keep 60 entries of 53"),
        (
            {"compressor": {"type": "randk", "ratio": 0.1, "scaled": True}},
            r"^compressor: compressors/randk is unbiased with a variance factor of 9: .*randk: `scaled: false`",
        ),
        (
            {"compressor": {"type": "qsgd", "levels": 1, "scaled": False}},
            r"^compressor: compressors/qsgd is unbiased with .*qsgd: `scaled: true`",
        ),
        ({"compressor": "identity", "variant": "ef21", "momentum_at": "server"}, r"^momentum_at: ef21 keeps its"),
        ({"compressor": "identity", "nesterov": True}, r"^nesterov: needs momentum > 0"),
        ({"compressor": "signnorm", "match": {"alpha": 0.1}}, r"^match: compressors/signnorm has no closed-form"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_can_not_work_is_refused_at_once(arguments: dict[str, Any], words: str) -> None:
    weights = [nn.Parameter(torch.zeros(8, 6)), nn.Parameter(torch.zeros(5))]
    with pytest.raises(ValueError, match=words):
        make("optimizers/ef_sgd", params=weights, **arguments)


def test_unbiased_compression_without_feedback_is_allowed() -> None:
    worker = Worker(LocalComm(), compressor={"type": "randk", "ratio": 0.1, "scaled": True}, variant="none")
    worker.step(3)
    assert torch.isfinite(worker.flat()).all()


@pytest.mark.parametrize(
    ("collective", "compressor", "words"),
    [
        ("two_phase", "signnorm", "two_phase needs at least two workers"),
        ("all_reduce", "signnorm", "what compressors/signnorm sends can't be summed on the way"),
        ("two_phase", {"type": "powersgd", "min_numel": 1, "rank": 2}, "compressors/powersgd can't be cut into shards"),
    ],
)
def test_ways_that_can_not_be_gone_are_refused(collective: str, compressor: Any, words: str) -> None:
    with pytest.raises(RunError) as caught:
        Worker(LocalComm(), compressor=compressor, collective=collective)
    assert words in str(caught.value) and caught.value.where == "optimizer.collective"


@pytest.mark.parametrize("kind", ["topk", "randk", "qsgd"])
def test_matched_compressors_have_one_contraction_factor(kind: str) -> None:
    worker = Worker(LocalComm(), compressor=kind, match={"alpha": 0.1})
    compressor = worker.optimizer.compressor
    (plan,) = [compressor.plan(fragment.numel) for fragment in worker.optimizer.fragments]
    assert compressor.alpha(plan) == pytest.approx(0.1, rel=0.06), "5 of 53 is as near as top-k gets"


# ---------------------------------------------------------------------------------------------- resume


def states(worker: Worker) -> tuple[Any, ...]:
    return copy.deepcopy((worker.flat(), worker.optimizer.state_dict(), worker.optimizer.rank_state_dict()))


def set_weights(worker: Worker, flat: Tensor) -> None:
    with torch.no_grad():
        for weight, part in zip(worker.weights, torch.split(flat, [48, 5]), strict=True):
            weight.copy_(part.view_as(weight))


VARIANTS: list[dict[str, Any]] = [
    {"momentum": 0.9},
    {"collective": "two_phase"},
    {"variant": "ef21", "average": "uniform"},
    {"variant": "ef21_sgdm"},
    {"momentum": 0.9, "momentum_at": "server", "average": "suffix0.5"},
    {"compressor": {"type": "powersgd", "rank": 1, "min_numel": 1}},
    {"compressor": {"type": "powersgd", "rank": 1, "min_numel": 1}, "collective": "all_gather"},
    {"compressor": {"type": "lazy", "inner": {"type": "qsgd", "block": 16}, "p": 0.7}, "fragment_mb": 1e-4},
]


@pytest.mark.parametrize("arguments", VARIANTS, ids=str)
def test_resumed_workers_go_on_bit_for_bit(arguments: dict[str, Any]) -> None:
    arguments = {"compressor": {"type": "topk", "ratio": 0.1}, "total_steps": 14, **arguments}

    def first(worker: Worker) -> Any:
        worker.step(7)
        saved = states(worker)
        worker.step(7)
        return saved, worker.flat()

    broken = workers(2, first, **arguments)

    def second(worker: Worker) -> Any:
        flat, _, mine = broken[worker.comm.rank][0]
        set_weights(worker, flat)
        worker.optimizer.load_state_dict(broken[0][0][1])
        worker.optimizer.load_rank_state(mine, [rank[0][2] for rank in broken])
        worker.step(7)
        return worker.flat()

    saved_again = [torch.equal(a[1], b) for a, b in zip(broken, workers(2, second, **arguments), strict=True)]
    assert all(saved_again)


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 4), (3, 1), (1, 3)])
@pytest.mark.parametrize("reshard", ["mean", "apply", "zero"])
@pytest.mark.parametrize("two_phase", [False, True])
def test_another_number_of_workers_keeps_the_virtual_iterate(
    before: int, after: int, reshard: str, two_phase: bool
) -> None:
    def arguments(count: int) -> dict[str, Any]:
        way = "two_phase" if two_phase and count > 1 else "all_gather"
        return {"compressor": {"type": "topk", "ratio": 0.1}, "reshard": reshard, "collective": way}

    def first(worker: Worker) -> Any:
        worker.step(7)
        return worker.virtual(), states(worker)

    old = workers(before, first, **arguments(before))

    def second(worker: Worker) -> Tensor:
        set_weights(worker, old[0][1][0])
        worker.optimizer.load_state_dict(old[0][1][1])
        worker.optimizer.load_rank_state(None, [rank[1][2] for rank in old])
        return worker.virtual()

    jumps = [float((found - old[0][0]).abs().max()) for found in workers(after, second, **arguments(after))]
    if reshard == "zero":
        assert min(jumps) > 1e-3
    else:
        assert max(jumps) < 1e-12


def test_a_checkpoint_of_other_parameters_is_refused() -> None:
    worker = Worker(LocalComm(), compressor="signnorm")
    worker.step()
    mine = worker.optimizer.rank_state_dict()
    mine["buffers"]["error"][0] = torch.zeros(2, 2)
    with pytest.raises(RunError, match="the checkpoint's buffers belong to other parameters"):
        worker.optimizer.load_rank_state(mine, [mine])
