"""Shared by the measures of minimax risks: the best responses of both players on a set of examples."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from raycipe.framework.contracts import Batch, Point, Saddle, SaddleTask, Skipped, TensorSplit, Trained
from raycipe.framework.training.players import FlatPlayers

TOLERANCE = 1e-8  # of the inner solutions: norm of the projected gradient step
MAX_STEPS = 3000
NEWTON_SIZE = 500  # players up to this size are tried with second derivatives first
NEWTON_STEPS = 50


def saddle_of(trained: Trained) -> tuple[SaddleTask, Saddle]:
    if not isinstance(trained.task, SaddleTask) or not isinstance(trained.model, Saddle):
        raise Skipped("it needs a minimax task")
    return trained.task, trained.model


def whole_split(trained: Trained, name: str) -> Batch:
    """All examples of a split in one batch. Raises Skipped without it."""
    split = trained.splits.get(name)
    if not isinstance(split, TensorSplit):
        raise Skipped(f"it needs a `{name}` split that lies in memory")
    tensors = {key: values.to(trained.device) for key, values in split.tensors.items()}
    return {**tensors, "id": torch.arange(len(split), device=trained.device)}


def worst_value(task: SaddleTask, saddle: Saddle, batch: Batch) -> float:
    """max over v of F(w, v) at the module's w: closed where the task has it, else by projected ascent."""
    flat = FlatPlayers(task, saddle)
    w, v = flat.read()
    best = task.best_response(saddle, batch)
    if best is not None:
        return float(flat.value(w, best, batch).mean())
    found = minimize(lambda x: -flat.value(w, x, batch).mean(), v, lambda x: task.project(saddle, w, x)[1])
    return float(flat.value(w, found, batch).mean())


def best_value(task: SaddleTask, saddle: Saddle, batch: Batch) -> float:
    """min over w of F(w, v) at the module's v, by projected descent (f must be convex in w)."""
    flat = FlatPlayers(task, saddle)
    w, v = flat.read()
    found = minimize(lambda x: flat.value(x, v, batch).mean(), w, lambda x: task.project(saddle, x, v)[0])
    return float(flat.value(found, v, batch).mean())


def minimize(value: Callable[[Tensor], Tensor], start: Tensor, project: Callable[[Tensor], Tensor]) -> Tensor:
    """The least value within bounds: Newton's method where its end lies inside them, else `descend`."""
    if start.numel() <= NEWTON_SIZE:
        found = _newton(value, start)
        if found is not None and torch.equal(project(found), found):
            return found
    return descend(value, start, project)


def _newton(value: Callable[[Tensor], Tensor], start: Tensor) -> Tensor | None:
    """Damped Newton steps to a gradient of TOLERANCE, without bounds; None where they do not get there."""
    x, both = start, torch.func.grad_and_value(value)
    for _ in range(NEWTON_STEPS):
        slope, here = both(x)
        if float(slope.norm()) < TOLERANCE:
            return x
        step = torch.linalg.lstsq(torch.func.hessian(value)(x), -slope.unsqueeze(1), driver="gelsd").solution[:, 0]
        promise, share = float(slope @ step), 1.0
        if not promise < 0:  # not convex here
            return None
        while float(value(x + share * step)) > float(here) + share * promise / 4 and share > 1e-9:
            share /= 2
        if share <= 1e-9:  # rounding: no way down is left
            return x if float(slope.norm()) < TOLERANCE**0.5 else None
        x = x + share * step
    return None


def descend(value: Callable[[Tensor], Tensor], start: Tensor, project: Callable[[Tensor], Tensor]) -> Tensor:
    """Accelerated projected gradient descent with backtracking and restarts, to TOLERANCE.

    Reference: Y. Nesterov, Gradient methods for minimizing composite functions, 2013; B. O'Donoghue, E. Candes, 2015.
    Raises Skipped if it does not get there: a figure from an unfinished solution would be wrong.
    """
    both = torch.func.grad_and_value(value)
    x = ahead = project(start)
    momentum, smoothness = 1.0, 1.0
    for _ in range(MAX_STEPS):
        slope, here = both(ahead)
        smoothness /= 2
        while True:
            new = project(ahead - slope / smoothness)
            move = new - ahead
            bound = here + (slope * move).sum() + smoothness / 2 * move.square().sum()
            if float(value(new)) <= float(bound) + 1e-15 * abs(float(here)):
                break
            smoothness *= 2
        if float(move.norm()) * smoothness < TOLERANCE:
            return new
        if float(((ahead - new) * (new - x)).sum()) > 0:  # the momentum leads uphill
            momentum = 1.0
        grown = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = new + (momentum - 1) / grown * (new - x)
        x, momentum = new, grown
    raise Skipped(f"the inner solution did not reach {TOLERANCE:g} in {MAX_STEPS} steps")


def at_point(saddle: Saddle, flat: FlatPlayers, point: Point) -> Saddle:
    """The module moved to a flat point."""
    flat.write(*(part.to(saddle.dtype) for part in point))
    return saddle
