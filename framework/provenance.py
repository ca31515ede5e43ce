"""Where a run's numbers came from: recipe, versions, hardware, command. No environment but what can change numbers."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from raycipe.framework.files import sha256_file
from raycipe.framework.runs import FORMAT, utc_now

VARIABLES = ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")


def collect(
    recipe_path: str,
    *,
    command: Sequence[str],
    recipe_hash: str,
    seed: int,
    bases: Sequence[tuple[str, str]] = (),
    profiles: Sequence[str] = (),
    overrides: Sequence[str] = (),
    plugins: Sequence[Mapping[str, Any]] = (),
    is_smoke: bool = False,
    note: str = "",
    launcher: str = "train",
) -> dict[str, Any]:
    """Everything known before the run starts. The launcher adds `ray`, `data`, `gpus`, `threads` and `finished`."""
    path = Path(recipe_path)
    packages = installed()
    return {
        "format": FORMAT,
        "created": utc_now(),
        "finished": None,
        "command": list(command),
        "launcher": launcher,
        "cwd": str(Path.cwd()),
        "recipe": {"path": recipe_path, "sha256": sha256_file(path), "git": git_state(path.parent)},
        "bases": [{"path": base, "sha256": digest} for base, digest in bases],
        "profile": list(profiles),
        "smoke": is_smoke,
        "overrides": list(overrides),
        "recipe_hash": recipe_hash,
        "seed": seed,
        "raycipe": {"version": packages.get("raycipe", "unknown"), "git": git_state(Path(__file__).parent)},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": {"model": cpu_model(), "cores": os.cpu_count()},
        "gpus": [],
        "packages": packages,
        "plugins": [dict(plugin) for plugin in plugins],
        "ray": None,
        "data": [],
        "threads": None,
        "deterministic": None,
        "environment": environment(),
        "attempts": [],
        "note": note,
    }


def environment() -> dict[str, str]:
    return {
        name: value for name, value in sorted(os.environ.items()) if name in VARIABLES or name.startswith("RAYCIPE_")
    }


def installed() -> dict[str, str]:
    """Name → version of every installed distribution; the first on the path wins, as it does for imports."""
    found: dict[str, str] = {}
    for item in distributions():
        metadata = item.metadata  # parsed at each look
        if name := metadata["Name"]:
            found.setdefault(name.lower(), metadata["Version"])
    return dict(sorted(found.items()))


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def git_state(folder: Path) -> dict[str, Any] | None:
    """Commit, whether files differ from it, and the remote without user info; None outside a repository."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    return {
        "commit": commit,
        "dirty": bool(_git(folder, "status", "--porcelain", "--untracked-files=no")),
        "remote": _without_user(_git(folder, "remote", "get-url", "origin")),
    }


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _without_user(url: str | None) -> str | None:
    if not url:
        return None
    parts = urlsplit(url)
    if parts.scheme:
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    return url.rpartition("@")[2]  # host:path


def versions_for_numbers(provenance: Mapping[str, Any]) -> dict[str, str]:
    """What must agree for bit-for-bit equality, as name → value."""
    packages = provenance.get("packages") or {}
    cpu = provenance.get("cpu") or {}
    values = {
        "python": provenance.get("python"),
        "torch": packages.get("torch"),
        "numpy": packages.get("numpy"),
        "ray": packages.get("ray"),
        "raycipe": (provenance.get("raycipe") or {}).get("version"),
        "cpu": cpu.get("model"),
        "threads": provenance.get("threads"),
        "gpus": ", ".join(gpu.get("name", "?") for gpu in provenance.get("gpus") or []),
    }
    return {name: str(value) for name, value in values.items()}


def gpus() -> list[dict[str, Any]]:
    """Name and memory (bytes) of each GPU that torch sees."""
    import torch

    if not torch.cuda.is_available():
        return []
    found = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        found.append({"name": properties.name, "memory": properties.total_memory, "driver": torch.version.cuda})
    return found
