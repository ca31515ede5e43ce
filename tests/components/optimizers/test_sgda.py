"""sgda: its path on known games, averages, skipped steps, workers, and runs that are resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from raycipe.framework.comm import SimulatedWorld
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make
from raycipe.framework.training.signals import stop_file

RANKING: dict[str, Any] = {
    "seed": 0,
    "data": {"type": "gauss_auc", "examples": 64, "test": 40, "dim": 5},
    "model": {"type": "linear", "num_outputs": 1, "bias": False, "zero_init": True},
    "task": {"type": "auc_saddle"},
}
GAME: dict[str, Any] = {
    "seed": 0,
    "data": {"type": "player_noise", "dim": 1, "scale": 0.0, "examples": 100},
    "model": {"type": "point", "start": 1.0},
}


def test_simultaneous_steps_leave_the_saddle_at_the_known_rate(play: Any) -> None:
    run = play({"type": "sgda", "lr": 0.1}, steps=100)
    assert float(run.w**2 + run.v**2) == pytest.approx(2 * 1.01**100, abs=1e-10) == pytest.approx(5.409627658843)
    assert any("may circle or run away" in text for text in run.summary.warnings)


def test_curvature_contracts_by_the_known_factor(play: Any) -> None:
    game = {**GAME, "task": {"type": "bilinear", "mu_w": 1.0, "mu_v": 1.0}}
    run = play({"type": "sgda", "lr": 0.1}, game, steps=20)
    assert float(run.w**2 + run.v**2) == pytest.approx(2 * 0.82**20, abs=1e-10)
    assert run.summary.warnings == []


def test_alternating_steps_stay_bounded(play: Any) -> None:
    run = play({"type": "sgda", "lr": 0.1, "order": "alternating"}, steps=10_000)
    norms = torch.stack(run.path).square().sum(1)
    assert float(norms.max()) == pytest.approx(2.0, abs=1e-4) and float(norms[-1]) == pytest.approx(1.8156, abs=1e-4)


def test_averages_are_those_of_their_iterates(play: Any) -> None:
    game = {**GAME, "task": {"type": "bilinear", "mu_w": 1.0}}
    for average, choose in (("uniform", slice(1, None)), ("suffix0.5", slice(6, None))):
        found: dict[str, torch.Tensor] = {}

        def look(session: Any, event: str, found: dict[str, torch.Tensor] = found) -> None:
            if event == "end":
                with session.optimizer.consensus():
                    found["mean"] = torch.cat(session.optimizer.problem.point())
                found["after"] = torch.cat(session.optimizer.problem.point())

        run = play({"type": "sgda", "lr": 0.1, "average": average}, game, steps=10, hooks=[look])
        torch.testing.assert_close(found["mean"], torch.stack(run.path)[choose].mean(0), rtol=1e-12, atol=1e-12)
        assert torch.equal(found["after"], run.path[-1])


def test_weighted_average_weighs_by_the_rate(play: Any) -> None:
    found = []

    def look(session: Any, event: str) -> None:
        if event == "end":
            with session.optimizer.consensus():
                found.append(torch.cat(session.optimizer.problem.point()))

    optimizer = {"type": "sgda", "lr": 0.1, "average": "weighted", "schedule": {"type": "linear"}}
    run = play(optimizer, steps=10, hooks=[look])
    rates = [row["train/lr"] for row in _rows(run.folder) if "train/lr" in row]
    weights = torch.tensor(rates, dtype=torch.float64)
    wanted = (weights.unsqueeze(1) * torch.stack(run.path[1:])).sum(0) / weights.sum()
    torch.testing.assert_close(found[0], wanted, rtol=1e-9, atol=1e-9)


def _rows(folder: Path) -> list[dict[str, Any]]:
    from raycipe.framework.files import read_rows

    return list(read_rows(folder / "metrics.jsonl"))


def test_more_ascents_see_fresh_batches_and_come_nearer_to_the_best_response(play: Any) -> None:
    once = play({"type": "sgda", "lr": 0.05}, RANKING, steps=20)
    many = play({"type": "sgda", "lr": 0.05, "v_steps": 5}, RANKING, steps=20)
    assert once.summary.examples == 20 and many.summary.examples == 20 * 6
    assert not torch.allclose(once.v, many.v)


def test_an_infinite_tau_changes_no_bit(play: Any) -> None:
    plain = play({"type": "sgda", "lr": 0.05}, RANKING)
    clipped = play({"type": "clipped_sgda", "lr": 0.05, "tau": 1e300}, RANKING)
    assert torch.equal(torch.stack(plain.path), torch.stack(clipped.path))


def test_log_points_and_evaluations_change_no_iterate(play: Any) -> None:
    optimizer = {"type": "zo_sgda", "lr": 0.05, "points": 3}
    often = play(optimizer, RANKING)
    seldom = play(optimizer, RANKING, log_every=50, checkpoint_every=1)
    assert torch.equal(often.w, seldom.w) and torch.equal(often.v, seldom.v)


@pytest.mark.parametrize(
    "optimizer",
    [
        {"type": "sgda", "lr": 0.05, "average": "weighted", "schedule": "cosine"},
        {"type": "ogda", "lr": 0.02},
        {"type": "zo_sgda", "lr": 0.02, "points": 4, "direction": "rademacher"},
        {"type": "sgda", "lr": 0.02, "gradients": {"type": "delayed", "delay": 3}},
        {"type": "adaptive_saddle", "lr": 0.02, "gradients": {"type": "clipped"}, "average": "suffix0.5"},
        {"type": "extragradient", "lr": 0.02, "same_sample": False, "gradients": {"type": "noisy", "scale": 0.1}},
    ],
)
def test_a_run_stopped_in_its_middle_ends_at_the_same_bits(
    optimizer: dict[str, Any], play: Any, tmp_path: Path
) -> None:
    unbroken = play(optimizer, RANKING, steps=40)
    folder = tmp_path / "stopped"
    stops = []

    def stop(session: Any, event: str) -> None:
        if event == "log" and session.step == 17:
            stops.append(session.step)
            session.stopped = "user"

    first = play(optimizer, RANKING, folder=folder, steps=40, hooks=[stop])
    assert first.summary.steps == 17 == stops[0]
    stop_file(folder).unlink(missing_ok=True)
    resumed = play(optimizer, RANKING, folder=folder, resume=True, steps=40)
    assert torch.equal(unbroken.w, resumed.w) and torch.equal(unbroken.v, resumed.v)
    assert unbroken.summary.final == resumed.summary.final


def test_two_workers_agree_with_one(play: Any, tmp_path: Path) -> None:
    for gradients in ({"type": "exact"}, {"type": "clipped", "tau": 0.3, "scope": "sample"}):
        optimizer = {"type": "sgda", "lr": 0.05, "gradients": gradients}
        alone = play(optimizer, RANKING, batch_size=5)
        both = SimulatedWorld(2).run(
            lambda comm, o=optimizer: play(
                o, RANKING, comm=comm, folder=tmp_path / o["gradients"]["type"], batch_size=5
            )
        )
        for run in both:
            torch.testing.assert_close(run.w, alone.w, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(run.v, alone.v, rtol=1e-12, atol=1e-12)
        assert torch.equal(both[0].w, both[1].w)


def test_gradients_that_are_not_finite_are_skipped_then_told(play: Any, monkeypatch: Any) -> None:
    from raycipe.components.gradients.exact import Exact
    from raycipe.framework.contracts import Estimate

    calm = Exact.estimate
    bad_steps = {3, 4}

    def estimate(self: Any, problem: Any, w: torch.Tensor, v: torch.Tensor, players: str = "wv") -> Estimate:
        found = calm(self, problem, w, v, players)
        return Estimate(found.w * float("inf"), found.v) if problem.step in bad_steps else found

    monkeypatch.setattr(Exact, "estimate", estimate)
    run = play({"type": "sgda", "lr": 0.1}, steps=8)
    assert torch.equal(run.path[3], run.path[5]) and not torch.equal(run.path[5], run.path[6])
    assert run.summary.final["train/skipped"] == 2
    bad_steps.update(range(8, 30))
    with pytest.raises(RunError, match="the gradients of 10 steps in a row are not finite"):
        play({"type": "sgda", "lr": 0.1}, steps=40)


def test_in_plain_pytorch_each_player_goes_its_way() -> None:
    w, v = (torch.nn.Parameter(torch.ones(1)) for _ in range(2))
    groups = [{"params": [w], "role": "min"}, {"params": [v], "role": "max"}]
    optimizer = make("optimizers/sgda", params=groups, lr=0.1, lr_v=0.5, average="none")
    (w * v).sum().backward()
    optimizer.step()
    assert w.item() == pytest.approx(0.9) and v.item() == pytest.approx(1.5)
    ahead = make("optimizers/extragradient", params=groups, lr=0.1)
    with pytest.raises(ValueError, match="needs gradients at a second point: call step"):
        ahead.step()


def test_a_rate_of_zero_for_v_is_told(play: Any) -> None:
    run = play({"type": "sgda", "lr": 0.1, "lr_v": 0.0}, steps=3)
    assert (
        float(run.v) == 1.0
        and "lr_v is 0: v never moves, and this is no minimax problem any more" in run.summary.warnings
    )


def test_tasks_and_optimizers_must_have_the_same_players(play: Any) -> None:
    with pytest.raises(RunError, match="optimizers/sgd minimizes over all variables"):
        play({"type": "sgd", "lr": 0.1}, steps=1)
    plain = {**RANKING, "task": "classification", "model": {"type": "linear"}}
    with pytest.raises(RunError, match="optimizers/sgda is for minimax tasks"):
        play({"type": "sgda", "lr": 0.1}, plain, steps=1)
