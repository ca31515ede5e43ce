"""Words for text that is not YAML: where it breaks, why in the terms of recipes, and what to write instead."""

from __future__ import annotations

import re
from typing import Any

from raycipe.framework.errors import Problem, shown
from raycipe.framework.tree import Place

BREAK = re.compile(r"\r\n|\r|\n")
# U+0085, U+2028 and U+2029 would break lines for YAML and not for editors; a byte-order mark inside is invisible.
REFUSED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def position(text: str, index: int) -> tuple[int, int]:
    """Line and column, from 1, of `text[index]`."""
    starts = [match.end() for match in BREAK.finditer(text, 0, index)]
    return len(starts) + 1, index - (starts[-1] if starts else 0) + 1


def refused_character(text: str) -> tuple[int, str, str] | None:
    """Index, message and hint of the first character that no recipe may hold; None if there is none."""
    match = REFUSED.search(text)
    if match is None:
        return None
    message = f"the character U+{ord(match[0]):04X} is not allowed here"
    return match.start(), message, f'write it as an escape inside double quotes: "\\u{ord(match[0]):04x}"'


def directive_line(text: str) -> int | None:
    """The line, from 1, of a `%YAML` or other directive before the document; None if there is none."""
    if "%" not in text:
        return None
    for number, line in enumerate(BREAK.split(text), 1):
        if line.startswith("%"):
            return number
        if line.strip(" \t") and not line.lstrip(" \t").startswith("#"):
            return None
    return None


def syntax_problem(error: Any, text: str, at: Place) -> Problem:
    """Explain a `yaml.MarkedYAMLError`. `at` is the place of its problem mark."""
    mark = error.problem_mark or error.context_mark
    words, context = str(error.problem), str(error.context or "")
    lines = BREAK.split(text)
    line = lines[mark.line] if mark.line < len(lines) else ""
    character = line[mark.column : mark.column + 1]
    message, hint = words, _began(error, at)
    if "\t" in line[: len(line) - len(line.lstrip(" \t"))]:
        message, hint = "a tab indents this line", "indent with spaces"
    elif context.endswith(("flow mapping", "flow sequence")) and "${" in line:
        message, hint = 'inside [ ] and { }, quote a reference: "${...}"', ""
    elif comparison := _comparison(lines, error.context_mark if "block scalar" in context else mark):
        message, hint = f'quote the comparison: "{shown(comparison)}"', ""
    elif "maximum nesting depth" in words:  # libyaml's own limit, met while it reads ahead
        return Problem("depth", at, "", "nested too deeply")
    elif "tag" in context:
        return Problem("tag", at, "", "tags (`!...`) are not allowed", "quote a text that begins with `!`")
    elif "mapping values are not allowed" in words:
        message, hint = words, "check the indentation, or quote a text that holds `: `"
    elif "cannot start any token" in words and character.strip():
        message, hint = f"an unquoted text can't begin with `{character}`", "quote it"
    elif "document start" in words:
        message, hint = "this stands after the end of the recipe", "check quotes, brackets and indentation"
    return Problem("syntax", at, "", message, hint)


def _began(error: Any, at: Place) -> str:
    """What was being read, and where it began if that is another line: a missing quote or bracket is often there."""
    if not error.context:
        return ""
    mark = error.context_mark
    elsewhere = at.line and mark is not None and mark.line + 1 != at.line
    return f"{error.context} that began on line {mark.line + 1}" if elsewhere else str(error.context)


def _comparison(lines: list[str], mark: Any) -> str:
    """The comparison (`>= 0.5`) that begins at the mark, or an empty text if none does."""
    text = lines[mark.line][mark.column :] if mark.line < len(lines) else ""
    if not text.startswith((">", "|")):
        return ""
    text = re.split(r"[,}\]#]", text)[0].strip()
    if any(c.isdigit() for c in text):
        return text
    tops = [top for top in lines[: mark.line + 1] if top[:1] not in ("", " ", "#", "\t")]
    return text if tops and tops[-1].startswith("expect") else ""
