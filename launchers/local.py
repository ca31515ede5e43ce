"""`num_workers: 0`: the loop in this process, without Ray. For tests, debugging and sweeps of small models."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from raycipe.framework.errors import NotStarted
from raycipe.launchers.progress import Follower
from raycipe.launchers.stopping import graceful


def run_here(
    config: Mapping[str, Any], prepare: Callable[[], None], follower: Follower, on_info: Callable[[str], None]
) -> dict[str, Any]:
    """Train in this process."""
    device = device_of(config["recipe"])
    prepare()
    from raycipe.framework.comm import LocalComm
    from raycipe.launchers.train import work

    ended = threading.Event()
    with graceful(config["run_dir"], on_info):
        thread = follower.follow(ended)
        try:
            return work(config, LocalComm(), device)
        finally:
            ended.set()
            thread.join()


def device_of(recipe: Mapping[str, Any]) -> str:
    """Where a single worker trains. Raises NotStarted if the recipe asks for a GPU that is not there."""
    import torch

    gpus = (recipe.get("resources") or {}).get("gpus_per_worker") or 0
    if gpus and not torch.cuda.is_available():
        raise NotStarted(
            "resources",
            f"the recipe asks for GPUs ({gpus:g} per worker), and torch sees none here",
            "set resources.gpus_per_worker=0 to train on the CPU",
            "resources.gpus_per_worker",
        )
    return "cuda:0" if gpus else "cpu"
