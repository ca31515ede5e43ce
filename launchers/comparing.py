"""`raycipe compare` in the terminal: a column a run, or a row a run where there are many."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from raycipe.framework.errors import RunError
from raycipe.framework.results.compare import Comparison, compare, labels, leading, write_page
from raycipe.framework.results.report import short
from raycipe.framework.results.turned import turn
from raycipe.framework.runs import Run, find, find_all, trials

MANY = 6  # more runs than this are rows
FIRST = 24  # characters that the names of settings need


def run_compare(args: argparse.Namespace) -> int:
    comparison = compare(chosen(args.runs, args.storage))
    console = Console(soft_wrap=False)
    if len(comparison.runs) > MANY or not names_fit(comparison, console.width):
        left_out = print_turned(comparison, console)
    else:
        print_columns(comparison, console)
        left_out = 0
    page = Path(args.out or Path(args.storage) / "compare.html").absolute()
    try:
        write_page(comparison, page)
    except OSError as error:
        raise RunError(
            "storage", f"{page}: can't write there: {error.strerror}", "choose another with --out"
        ) from error
    if left_out:
        print(f"{left_out} more {'columns' if left_out > 1 else 'column'} and all curves in")
    print(page)
    return 0


def chosen(words: Sequence[str], storage: str) -> list[Run]:
    """The runs that the words name, each once: `*` finds the newest a second time through the link `latest`.

    A recipe's name alone means all its runs, a sweep or study alone its trials.
    """
    every = find_all(storage, words[0]) if len(words) == 1 and Path(words[0]).name == words[0] else []
    named = every or [find(text, storage) for text in words]
    found = list({run.path.resolve(): run for run in named}.values())
    inside = trials(found[0]) if len(found) == 1 else []
    return inside or found


def names_fit(comparison: Comparison, width: int) -> bool:
    """Whether a line has room for a column a run: cut off, long names of trials would all look the same."""
    return FIRST + sum(len(label) + 3 for label in labels(comparison.runs)) <= width


def print_columns(comparison: Comparison, console: Console) -> None:
    """A column a run."""
    table = Table("", *labels(comparison.runs), box=None, header_style="bold")
    for path, row in comparison.settings.items():
        table.add_row(Text(path, "dim"), *map(Text, row))
    if comparison.settings and comparison.metrics:
        table.add_section()
    for metric, values in comparison.metrics.items():
        best = leading(metric, values)
        cells = [Text(short(value), "green" if index == best else "") for index, value in enumerate(values)]
        table.add_row(metric, *cells)
    console.print(table)


def print_turned(comparison: Comparison, console: Console) -> int:
    """A row a run, in the columns that fit; gives the number of those that do not."""
    columns, left_out = turn(comparison, console.width)
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False)
    for column in columns:
        table.add_column(Text(column.title), no_wrap=True)
    for row in range(len(comparison.runs)):
        table.add_row(*(Text(column.cells[row], "green" if row == column.best else "") for column in columns))
    console.print(table)
    return len(left_out)
