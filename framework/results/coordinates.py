"""Parallel coordinates: a line a trial, from value to value to what came of it, as SVG that fits its page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from raycipe.framework.results.report import short
from raycipe.framework.results.trials import Trial, pareto
from raycipe.framework.results.turned import short_names

MAX_LINES = 300  # the best ones are drawn
LOG_FROM = 20  # the ratio of the ends from which on an axis is logarithmic
MOST_UPRIGHT = 10  # axes beside each other; more of them are drawn under each other
MOST_TICKS = 12
BROAD, NARROW = 1000, 340  # pixels that a page and a telephone have
GAP, BELOW = 240, 62  # at most, between axes beside each other; between axes under each other
HEIGHT, TOP, SIDE, END = 250, 40, 14, 76  # of upright axes: length, and the room above, left and right
LETTER = 7  # pixels of a title's letter; ticks are a little smaller
RED = "#dc2626"


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class Axis:
    """Where a value stands on an axis, from 0 to 1, and its ticks."""

    def __init__(self, values: Sequence[Any]) -> None:
        known = [value for value in values if value is not None]
        numbers = [float(value) for value in known if is_number(value)]
        self.words = [] if len(numbers) == len(known) else sorted({str(value) for value in known})
        self.log = not self.words and bool(numbers) and min(numbers) > 0 and max(numbers) > LOG_FROM * min(numbers)
        self.low, self.high = (min(numbers), max(numbers)) if numbers else (0.0, 1.0)

    def place(self, value: Any) -> float | None:
        if value is None:
            return None
        if self.words:
            return self.words.index(str(value)) / max(1, len(self.words) - 1) if len(self.words) > 1 else 0.5
        if self.low == self.high:
            return 0.5
        if self.log:
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (float(value) - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[float, str]]:
        """(place, label)"""
        if self.words:
            return [(self.place(word) or 0.0, word) for word in self.words[:: -(-len(self.words) // MOST_TICKS)]]
        if self.low == self.high:
            return [(0.5, f"{self.low:.3g}")]
        middle = math.sqrt(self.low * self.high) if self.log else (self.low + self.high) / 2
        return [(self.place(value) or 0.0, f"{value:.3g}") for value in (self.low, middle, self.high)]


class Strip(NamedTuple):
    """One axis with the value of each trial."""

    title: str
    axis: Axis
    values: list[Any]


class Line(NamedTuple):
    """How a trial is drawn."""

    note: str
    look: str


class Coordinates(NamedTuple):
    """The picture for a page and for a telephone, and the values that all drawn trials share: they have no axis."""

    broad: str
    narrow: str
    same: dict[str, str]


def coordinates(trials: Sequence[Trial], paths: Sequence[str], goals: Mapping[str, str]) -> Coordinates:
    """Of ranked trials: an axis for each path that varies, and one for each objective at the end."""
    shown = list(trials[:MAX_LINES])
    titles = short_names(paths)
    columns = {titles[path]: [trial.settings.get(path) for trial in shown] for path in paths}
    same = {}
    for title, values in list(columns.items()):
        known = [value for value in values if value is not None]
        if len({str(value) for value in known}) > 1:
            continue
        if known:
            same[title] = short(known[0])
        del columns[title]
    strips = [Strip(title, Axis(values), values) for title, values in columns.items()]
    for goal, mode in goals.items():
        values = [trial.values[goal] for trial in shown]
        strips.append(Strip(f"{goal} ({mode})", Axis(values), values))
    lines = lines_of(shown, goals)
    broad = upright(strips, lines) if len(strips) <= MOST_UPRIGHT else lying(strips, lines, BROAD)
    return Coordinates(broad, lying(strips, lines, NARROW), same)


def lines_of(trials: Sequence[Trial], goals: Mapping[str, str]) -> list[Line]:
    """Red is the best trial, or of several objectives those that no other one beats in all."""
    best = [trial.name for trial in pareto(trials, goals)] if len(goals) > 1 else [trials[0].name]
    found = []
    for place, trial in enumerate(trials):
        values = ", ".join(f"{goal} {short(trial.values[goal])}" for goal in goals)
        look = f'stroke="{RED}" stroke-width="2.4"' if trial.name in best else look_of(place, len(trials))
        found.append(Line(f"trial {trial.name}: {values}", look))
    return found


def look_of(place: int, count: int) -> str:
    """Colour and width of the trial at a place of the ranking, the best at 0: from blue to grey."""
    share = place / max(1, count - 1)
    first, last = (29, 78, 216), (208, 213, 221)
    color = "#" + "".join(f"{round(a + (b - a) * share**0.7):02x}" for a, b in zip(first, last, strict=True))
    return f'stroke="{color}" stroke-width="1.3" stroke-opacity="{0.9 - 0.4 * share:.2f}"'


def upright(strips: Sequence[Strip], lines: Sequence[Line]) -> str:
    """Axes beside each other."""
    gap = min(GAP, (BROAD - SIDE - END) / max(1, len(strips) - 1))
    width = round(SIDE + gap * (len(strips) - 1) + END)
    drawn = paths(strips, lines, lambda x, y: (SIDE + gap * x, TOP + HEIGHT * (1 - y)))
    two_rows = any(len(strip.title) * LETTER > gap - 8 for strip in strips)
    for x, (title, axis, _) in enumerate(strips):
        left = SIDE + gap * x
        drawn.append(f'<line x1="{left:.0f}" x2="{left:.0f}" y1="{TOP}" y2="{TOP + HEIGHT}" stroke="#475467"/>')
        is_end, is_start = x == len(strips) - 1, x == 0
        letters = int(((2 if two_rows else 1) * gap - 8) / LETTER)
        place = left - 10 if is_start else width if is_end else left
        anchor = "start" if is_start else "end" if is_end else "middle"
        drawn.append(text(place, 12 + (14 if two_rows and x % 2 else 0), title, "axis", anchor, letters))
        for y, label in axis.ticks():
            room = int(((END if is_end else gap) - 10) / (LETTER - 1))
            drawn.append(text(left + 6, TOP + HEIGHT * (1 - y) + 4, label, "tick", "start", room))
    return svg(width, HEIGHT + TOP + 12, drawn)


def lying(strips: Sequence[Strip], lines: Sequence[Line], width: int) -> str:
    """Axes under each other, for a narrow page or for many of them."""
    length = width - 2 * SIDE
    drawn = paths(strips, lines, lambda x, y: (SIDE + length * y, 24 + BELOW * x))
    for x, (title, axis, _) in enumerate(strips):
        top, ticks = 24 + BELOW * x, axis.ticks()
        drawn.append(f'<line x1="{SIDE}" x2="{SIDE + length}" y1="{top}" y2="{top}" stroke="#475467"/>')
        drawn.append(text(SIDE, top - 8, title, "axis", "start", length // LETTER))
        for y, label in ticks:
            anchor = "start" if y < 0.1 else "end" if y > 0.9 else "middle"
            room = int(length / max(1, len(ticks)) / (LETTER - 1))
            drawn.append(text(SIDE + length * y, top + 14, label, "tick", anchor, room))
    return svg(width, 24 + BELOW * (len(strips) - 1) + 22, drawn)


def paths(strips: Sequence[Strip], lines: Sequence[Line], at: Any) -> list[str]:
    """The lines of the trials, the best one last, on top; `at` gives a point for (number of the axis, place on it)."""
    from markupsafe import escape

    drawn = []
    for row in reversed(range(len(lines))):
        places = [(x, strip.axis.place(strip.values[row])) for x, strip in enumerate(strips)]
        points = [at(x, y) for x, y in places if y is not None]
        path = "M" + " L".join(f"{x:.0f},{y:.1f}" for x, y in points)
        note = f"<title>{escape(lines[row].note)}</title>"
        drawn.append(f'<path d="{path}" fill="none" {lines[row].look}>{note}</path>')
    return drawn


def text(x: float, y: float, words: str, kind: str, anchor: str, letters: int) -> str:
    """A title loses its beginning where there is no room, a tick's label its end."""
    from markupsafe import escape

    shown = words
    if len(words) > max(3, letters):
        shown = f"…{words[1 - letters :]}" if kind == "axis" else f"{words[: letters - 1]}…"
    note = f"<title>{escape(words)}</title>" if shown != words else ""
    return f'<text x="{x:.0f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(shown)}{note}</text>'


def svg(width: int, height: int, drawn: Sequence[str]) -> str:
    """Never wider than drawn, so that letters keep their size, and never wider than the page."""
    return f'<svg viewBox="0 0 {width} {height}" style="max-width:{width}px" role="img">{"".join(drawn)}</svg>'
