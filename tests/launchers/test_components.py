"""A folder of own components reaches Ray's workers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from raycipe.framework import plugins

FLAT = '''
from lab.schedules._level import LEVEL


@register
class Flat(Schedule):
    """The same rate throughout."""

    def factor(self, step: int, total_steps: int) -> float:
        return LEVEL
'''

ELSEWHERE = """
import os, sys
import ray
from raycipe.framework import plugins

plugins.add_folder(sys.argv[1])
roots = [tuple(root) for root in plugins.roots()]
ray.init(address="local", num_cpus=1, include_dashboard=False, runtime_env={"py_modules": plugins.added_folders()})

@ray.remote
def work():
    from raycipe.framework import plugins, registry
    plugins.adopt(roots)
    return registry.make("schedules/flat").factor(0, 1), plugins.roots()[-1].folder

factor, folder = ray.get(work.remote(), timeout=100)
assert factor == 7.0, factor
assert folder != plugins.added_folders()[0], folder
"""


@pytest.mark.ray
def test_a_class_of_a_components_folder_runs_in_a_worker(lab: Callable[..., Path], ray_session: Any) -> None:
    lab({"schedules/_level": "LEVEL = 7.0", "schedules/flat": FLAT})
    roots = [tuple(root) for root in plugins.roots()]

    def work() -> float:
        from raycipe.framework import plugins, registry

        plugins.adopt(roots)
        return float(registry.make("schedules/flat").factor(0, 1))

    assert ray_session.get(ray_session.remote(work).remote(), timeout=120) == 7.0


@pytest.mark.slow
def test_ray_ships_the_folder_to_machines_that_do_not_have_it(lab: Callable[..., Path]) -> None:
    folder = lab({"schedules/_level": "LEVEL = 7.0", "schedules/flat": FLAT}, add=False)
    done = subprocess.run([sys.executable, "-c", ELSEWHERE, str(folder)], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
