"""`raycipe doctor`: what this machine has, what is missing, and how to mend it."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, TextIO

MIN_SHARED_MEMORY = 1 << 30  # bytes of /dev/shm; Ray's object store falls back to slow files below
MIN_DISK = 2 << 30


class Finding(NamedTuple):
    """One line: `state` is ok, note (optional part missing) or bad; `mend` says what to do."""

    state: str
    what: str
    detail: str
    mend: str = ""


def examine(storage: str, quick: bool, out: TextIO) -> int:
    """Print every finding as it is made. Exit code 0 if nothing is bad, else 1."""
    bad = 0
    for finding in findings(storage, quick):
        print(f"{finding.state:<5} {finding.what:<14} {finding.detail}", file=out, flush=True)
        if finding.mend:
            print(f"{'':<20} {finding.mend}", file=out, flush=True)
        bad += finding.state == "bad"
    print(f"{bad} to mend" if bad else "all well", file=out)
    return 1 if bad else 0


def findings(storage: str, quick: bool) -> Iterator[Finding]:
    checks: list[Callable[[], Iterator[Finding]]] = [python, torch_, ray_, processors, memory, lambda: disk(storage)]
    checks += [ports, compiler, optional, components]
    for check in checks:
        yield from check()
    if not quick:
        yield from two_workers()


def python() -> Iterator[Finding]:
    words = f"{sys.version.split()[0]} in {sys.prefix}"
    good = (3, 11) <= sys.version_info[:2] < (3, 14)
    yield Finding("ok" if good else "bad", "python", words, "" if good else "use Python 3.11 to 3.13")


def torch_() -> Iterator[Finding]:
    try:
        import torch
    except Exception as error:  # noqa: BLE001 - a broken install fails in many ways, all are the finding
        yield Finding(
            "bad", "torch", f"does not import: {error}", "pip install torch (see README.md for CPU-only builds)"
        )
        return
    yield Finding("ok", "torch", f"{torch.__version__}, {torch.get_num_threads()} threads")
    if not torch.cuda.is_available():
        yield Finding("note", "GPUs", "none that torch can use", "recipes run on the CPU; leave gpus_per_worker at 0")
        return
    for index in range(torch.cuda.device_count()):
        card = torch.cuda.get_device_properties(index)
        yield Finding("ok", f"GPU {index}", f"{card.name}, {card.total_memory / 1e9:.0f} GB")


def ray_() -> Iterator[Finding]:
    try:
        found = version("ray")
    except PackageNotFoundError:
        yield Finding("bad", "ray", "not installed", 'pip install "ray[default,train,tune]>=2.60,<3"')
        return
    missing = [name for name in ("aiohttp", "opencensus", "grpc") if find_spec(name) is None]
    if missing:
        yield Finding(
            "bad", "ray", f"{found} without its `default` part", f'pip install "ray[default,train,tune]=={found}"'
        )
    else:
        yield Finding("ok", "ray", found)
    if os.environ.get("RAY_AUTH_MODE") == "disabled":
        yield Finding(
            "bad", "RAY_AUTH_MODE", "disabled", "unset it: without a token anyone on the network can run code here"
        )


def processors() -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    mend = "" if cores > 1 else "recipes with num_workers 2 need 2 CPUs: launch with resources.num_workers=1"
    yield Finding("ok" if cores > 1 else "note", "cores", str(cores), mend)


def memory() -> Iterator[Finding]:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    good = total >= 4e9
    yield Finding("ok" if good else "note", "memory", f"{total / 1e9:.1f} GB", "" if good else "Ray wants 4 GB or more")
    if Path("/dev/shm").is_dir():
        free = shutil.disk_usage("/dev/shm").total
        good = free >= MIN_SHARED_MEMORY
        mend = "" if good else "in a container: --shm-size=2g"
        yield Finding("ok" if good else "note", "shared memory", f"{free / 1e9:.1f} GB in /dev/shm", mend)


def disk(storage: str) -> Iterator[Finding]:
    folder = Path(storage).absolute()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(b"x")
    except OSError as error:
        yield Finding("bad", "storage", f"{folder}: {error.strerror}", "choose a folder with --storage DIR")
        return
    free = shutil.disk_usage(existing).free
    mend = "" if free >= MIN_DISK else "less than 2 GB free: checkpoints may not fit; choose another with --storage DIR"
    yield Finding("ok" if not mend else "bad", "storage", f"{folder}, {free / 1e9:.1f} GB free", mend)


def ports() -> Iterator[Finding]:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", 8265))
        except OSError:
            mend = "launch --dashboard takes the next free port and shows it"
            yield Finding("note", "port 8265", "taken (another Ray dashboard?)", mend)
            return
    yield Finding("ok", "port 8265", "free for Ray's dashboard")


def compiler() -> Iterator[Finding]:
    found = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")
    mend = "" if found else "only train.compile needs one: install g++ and Python's headers"
    yield Finding("ok" if found else "note", "C++ compiler", found or "none", mend)


def optional() -> Iterator[Finding]:
    parts = {
        "mujoco": ("mujoco", "rl"),
        "gymnasium": ("gymnasium", "rl"),
        "mlflow": ("mlflow", "mlflow"),
        "wandb": ("wandb", "wandb"),
    }
    for name, (module, extra) in parts.items():
        if find_spec(module) is None:
            yield Finding("note", name, "not installed (optional)", f'pip install "raycipe[{extra}]"')
            continue
        if name == "mujoco":
            yield mujoco_works()
        else:
            server = "" if name != "mlflow" or os.environ.get("MLFLOW_TRACKING_URI") else ", needs MLFLOW_TRACKING_URI"
            yield Finding("ok", name, _version(name) + server)


def _version(name: str) -> str:
    for distribution in (name, f"{name}-skinny"):
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return "installed"


def mujoco_works() -> Finding:
    """Simulate one step of a falling ball: a broken native library shows here and not in a worker."""
    try:
        import mujoco

        model = mujoco.MjModel.from_xml_string(
            "<mujoco><worldbody><body><freejoint/><geom size='1'/></body></worldbody></mujoco>"
        )
        data = mujoco.MjData(model)
        mujoco.mj_step(model, data)
    except Exception as error:  # noqa: BLE001 - whatever the native library raises is the finding
        return Finding(
            "note", "mujoco", f"{_version('mujoco')} fails: {error}", 'pip install --force-reinstall "raycipe[rl]"'
        )
    return Finding("ok", "mujoco", f"{_version('mujoco')}, a step simulated")


def components() -> Iterator[Finding]:
    from raycipe.framework.plugins import roots

    names = ", ".join(f"{root.package} ({root.origin})" for root in roots())
    yield Finding("ok", "components", names)


def two_workers() -> Iterator[Finding]:
    """The quickstart's smoke profile with two Ray Train workers, in a folder that is removed afterwards."""
    import subprocess

    with tempfile.TemporaryDirectory(prefix="raycipe-doctor-") as folder:
        words = [sys.executable, "-m", "raycipe.launchers.cli", "launch", "quickstart", "--profile", "smoke", "-q"]
        command = [*words, "--storage", folder]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        except subprocess.TimeoutExpired:
            yield Finding("bad", "two workers", "no result within 180 s", "try: launch quickstart --profile smoke -v")
            return
        if done.returncode == 0:
            yield Finding("ok", "two workers", "a real training epoch ran")
            return
        reason = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        yield Finding("bad", "two workers", reason[0], "see all of it with: launch quickstart --profile smoke -v")
