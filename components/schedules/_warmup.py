"""Shared by the schedules: a linear warm-up before the schedule proper."""

from __future__ import annotations


def warmup_factor(step: int, warmup: int) -> float | None:
    """(step + 1) / warmup during the first `warmup` steps, so that the first step already moves; None afterwards."""
    return (step + 1) / warmup if step < warmup else None


def progress(step: int, total_steps: int, warmup: int) -> float:
    """0 at the first step after the warm-up, 1 at the last step of the run, never outside [0, 1]."""
    last = total_steps - 1 - warmup
    return min(1.0, max(0.0, (step - warmup) / last)) if last > 0 else 1.0
