"""The console scripts `launch` and `raycipe`. This file and what `--help` needs import nothing heavy."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from errno import ENOSPC
from io import TextIOWrapper
from pathlib import Path

EXAMPLE = "example: launch quickstart optimizer.lr=0.3 --profile smoke"
EXIT_INTERRUPTED = 130
EXIT_CODES = (
    "exit codes: 0 done; 1 the run failed; 2 the recipe or the command is wrong; 3 an expect is unmet; 130 Ctrl-C"
)


def launch(argv: Sequence[str] | None = None) -> int:
    """`launch RECIPE [key=value ...]`: check a recipe, run it, leave a run folder."""
    parser = launch_parser()
    args = parser.parse_intermixed_args(argv)
    args.command = ["launch", *(sys.argv[1:] if argv is None else argv)]

    def run() -> int:
        from raycipe.launchers.launch import run_launch

        return run_launch(args)

    return guarded(run)


def raycipe(argv: Sequence[str] | None = None) -> int:
    """`raycipe COMMAND`: everything around launching."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["launch"]:
        return launch(words[1:])
    args = raycipe_parser().parse_args(words)
    return guarded(lambda: int(args.act(args)))


def launch_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="launch",
        description="Check a recipe, run it with Ray, and leave a run folder.",
        epilog=f"{EXAMPLE}\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "recipe", metavar="RECIPE", help="a recipe file, or a packaged recipe's name such as `quickstart`"
    )
    parser.add_argument(  # with a default it is not among what argparse calls required
        "overrides", nargs="*", default=[], metavar="key=value", help="values to change: optimizer.lr=0.3"
    )
    parser.add_argument(
        "--profile", action="append", default=[], metavar="P", help="a profile of the recipe (repeatable)"
    )
    parser.add_argument("--check", action="store_true", help="only check; with -v print every value and its origin")
    parser.add_argument("--sweep", action="store_true", help="run the trials of the recipe's section `sweep`")
    parser.add_argument(
        "--resume", action="store_true", help="go on with RECIPE's newest run, or with the run RECIPE names"
    )
    parser.add_argument("--storage", default="runs", metavar="DIR", help="where run folders go (default: ./runs)")
    parser.add_argument("--components", action="append", default=[], metavar="DIR", help="a folder with own components")
    parser.add_argument(
        "--data-root", metavar="DIR", help="a folder outside the project that recipes may read files from"
    )
    parser.add_argument("--note", default="", metavar="TEXT", help="a sentence for the run's provenance")
    parser.add_argument("--dashboard", action="store_true", help="start Ray's dashboard, on 127.0.0.1")
    volume = parser.add_mutually_exclusive_group()
    volume.add_argument("-q", "--quiet", action="store_true", help="print only the results")
    volume.add_argument("-v", "--verbose", action="store_true", help="show Ray's own output too")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    return parser


def raycipe_parser() -> argparse.ArgumentParser:
    from raycipe.launchers import catalog, inspecting

    parser = argparse.ArgumentParser(
        prog="raycipe", description="Recipes for machine-learning research, run on Ray.", epilog=EXIT_CODES
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
    commands.add_parser("launch", help="run a recipe (the same as the command `launch`)", add_help=False)
    catalog.add_parsers(commands)
    inspecting.add_parsers(commands)
    return parser


class _Version(argparse.Action):
    """Prints the version, which is read from the package's metadata only when somebody asks."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"raycipe {version('raycipe')}")
        parser.exit()


def guarded(run: Callable[[], int]) -> int:
    """Run a command; a user's mistake ends in a message and an exit code, a defect of ours in a traceback."""
    from raycipe.framework.errors import RecipeError, RunError, explain

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower() not in ("utf-8", "utf8"):
            stream.reconfigure(errors="replace")
    try:
        Path.cwd()
        code = run()
        sys.stdout.flush()
        if code == EXIT_INTERRUPTED and "ray" in sys.modules:
            os._exit(code)  # a Ray that was stopped while it started can't be trusted to end in order
        return code
    except RecipeError as error:
        print(explain(error.problems), file=sys.stderr)
        return error.exit_code
    except RunError as error:  # what fails in a run is told in its result: here nothing has started
        print(f"error: {error}", file=sys.stderr)
        return RecipeError.exit_code
    except KeyboardInterrupt:
        print("interrupted before anything started", file=sys.stderr, flush=True)
        os._exit(EXIT_INTERRUPTED)  # Python's own end may carry another code
    except FileNotFoundError as error:
        if error.filename is not None:
            raise
        print("error: the current folder does not exist any more", file=sys.stderr)
        return RecipeError.exit_code
    except BrokenPipeError:
        sys.stderr.close()  # `raycipe list | head`: the reader went away, there is nobody to tell
        return 141
    except OSError as error:
        if error.errno != ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python would try to write the rest once more when it ends
        print(f"error: can't write: {error.strerror}", file=sys.stderr)
        return RunError.exit_code


if __name__ == "__main__":
    sys.exit(raycipe())
