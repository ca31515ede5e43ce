"""What runs inside a Ray Train worker."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

REPORT_EVERY_S = 10.0


def loop(config: Mapping[str, Any]) -> dict[str, Any]:
    """One worker's training loop; rank 0's answer is the run's summary."""
    import ray.train
    import ray.train.torch

    from raycipe.framework.comm import LocalComm, TorchComm
    from raycipe.launchers.train import work

    comm = TorchComm() if ray.train.get_context().get_world_size() > 1 else LocalComm()
    config = {**config, "resume": is_regrouped(config["run_dir"], comm) or config["resume"]}
    hooks: list[Any] = [Reporter()]
    if comm.rank == 0:
        hooks.append(Exporter(config))
    return work(config, comm, ray.train.torch.get_device(), hooks)


def is_regrouped(run_dir: str, comm: Any) -> bool:
    """Whether Ray has started the workers anew by itself, for an elastic run that has grown: then the newest checkpoint
    counts, as after a death. The sign lies in the folder that goes with each fit. All ranks call it and agree."""
    from pathlib import Path

    sign = Path(run_dir) / ".ray" / "begun"
    before: bool = comm.broadcast_object(sign.exists())
    if comm.rank == 0:
        sign.parent.mkdir(exist_ok=True)
        sign.touch()
    return before


class Reporter:
    """Tells Ray Train the newest metrics, at checkpoints that rank 0 finds to be far enough apart: a report may block
    all ranks for one poll of Ray's controller."""

    def __init__(self) -> None:
        self.reported_at = time.monotonic()

    def __call__(self, session: Any, event: str) -> None:
        import ray.train

        if event not in ("checkpoint", "end"):
            return
        wanted = event == "end" or time.monotonic() - self.reported_at >= REPORT_EVERY_S
        if session.comm.broadcast_object(wanted):
            self.reported_at = time.monotonic()
            ray.train.report({**session.latest, "step": session.step})


class Exporter:
    """Exports the newest row as Prometheus gauges, tagged by recipe, for Ray's dashboard and Grafana."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        from pathlib import Path

        from ray.util.metrics import Gauge

        tags = ("recipe", "recipe_hash", "run", "metric")
        self.gauge = Gauge("raycipe_metric", "Newest value of a metric of a run.", tag_keys=tags)
        self.tags = {**config["metadata"], "run": Path(config["run_dir"]).name}

    def __call__(self, session: Any, event: str) -> None:
        if event in ("log", "evaluate", "end"):
            for name, value in session.latest.items():
                self.gauge.set(value, tags={**self.tags, "metric": name})
