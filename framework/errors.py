"""Mistakes of a user: collected, sorted, and shown with their place, path and what is allowed."""

from __future__ import annotations

from typing import Any

from raycipe.framework.tree import Place

CODES = (
    "syntax",
    "repeated-key",
    "tag",
    "key",
    "depth",
    "size",
    "encoding",
    "alias",
    "extends",
    "profile",
    "override",
    "reference",
    "unknown-key",
    "unknown-type",
    "missing",
    "wrong-type",
    "out-of-range",
    "wrong-choice",
    "length",
    "section",
    "sweep",
    "expect",
    "file",
    "plugin",
)
MAX_SHOWN = 50


def shown(value: Any, limit: int = 40) -> str:
    """A value as an error shows it: on one line, control characters escaped, cut at `limit` characters."""
    text = str(value)
    text = text if len(text) <= limit else text[: limit - 3] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def counted(number: int, word: str, many: str = "") -> str:
    """`1 worker`, `2 workers`, `1,000 workers`."""
    return f"{number:,} {word if number == 1 else many or word + 's'}"


class Problem:
    """One mistake: `at: path: message`, an indented hint, and a fixed `code` for tools."""

    __slots__ = ("allowed", "at", "code", "hint", "message", "path", "value")

    def __init__(
        self,
        code: str,
        at: Place,
        path: str,
        message: str,
        hint: str = "",
        value: Any = None,
        allowed: Any = None,
    ) -> None:
        self.code = code
        self.at = at
        self.path = path
        self.message = message
        self.hint = hint
        self.value = value
        self.allowed = allowed

    def __str__(self) -> str:
        words = f"{self.at}: {shown(self.path, 200)}: {self.message}" if self.path else f"{self.at}: {self.message}"
        return words + "".join(f"\n    {line}" for line in self.hint.splitlines())


class RecipeError(Exception):
    """A recipe, an override or a plugin is wrong: every problem found. Exit code 2."""

    exit_code = 2

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


def explain(problems: list[Problem]) -> str:
    """All problems in the order of files and lines, at most MAX_SHOWN, and a last line that counts them."""
    ordered = sorted(problems, key=lambda problem: (problem.at.source, problem.at.line, problem.at.column))
    lines = [str(problem) for problem in ordered[:MAX_SHOWN]]
    if len(ordered) > MAX_SHOWN:
        lines.append(f"and {len(ordered) - MAX_SHOWN} more")
    files = len({problem.at.source for problem in ordered if not problem.at.source.startswith("override ")})
    count = f"{len(ordered)} mistake{'s' * (len(ordered) != 1)}"
    return "\n".join([*lines, f"{count} in {files} files" if files > 1 else count])


class RunError(Exception):
    """A run failed for a reason that the user can act on: shown without a traceback. Exit code 1.

    `kind` is a short word (`nonfinite`, `memory`, `resources`, `storage`, `data`, `worker`, ...), `where` the
    recipe path that it concerns, if any.
    """

    exit_code = 1

    def __init__(
        self, kind: str, message: str, hint: str = "", where: str | None = None, step: int | None = None
    ) -> None:
        super().__init__(kind, message, hint, where, step)  # all arguments, so that it survives pickling
        self.kind = kind
        self.message = message
        self.hint = hint
        self.where = where
        self.step = step

    def __str__(self) -> str:
        return self.message + "".join(f"\n    {line}" for line in self.hint.splitlines())


class NotStarted(RunError):
    """A run can't start as asked: a demand beyond the machine, an unknown earlier run. Exit code 2."""
