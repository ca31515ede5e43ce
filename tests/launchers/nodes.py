"""A cluster of two nodes on this machine, of which one goes and comes while a run trains: what test_nodes.py starts.

    python nodes.py lost|grown FOLDER

A process of its own: `Cluster.add_node` needs the main thread, and Ray's settings must stand before it is imported.
Prints one line of JSON: what `train.run` gave, what it told people, the run's folder.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from raycipe.framework.training.signals import stop_file

LIMIT_S = 240.0


def recipe(num_workers: Any, steps: int) -> dict[str, Any]:
    train = {"steps": steps, "batch_size": 32, "eval_every": steps, "checkpoint_every": 250}
    return {
        "recipe": 1,
        "name": "toy",
        "seed": 1,
        "data": {"type": "digits"},
        "model": {"type": "mlp", "hidden": [64]},
        "task": {"type": "classification"},
        "optimizer": {"type": "adamw", "lr": 0.003},
        "train": train,
        "resources": {"num_workers": num_workers},
    }


def new_run(home: Path, name: str) -> Path:
    folder = home / "runs" / "toy" / name
    for part in ("checkpoints", "artifacts"):
        (folder / part).mkdir(parents=True)
    return folder


class Training:
    """A run in a thread."""

    def __init__(self, plain: dict[str, Any], folder: Path) -> None:
        self.folder = folder
        self.outcome: dict[str, Any] = {}
        self.told: list[str] = []
        self.thread = threading.Thread(target=self._run, args=(plain,))
        self.thread.start()

    def _run(self, plain: dict[str, Any]) -> None:
        from raycipe.launchers import train

        self.outcome.update(train.run(plain, str(self.folder), resume=False, on_info=self.told.append))

    def wait_for_checkpoint(self) -> None:
        end = time.monotonic() + LIMIT_S
        while not list(self.folder.glob("checkpoints/step-*/manifest.json")):
            assert self.thread.is_alive() and time.monotonic() < end, self.outcome
            time.sleep(0.02)

    def workers(self) -> int:
        """How many workers wrote the newest checkpoint."""
        newest = max(self.folder.glob("checkpoints/step-*/manifest.json"))
        return int(json.loads(newest.read_text())["world_size"])

    def finish(self) -> dict[str, Any]:
        self.thread.join(LIMIT_S)
        assert not self.thread.is_alive(), self.told
        return {"outcome": self.outcome, "told": self.told, "folder": str(self.folder)}


def lost(cluster: Any, home: Path) -> dict[str, Any]:
    """A node is lost in mid-run and another one comes; beside it a run that nothing happened to."""
    node = cluster.add_node(num_cpus=1)
    whole = Training(recipe(2, 1500), new_run(home, "2026-01-01-000000-aaaa")).finish()
    broken = Training(recipe(2, 1500), new_run(home, "2026-01-01-000000-bbbb"))
    broken.wait_for_checkpoint()
    cluster.remove_node(node)
    cluster.add_node(num_cpus=1)
    return {"whole": whole, "broken": broken.finish()}


def grown(cluster: Any, home: Path) -> dict[str, Any]:
    """An elastic run begins with one worker, a node comes in mid-run, and when both work it is asked to stop."""
    run = Training(recipe([1, 2], 10**8), new_run(home, "2026-01-01-000000-aaaa"))
    run.wait_for_checkpoint()
    sizes = [run.workers()]
    cluster.add_node(num_cpus=1)
    end = time.monotonic() + LIMIT_S
    while run.workers() == sizes[0]:  # Ray looks for new nodes once a minute
        assert run.thread.is_alive() and time.monotonic() < end, run.told
        time.sleep(0.2)
    sizes.append(run.workers())
    stop_file(str(run.folder)).touch()
    return {**run.finish(), "sizes": sizes}


def main() -> None:
    what, home = sys.argv[1], Path(sys.argv[2])
    token = home / "token"
    token.write_text("a" * 64)
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(token), OMP_NUM_THREADS="1")
    from raycipe.launchers.ray_session import set_environment

    set_environment(insecure=False, dashboard=False)
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        found = {"lost": lost, "grown": grown}[what](cluster, home)
    finally:
        ray.shutdown()
        cluster.shutdown()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
