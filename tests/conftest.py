"""Settings that must stand before Ray or torch is imported, and the one Ray instance that all tests share."""

from __future__ import annotations

import os
import tempfile

_scratch = tempfile.mkdtemp(prefix="raycipe-tests-")
os.environ.update(
    OMP_NUM_THREADS="1",
    RAY_TRAIN_HEALTH_CHECK_INTERVAL_S="0.2",
    RAY_TRAIN_ENABLE_PREEMPTION_WATCHER="0",
    RAY_TRAIN_METRICS_ENABLED="0",
    RAY_USAGE_STATS_ENABLED="0",
    RAY_AUTH_MODE="token",
    RAY_AUTH_TOKEN_PATH=os.path.join(_scratch, "auth_token"),  # noqa: PTH118
    MPLBACKEND="Agg",
    MPLCONFIGDIR=os.path.join(_scratch, "mpl"),  # noqa: PTH118
    XDG_CACHE_HOME=os.path.join(_scratch, "cache"),  # noqa: PTH118
)

import secrets  # noqa: E402
import shutil  # noqa: E402
import sys  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import pytest  # noqa: E402

Path(os.environ["RAY_AUTH_TOKEN_PATH"]).write_text(secrets.token_hex(32))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several test processes, one of them runs all tests that share a Ray."""
    for item in items:
        if "ray_session" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("ray"))


@pytest.fixture(scope="session")
def ray_session() -> Iterator[Any]:
    """One local Ray with two CPUs for the whole test session."""
    import ray

    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}},
    )
    yield ray
    ray.shutdown()


COMPONENT_HEAD = """
from __future__ import annotations
from typing import Annotated, Any, Literal, TypedDict
import torch
from raycipe.framework.arguments import Count, FromData, InputFile, Length, Positive, Range, Share, default
from raycipe.framework.contracts import Compressor, Measure, Measured, Model, Optimizer, Schedule
from raycipe.framework.registry import register

"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Any]:
    """`lab({"schedules/flat": text}, name="lab")` makes a `--components` folder; it is forgotten after the test."""
    from raycipe.framework import plugins, registry

    added, made = list(plugins._added), []

    def make(files: dict[str, str], name: str = "lab", add: bool = True) -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        made.append(name)
        for path, text in files.items():
            file = folder / f"{path}.py"
            file.parent.mkdir(exist_ok=True)
            file.write_text(COMPONENT_HEAD + text)
        if add:
            plugins.add_folder(str(folder))
        return folder

    yield make
    plugins._added[:] = added
    tops = [name for name in made if str(tmp_path) in str(getattr(sys.modules.get(name), "__path__", ""))]
    for key in [key for key, cls in registry._classes.items() if cls.__module__.partition(".")[0] in tops]:
        del registry._classes[key]
    for name in [name for name in sys.modules if name.partition(".")[0] in tops]:
        del sys.modules[name]


def pytest_sessionfinish() -> None:
    shutil.rmtree(_scratch, ignore_errors=True)
