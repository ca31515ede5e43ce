"""DiLoCo: the formulas by hand, and what must hold for any number of workers, fragments and delays."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from raycipe.components.optimizers._rounds import outer_step_, sequential, theory_rates
from raycipe.framework.comm import Comm, LocalComm, SimulatedWorld
from raycipe.framework.contracts import OptimizerRun
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make

SGD = {"type": "sgd", "lr": 0.1}
FULL = {"type": "identity", "dtype": "fp64"}
TOP1 = {"type": "topk", "k": 1, "value_dtype": "fp32"}
SHAPES = ((8, 6), (5,), (4, 4), (7,))


class Worker:
    """One rank on f_m(w) = |w - c_m|² / 2 in float64, with four parameters."""

    def __init__(self, comm: Comm, total_steps: int = 64, **arguments: Any) -> None:
        self.comm = comm
        generator, own = torch.Generator().manual_seed(7), torch.Generator().manual_seed(100 + comm.rank)
        self.weights = [nn.Parameter(torch.randn(shape, generator=generator).double()) for shape in SHAPES]
        self.centers = [torch.randn(shape, generator=own).double() * 3 for shape in SHAPES]
        self.optimizer = make("optimizers/diloco", params=self.weights, **{"inner": SGD, "H": 8, **arguments})
        self.optimizer.prepare(OptimizerRun(total_steps, comm.group(), 5, lambda: torch.zeros(())))

    def step(self, count: int = 1, spoil: bool = False) -> None:
        for _ in range(count):
            for weight, center in zip(self.weights, self.centers, strict=True):
                weight.grad = weight.detach() - center
                if spoil:
                    weight.grad[0] = float("nan")
            self.optimizer.step()

    def flat(self) -> Tensor:
        return torch.cat([weight.detach().view(-1) for weight in self.weights])

    def common(self) -> Tensor:
        with self.optimizer.consensus():
            return self.flat()

    def virtual(self) -> Tensor:
        """a - lr · (mean_m e_m + what a server still owes), in the fragments' order."""
        optimizer = self.optimizer
        errors = self.comm.all_reduce(torch.cat(optimizer.errors), "mean")
        owed = [torch.zeros_like(anchor) for anchor in optimizer.anchors]
        for index, error in enumerate(optimizer.wire.server_errors):
            owed[index] += optimizer.wire.shards_of(index, self.comm.all_gather(error))
        return torch.cat(optimizer.anchors) - optimizer.outer["lr"] * (errors + torch.cat(owed))


def workers(count: int, work: Callable[[Worker], Any], **arguments: Any) -> list[Any]:
    return SimulatedWorld(count).run(lambda comm: work(Worker(comm, **arguments)))


# ---------------------------------------------------------------------------------------------- formulas


def test_three_rounds_by_hand() -> None:
    """f_m = |x - c_m|² / 2, c = (1, 2, 0) and (-1, 0, 4); H 2, inner 0.1, outer 0.5 with Nesterov 0.9, one entry."""
    centers = torch.tensor([[1.0, 2, 0], [-1, 0, 4]], dtype=torch.float64)

    def work(comm: Comm) -> Any:
        x = nn.Parameter(torch.zeros(3, dtype=torch.float64))
        outer = {"lr": 0.5, "momentum": 0.9, "nesterov": True}
        optimizer = make("optimizers/diloco", params=[x], inner=SGD, outer=outer, H=2, compressor=TOP1)
        optimizer.prepare(OptimizerRun(6, comm, 0, lambda: torch.zeros(())))
        found = []
        for _ in range(6):
            x.grad = x.detach() - centers[comm.rank]
            optimizer.step()
            found.append(x.tolist())
        return found[1::2], optimizer.momenta[0].tolist()

    for rounds, momentum in SimulatedWorld(2).run(work):
        near = {"abs": 1e-6}  # the compressor sends float32
        assert rounds[0] == pytest.approx([0, 0.1805, 0.361], **near)
        assert rounds[1] == pytest.approx([0.1805, 0.25745, 0.84331975], **near)
        assert rounds[2] == pytest.approx([-0.029590125, 0.6481800125, 1.121840275], **near)
        assert momentum == pytest.approx([0.1311475, -0.49229475, -0.6189345], **near)


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)])
def test_the_outer_step_is_torchs_sgd(momentum: float, nesterov: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    theirs = nn.Parameter(torch.randn(5, generator=generator).double())
    ours, buffer = theirs.detach().clone(), torch.zeros(5).double()
    optimizer = torch.optim.SGD([theirs], lr=0.7, momentum=momentum, nesterov=nesterov)
    for _ in range(5):
        theirs.grad = torch.randn(5, generator=generator).double()
        outer_step_(ours, buffer, theirs.grad, 0.7, momentum, nesterov)
        optimizer.step()
    torch.testing.assert_close(ours, theirs.detach(), rtol=1e-14, atol=1e-14)


def test_one_plain_step_a_round_is_data_parallel_sgd() -> None:
    outer = {"lr": 1.0, "momentum": 0.0, "nesterov": False}

    def work(worker: Worker) -> tuple[Tensor, Tensor]:
        center = worker.comm.all_reduce(torch.cat([c.view(-1) for c in worker.centers]), "mean")
        wanted = worker.flat()
        for _ in range(5):
            wanted = wanted - 0.1 * (wanted - center)
        worker.step(5)
        return worker.flat(), wanted

    for found, wanted in workers(3, work, H=1, outer=outer, compressor=FULL):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def test_local_sgd_takes_the_mean() -> None:
    def work(comm: Comm) -> Any:
        x = nn.Parameter(torch.zeros(2))
        optimizer = make("optimizers/local_sgd", params=[x], inner=SGD, H=2)
        optimizer.prepare(OptimizerRun(4, comm, 0, lambda: torch.zeros(())))
        for _ in range(2):
            x.grad = torch.tensor([1.0, float(comm.rank)])
            optimizer.step()
        return x.tolist()

    assert SimulatedWorld(2).run(work) == [[pytest.approx(-0.2), pytest.approx(-0.1)]] * 2


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"fragments": 4, "overlap_steps": 1},
        {"collective": "two_phase"},
        {"server_compressor": {"type": "topk", "ratio": 0.2}},
        {"compressor": {"type": "qsgd", "block": 8}},
    ],
    ids=str,
)
def test_the_virtual_anchor_moves_by_the_mean_of_what_workers_moved(arguments: dict[str, Any]) -> None:
    """Without momentum a - lr · mean e takes the steps of uncompressed DiLoCo: here on equal local steps."""
    outer = {"lr": 0.5, "momentum": 0.0, "nesterov": False}
    arguments = {"compressor": {"type": "topk", "ratio": 0.1}, "outer": outer, **arguments}

    def work(worker: Worker) -> float:
        worst, flights = 0.0, []
        optimizer = worker.optimizer
        original = optimizer._send

        def record(index: int) -> None:
            moved = optimizer.anchors[index] - optimizer.fragments[index].weights()
            flights.append((index, worker.comm.all_reduce(moved, "mean")))
            original(index)

        optimizer._send = record
        for _ in range(32):
            before = worker.virtual()
            worker.step()
            expected = [torch.zeros_like(anchor) for anchor in optimizer.anchors]
            for index, moved in [one for one in flights if optimizer.flights[one[0]] is None]:
                expected[index] = moved
            flights[:] = [one for one in flights if optimizer.flights[one[0]] is not None]
            worst = max(worst, float((worker.virtual() - before + 0.5 * torch.cat(expected)).abs().max()))
        return worst

    assert max(workers(2, work, **arguments)) < 1e-12


# ---------------------------------------------------------------------------------------------- fragments, overlap, mix


def test_fragments_sync_at_their_own_steps() -> None:
    worker = Worker(LocalComm(), fragments=4)
    synced: dict[int, list[int]] = {index: [] for index in range(4)}
    original = worker.optimizer._send
    worker.optimizer._send = lambda index: (synced[index].append(worker.optimizer.count), original(index))
    worker.step(24)
    assert synced == {0: [8, 16, 24], 1: [2, 10, 18], 2: [4, 12, 20], 3: [6, 14, 22]}


def test_with_one_step_a_round_fragments_make_no_difference() -> None:
    def work(worker: Worker) -> Tensor:
        worker.step(10)
        return worker.flat()

    one, four = (workers(2, work, H=1, fragments=count, compressor=FULL) for count in (1, 4))
    torch.testing.assert_close(one[0], four[0], rtol=0, atol=1e-14)


def test_patterns() -> None:
    worker = Worker(LocalComm(), fragments=2)
    assert [fragment.shapes for fragment in worker.optimizer.fragments] == [[(8, 6), (4, 4)], [(5,), (7,)]]
    worker = Worker(LocalComm(), fragments=2, fragment_pattern="sequential")
    assert [fragment.shapes for fragment in worker.optimizer.fragments] == [[(8, 6)], [(5,), (4, 4), (7,)]]
    ones = [torch.zeros(1)] * 5
    assert [len(run) for run in sequential(ones, 5)] == [1] * 5
    assert [len(run) for run in sequential([torch.zeros(100), *ones], 4)] == [1, 1, 1, 3]


def test_an_overlapped_exchange_is_applied_later() -> None:
    worker = Worker(LocalComm(), overlap_steps=3, compressor=FULL, outer={"lr": 1.0, "momentum": 0.0})
    start = worker.common()
    worker.step(8)
    sent = worker.flat()
    worker.step(2)
    assert torch.equal(worker.common(), start) and worker.optimizer.synced_at == 0
    worker.step(1)
    torch.testing.assert_close(worker.common(), sent, rtol=0, atol=1e-14)
    torch.testing.assert_close(worker.flat(), sent, rtol=0, atol=1e-14)  # steps since are dropped
    assert worker.optimizer.synced_at == 11


@pytest.mark.parametrize("mix", [0.0, 0.5, 1.0, "add_local"])
def test_mixing_local_and_common_weights(mix: Any) -> None:
    outer = {"lr": 0.5, "momentum": 0.0, "nesterov": False}
    mixed = Worker(LocalComm(), overlap_steps=2, mix=mix, compressor=FULL, outer=outer)
    alone = Worker(LocalComm(), H=1000, compressor=FULL)  # never syncs
    start = mixed.common()
    alone.step(8)
    at_send = alone.flat()
    alone.step(2)
    mixed.step(10)
    anchor = start + 0.5 * (at_send - start)
    wanted = anchor + alone.flat() - at_send if mix == "add_local" else (1 - mix) * alone.flat() + mix * anchor
    torch.testing.assert_close(mixed.flat(), wanted, rtol=0, atol=1e-12)
    torch.testing.assert_close(mixed.common(), anchor, rtol=0, atol=1e-12)


@pytest.mark.parametrize("keep", [True, False])
def test_inner_moments_are_kept_or_forgotten(keep: bool) -> None:
    worker = Worker(LocalComm(), inner={"type": "adamw", "lr": 0.1}, keep_inner_state=keep)
    worker.step(8)
    assert len(worker.optimizer.inner.state) == (4 if keep else 0)


def test_the_inner_schedule_is_the_loops() -> None:
    worker = Worker(LocalComm(), inner={**SGD, "schedule": "cosine"})
    assert worker.optimizer.schedule is not None
    worker.optimizer.param_groups[0]["lr"] = 0.0
    before = worker.flat()
    worker.step(3)
    assert torch.equal(worker.flat(), before)


def test_a_server_compresses_the_way_back() -> None:
    def work(worker: Worker) -> tuple[Tensor, int]:
        worker.step(16)
        return worker.common(), worker.optimizer.wire.comm.bytes_sent

    found = workers(2, work, compressor=FULL, server_compressor={"type": "topk", "k": 1, "scope": "global"})
    assert torch.equal(found[0][0], found[1][0])
    half = make("compressors/identity", dtype="fp64").plan(38).payload_bytes
    back = make("compressors/topk", k=1, scope="global").plan(38).payload_bytes
    assert found[0][1] == 2 * (half + back)


def test_without_feedback_what_is_left_out_is_lost() -> None:
    worker = Worker(LocalComm(), compressor=TOP1, ef=False)
    worker.step(16)
    assert not torch.cat(worker.optimizer.errors).any() and worker.optimizer.stats() == {}
    fed = Worker(LocalComm(), compressor=TOP1)
    fed.step(16)
    assert fed.optimizer.stats()["comm/error_norm"] > 0


def test_averages_are_over_the_anchors_of_rounds() -> None:
    worker = Worker(LocalComm(), average="suffix0.5", compressor=FULL)
    anchors = []
    for _ in range(8):
        worker.step(8)
        anchors.append(torch.cat(worker.optimizer.anchors))
    torch.testing.assert_close(worker.common(), torch.stack(anchors[4:]).mean(0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("collective", ["all_gather", "all_reduce"])
def test_workers_may_count_by_their_examples(collective: str) -> None:
    outer = {"lr": 1.0, "momentum": 0.0, "nesterov": False}

    def work(comm: Comm) -> Any:
        worker = Worker(comm, H=2, compressor=FULL, outer=outer, weighting="samples", collective=collective)
        worker.optimizer._examples = lambda: 3 * comm.rank  # the first has none at all
        worker.step(2)
        return worker.flat(), worker.centers

    found = SimulatedWorld(3).run(work)
    start, centers = Worker(LocalComm()).flat(), [torch.cat([c.view(-1) for c in each]) for _, each in found]
    moved = [0.19 * (center - start) for center in centers]  # two steps of 0.1
    torch.testing.assert_close(found[0][0], start + (moved[1] + 2 * moved[2]) / 3, rtol=0, atol=1e-12)


def test_equal_weights_need_examples_everywhere() -> None:
    worker = Worker(LocalComm())
    worker.optimizer._examples = lambda: 0
    with pytest.raises(RunError, match="a worker had no examples at step 1, but counts as much as the others"):
        worker.step(1)


# ---------------------------------------------------------------------------------------------- theory


def test_rates_of_theory() -> None:
    """A round is a step of c sqrt(M H / T) on M H examples."""
    inner, outer = theory_rates(4.0, 8, 8, 64)
    assert (inner, outer) == (4 / (8 * 8), 8) and inner * outer * 8 == pytest.approx(4 * (64 / 64) ** 0.5)
    worker = Worker(LocalComm(), total_steps=64 * 8, theory={"c": 2.0})
    assert worker.optimizer.param_groups[0]["lr"] == 2 / (8 * 8)
    assert worker.optimizer.outer == {"lr": 8**0.5, "momentum": 0.0, "nesterov": False}


def test_rates_that_must_diverge_are_refused() -> None:
    """On M = H = 8, T = 64 with curvature 0.163 and R² = 1 the limit of s lies at 11.2."""

    def prepare(c: float) -> None:
        theory = {"c": c, "rounds": 64, "L": 0.163, "R2": 1.0}
        SimulatedWorld(8).run(lambda comm: Worker(comm, theory=theory) and None)

    prepare(11.0)
    with pytest.raises(RunError, match=r"a round diverges: 2\.0\d for it and") as caught:
        prepare(11.4)
    assert caught.value.where == "optimizer.theory"


# ---------------------------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize("collective", ["all_gather", "all_reduce"])
def test_a_worker_without_finite_weights_is_left_out_and_comes_back(collective: str) -> None:
    compressor = {"type": "randk", "shared": True, "ratio": 0.5, "value_dtype": "fp32"}

    def work(worker: Worker) -> Any:
        worker.step(8)
        error = torch.cat(worker.optimizer.errors)
        worker.step(8, spoil=worker.comm.rank == 1)
        return worker.flat(), error, torch.cat(worker.optimizer.errors)

    found = workers(3, work, compressor=compressor, collective=collective, inner={"type": "adamw", "lr": 0.1})
    assert all(torch.equal(flat, found[0][0]) and torch.isfinite(flat).all() for flat, _, _ in found)
    assert torch.equal(found[1][1], found[1][2]) and not torch.equal(found[0][1], found[0][2])


def test_weights_that_are_not_finite_may_end_the_run() -> None:
    worker = Worker(LocalComm(), on_nonfinite="raise")
    with pytest.raises(RunError, match="a worker's weights are not finite at step 8"):
        worker.step(8, spoil=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"fragments": 5}, r"^fragments: the model has 4 parameters, which can't be cut into 5"),
        ({"overlap_steps": 4, "fragments": 2}, r"^overlap_steps: must be below H / fragments = 4"),
        ({"inner": {"type": "ef_sgd", "compressor": "signnorm"}}, r"^inner: optimizers/ef_sgd exchanges by itself"),
        ({"inner": {**SGD, "schedule": "cosine"}, "theory": {}}, r"^theory: sets the inner rate"),
        (
            {"compressor": {"type": "randk", "ratio": 0.1, "scaled": True}},
            r"^compressor: compressors/randk is unbiased",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_can_not_work_is_refused_at_once(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Worker(LocalComm(), **arguments)


def test_a_server_needs_two_phases() -> None:
    with pytest.raises(RunError, match="a server compressor needs the collective two_phase, not all_gather"):
        Worker(LocalComm(), server_compressor="signnorm", collective="all_gather")


# ---------------------------------------------------------------------------------------------- end, resume


def test_the_end_closes_a_round_that_has_begun() -> None:
    def work(worker: Worker) -> Any:
        worker.step(11)
        before = worker.common()
        worker.optimizer.finish()
        return before, worker.flat(), worker.common(), worker.optimizer.synced_at

    arguments = {"fragments": 2, "overlap_steps": 1, "compressor": FULL}
    (before, flat, common, synced_at), (_, other, _, _) = workers(2, work, **arguments)
    assert torch.equal(flat, other) and torch.equal(flat, common) and not torch.equal(before, flat)
    assert synced_at == 11


VARIANTS: list[dict[str, Any]] = [
    {},
    {"inner": {"type": "adamw", "lr": 0.1}, "fragments": 4, "overlap_steps": 1},
    {"overlap_steps": 3, "mix": "add_local"},
    {"overlap_steps": 5, "mix": 0.5, "average": "uniform"},
    {"server_compressor": {"type": "topk", "ratio": 0.3}, "overlap_steps": 4},
    {"compressor": {"type": "powersgd", "rank": 1, "min_numel": 1}, "overlap_steps": 4},
]


@pytest.mark.parametrize("arguments", VARIANTS, ids=str)
@pytest.mark.parametrize("at", [8, 11])
def test_resumed_workers_go_on_bit_for_bit(arguments: dict[str, Any], at: int) -> None:
    arguments = {"compressor": {"type": "topk", "ratio": 0.1}, **arguments}

    def first(worker: Worker) -> Any:
        worker.step(at)
        optimizer = worker.optimizer
        saved = copy.deepcopy((worker.flat(), optimizer.state_dict(), optimizer.rank_state_dict()))
        worker.step(20)
        return saved, worker.flat(), worker.common()

    broken = workers(2, first, **arguments)

    def second(worker: Worker) -> Any:
        flat, _, mine = copy.deepcopy(broken[worker.comm.rank][0])
        worker.optimizer.load_state_dict(copy.deepcopy(broken[0][0][1]))
        worker.optimizer.load_rank_state(mine, [])
        worker.optimizer.load_rank_state(mine, [rank[0][2] for rank in broken])
        set_weights(worker, flat)
        worker.step(20)
        return worker.flat(), worker.common()

    for (_, flat, common), (again, again_common) in zip(broken, workers(2, second, **arguments), strict=True):
        assert torch.equal(flat, again) and torch.equal(common, again_common)


def set_weights(worker: Worker, flat: Tensor) -> None:
    with torch.no_grad():
        for weight, part in zip(worker.weights, torch.split(flat, [w.numel() for w in worker.weights]), strict=True):
            weight.copy_(part.view_as(weight))


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 4), (2, 1)])
@pytest.mark.parametrize("reshard", ["mean", "apply", "zero"])
@pytest.mark.parametrize("server", [None, {"type": "topk", "ratio": 0.3}])
def test_another_number_of_workers_keeps_the_virtual_anchor(before: int, after: int, reshard: str, server: Any) -> None:
    outer = {"lr": 0.5, "momentum": 0.0, "nesterov": False}
    arguments = {"compressor": {"type": "topk", "ratio": 0.1}, "outer": outer, "reshard": reshard}
    arguments["server_compressor"] = server

    def first(worker: Worker) -> Any:
        worker.step(16)
        optimizer = worker.optimizer
        return worker.virtual(), copy.deepcopy((optimizer.state_dict(), optimizer.rank_state_dict()))

    old = workers(before, first, **arguments)

    def second(worker: Worker) -> Any:
        worker.optimizer.load_state_dict(old[0][1][0])
        worker.optimizer.load_rank_state(None, [rank[1][1] for rank in old])
        assert torch.equal(worker.flat(), worker.common())
        return worker.virtual()

    jumps = [float((found - old[0][0]).abs().max()) for found in workers(after, second, **arguments)]
    if reshard == "zero":
        assert min(jumps) > 1e-3
    else:
        assert max(jumps) < 1e-12
