"""MuJoCo's warnings go to Python's logging; by itself it appends them to MUJOCO_LOG.TXT in the current folder."""

from __future__ import annotations

import logging
import sys

_told: set[str] = set()


def take_warnings() -> None:
    """Receive MuJoCo's warnings if an environment has imported it, unless somebody receives them already."""
    mujoco = sys.modules.get("mujoco")
    if mujoco is not None and mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_tell)


def _tell(message: str) -> None:
    """Each warning once in a process: an unstable simulation gives one at every step, with the time at its end."""
    text, _, _ = message.partition(" Time = ")
    if text in _told:
        return
    _told.add(text)
    # a deprecated attribute of a model's file concerns whoever maintains the file
    logging.getLogger("mujoco").log(logging.DEBUG if "deprecated" in text else logging.WARNING, "MuJoCo: %s", text)
