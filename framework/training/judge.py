"""Which evaluations are the best so far, and when training no longer improves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raycipe.framework.errors import RunError
from raycipe.framework.training.plan import Settings, Target


class Judge:
    """`best` maps each judged metric to its best evaluations, best first: as many as `keep_best` keeps, else one."""

    def __init__(self, recipe: Mapping[str, Any], settings: Settings) -> None:
        self.keep, self.stop = settings.keep_best, settings.early_stop
        sweep = recipe.get("sweep") or {}
        found = [Target(sweep["metric"], sweep.get("mode", "min"))] if sweep.get("metric") else []
        found += [target for target in (self.stop, self.keep) if target]
        self.targets = {target.metric: target for target in found}
        self.best: dict[str, list[dict[str, float]]] = {}
        self.without_gain = 0

    @property
    def needed(self) -> bool:
        return self.keep is not None or self.stop is not None

    def look(self, latest: Mapping[str, float], step: int) -> tuple[bool, bool]:
        """Judge the newest values: (one of the best to keep, time to stop)."""
        is_best = should_stop = False
        for metric, target in self.targets.items():
            if metric not in latest:
                if target in (self.keep, self.stop):
                    raise _unknown(metric, latest, step)
                continue
            entries = self.best.setdefault(metric, [])
            if self.stop is not None and metric == self.stop.metric:
                should_stop = self._lags(latest[metric], entries[0]["value"] if entries else None)
            is_best |= self._insert(target, entries, latest[metric], step)
        return is_best, should_stop

    def _insert(self, target: Target, entries: list[dict[str, float]], value: float, step: int) -> bool:
        kept = self.keep is not None and self.keep.metric == target.metric
        count = self.keep.count if self.keep is not None and kept else 1
        place = next((i for i, old in enumerate(entries) if target.better(value, old["value"])), len(entries))
        if value != value or place >= count:
            return False
        entries.insert(place, {"value": value, "step": step})
        del entries[count:]
        return kept

    def _lags(self, value: float, best: float | None) -> bool:
        """Counts an evaluation without a gain of more than `min_delta`; True once there are `patience` in a row."""
        assert self.stop is not None
        delta = self.stop.min_delta if self.stop.mode == "min" else -self.stop.min_delta
        gained = self.stop.better(value, None if best is None else best - delta)
        self.without_gain = 0 if gained else self.without_gain + 1
        return self.without_gain >= self.stop.patience

    def kept(self) -> list[dict[str, Any]]:
        """The evaluations whose checkpoints stay, best first."""
        if self.keep is None:
            return []
        return [{**entry, "metric": self.keep.metric} for entry in self.best.get(self.keep.metric, [])]

    def summary(self) -> dict[str, dict[str, float]]:
        return {metric: dict(entries[0]) for metric, entries in self.best.items() if entries}


def _unknown(metric: str, latest: Mapping[str, float], step: int) -> RunError:
    hint = f"this run reports {', '.join(sorted(latest))}"
    return RunError("recipe", f"no metric is named {metric}", hint, "train", step)
