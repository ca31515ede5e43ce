"""Run every benchmark and write docs/benchmarks.md: `make bench`. Takes several minutes; leave the machine alone."""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from raycipe.framework.provenance import cpu_model, installed

TOP = Path(__file__).parents[1]
PARTS = ("overhead", "startup")

HEAD = """\
# Benchmarks

Written by `make bench`: each figure stands beside its peer's from the same run. Times are of one machine; the
ratios are what to look at.

{date} · {cpu} · Python {python} · torch {torch} · Ray {ray} · load before the run {load}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter with hydra-core and lightning")
    args = parser.parse_args()
    packages = installed()
    load = Path("/proc/loadavg")
    text = HEAD.format(
        date=datetime.now(UTC).date(),
        cpu=cpu_model(),
        python=platform.python_version(),
        torch=packages.get("torch"),
        ray=packages.get("ray"),
        load=load.read_text().split()[0] if load.exists() else "unknown",
    )
    for part in PARTS:
        command = [sys.executable, str(Path(__file__).with_name(f"{part}.py"))]
        if part == "startup" and args.peers:
            command += ["--peers", args.peers]
        print(f"{part} ...", flush=True)
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=TOP)
        text += f"\n{done.stdout.strip()}\n"
    (TOP / "docs" / "benchmarks.md").write_text(text)
    print(TOP / "docs" / "benchmarks.md")


if __name__ == "__main__":
    main()
