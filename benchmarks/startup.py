"""CPU time of the commands that people wait for: help, list, check; beside Hydra's and LightningCLI's help.

`python benchmarks/startup.py [--peers PYTHON]`: PYTHON is an interpreter that has hydra-core and lightning.
Each figure is the least of several runs of user + system time of the child process, bare `python -c pass` included.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
REPEATS = 9
LARGE_RECIPE_LINES = 350
HEAD = """\
## Commands that people wait for

CPU time (user + system, least of nine) of the whole process, with compiled bytecode in place as after installation.
No torch, Ray or NumPy is imported by any of ours; a test holds that.
"""

HYDRA = """
import hydra
from omegaconf import DictConfig
@hydra.main(version_base=None, config_path=None)
def main(cfg: DictConfig) -> None: ...
main()
"""
LIGHTNING = """
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.demos.boring_classes import BoringModel, BoringDataModule
LightningCLI(BoringModel, BoringDataModule)
"""


def cpu_ms(command: list[str], repeats: int = REPEATS) -> float:
    """Least user + system time of the command in milliseconds."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    least = float("inf")
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=TOP, check=False, env=environment
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        least = min(least, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return least * 1000


def large_recipe(folder: Path) -> Path:
    """An ordinary recipe grown to 350 lines: a long sweep, many profiles and expectations."""
    lines = (TOP / "recipes" / "quickstart.yaml").read_text().splitlines()
    head = lines[: lines.index("profiles:")]
    profiles = ["profiles:"]
    number = 0
    while len(head) + len(profiles) < LARGE_RECIPE_LINES:
        profiles += [f"  p{number}:", "    train:", f"      epochs: {number + 1}", "    optimizer:", "      lr: 0.05"]
        number += 1
    path = folder / "large.yaml"
    path.write_text("\n".join([*head, *profiles]) + "\n")
    return path


def peer(python: str | None, script: str, folder: Path, name: str) -> float | None:
    """CPU of a peer's --help, None where it is not installed."""
    if python is None:
        return None
    path = folder / f"{name}.py"
    path.write_text(script)
    command = [python, str(path), "--help"]
    if subprocess.run(command, capture_output=True, check=False, env=os.environ).returncode != 0:
        return None
    return cpu_ms(command, repeats=3)


def rows(peers: str | None) -> list[tuple[str, float | None, str]]:
    """(what, milliseconds, bound)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        large = large_recipe(folder)
        ours = {
            "launch --help": ([str(BIN / "launch"), "--help"], "150"),
            "raycipe list": ([str(BIN / "raycipe"), "list"], "150"),
            "raycipe check recipes/quickstart.yaml": ([str(BIN / "raycipe"), "check", "recipes/quickstart.yaml"], "80"),
            f"raycipe check, {LARGE_RECIPE_LINES} lines, 60 profiles": (
                [str(BIN / "raycipe"), "check", str(large)],
                "",
            ),
        }
        return [
            ("python -c pass", cpu_ms([sys.executable, "-c", "pass"]), ""),
            *((what, cpu_ms(command), bound) for what, (command, bound) in ours.items()),
            ("Hydra, an empty app's --help", peer(peers, HYDRA, folder, "hydra_app"), ""),
            ("LightningCLI, a demo's --help", peer(peers, LIGHTNING, folder, "lightning_app"), ""),
        ]


def table(peers: str | None) -> str:
    lines = ["| command | CPU ms | bound |", "|---|---|---|"]
    for what, value, bound in rows(peers):
        lines.append(f"| `{what}` | {'not installed' if value is None else f'{value:.0f}'} | {bound} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter with hydra-core and lightning")
    print(f"{HEAD}\n{table(parser.parse_args().peers)}")
