"""Builds a tree of Nodes from YAML's events, without recursion, and stops at the limits of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from raycipe.framework.errors import Problem, shown
from raycipe.framework.scalars import is_text, read_scalar
from raycipe.framework.syntax import BREAK, REFUSED
from raycipe.framework.tree import Node, Place

MAX_DEPTH = 64
MAX_VALUES = 50_000
MAX_SCALAR = 100_000
TEXTS = ("name", "about", "paper", "title", "authors", "url")  # keys under which a number may have been meant as text


class Stop(Exception):
    """Reading ends here; the problem is in the builder's list."""


class _Open:
    """A map or list whose end has not been read yet."""

    __slots__ = ("anchor", "at", "dropping", "height", "items", "key", "key_at", "places", "size")

    def __init__(self, items: Any, at: Place, anchor: str | None) -> None:
        self.items = items
        self.at = at
        self.anchor = anchor
        self.key: str | None = None  # the key whose value comes next (maps only)
        self.key_at = at
        self.dropping = False  # that key was refused: its value is read and left out
        self.places: dict[str, Place] = {}
        self.size = 1
        self.height = 1

    @property
    def awaits_key(self) -> bool:
        return self.key is None and not self.dropping and isinstance(self.items, dict)


class Builder:
    """Takes the events of one document; then `root` and `problems` tell what they meant."""

    def __init__(self, text: str, place: Callable[[Any], Place], start: Place) -> None:
        self.root: Node | None = None
        self.problems: list[Problem] = []
        self.last = start  # the place of the newest event
        self._text = text
        self._place = place
        self._documents = 0
        self._values = 0
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Node, int, int]] = {}  # node, its size, its height

    def read(self, events: Iterable[Any]) -> None:
        """Raises Stop where a limit ends the reading, and whatever the events' source raises."""
        handlers: dict[type, Callable[[Any], None]] = {
            ScalarEvent: self._scalar,
            MappingStartEvent: self._start,
            SequenceStartEvent: self._start,
            MappingEndEvent: self._end,
            SequenceEndEvent: self._end,
            AliasEvent: self._alias,
            DocumentStartEvent: self._document,
        }
        for event in events:
            handler = handlers.get(type(event))
            if handler is not None:
                self.last = self._place(event.start_mark)
                handler(event)

    def _problem(self, code: str, message: str, hint: str = "", value: Any = None) -> None:
        self.problems.append(Problem(code, self.last, "", message, hint, value))

    def _stop(self, code: str, message: str, hint: str = "") -> Stop:
        self._problem(code, message, hint)
        return Stop()

    def _document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            raise self._stop("syntax", "a second document begins here", "a recipe is one document")

    def _refuse_tag(self, event: Any) -> None:
        if event.tag is None:
            return
        tag = event.tag.replace("tag:yaml.org,2002:", "!!")
        if tag.startswith("!="):
            rest = f" {event.value}" if isinstance(event, ScalarEvent) and event.value else ""
            self._problem("tag", f"`{shown(tag)}` is a tag to YAML", f'quote comparisons: "{shown(tag + rest)}"')
        else:
            self._problem("tag", f"tags are not allowed: `{shown(tag)}`", "quote a text that begins with `!`")

    def _scalar(self, event: Any) -> None:
        text: str = event.value
        quoted = not event.implicit[0]
        self._refuse_tag(event)
        if len(text) > MAX_SCALAR:
            raise self._stop("size", f"a text of {len(text)} characters: at most {MAX_SCALAR} are allowed")
        if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in REFUSED.findall(text)):
            self._problem("encoding", "half of a surrogate pair is no character")
            text = ""
        if event.style == ">" and not text:
            self._refuse_comparison(event)
        if self._open and self._open[-1].awaits_key:
            self._attach(self._key(text, quoted), event.anchor, 0, 0)
            return
        self._count(1)
        value: Any = text
        if not quoted and event.tag is None:
            try:
                value = read_scalar(text)
            except ValueError as error:
                key = self._open[-1].key if self._open else None
                hint = "quote it to make it a text" if key in TEXTS else ""
                self._problem("out-of-range", f"{error}: `{shown(text)}`", hint, shown(text))
        self._attach(Node(value, self.last, plain=not quoted), event.anchor, 1, 0)

    def _refuse_comparison(self, event: Any) -> None:
        """An unquoted `>2` is the head of a folded text to YAML: never what a recipe means if nothing follows."""
        lines = BREAK.split(self._text)
        header = lines[event.start_mark.line][event.start_mark.column :].split("#")[0].strip()
        if header.strip(">+-"):
            self._problem("syntax", f'quote the comparison: "{shown(header)}"')

    def _key(self, text: str, quoted: bool) -> Node | None:
        """The Node of a key, or None if it is refused."""
        if not quoted and text == "<<":
            self._problem("key", "merge keys (`<<`) are not part of YAML 1.2", "use extends, profiles or ${...}")
            return None
        if not quoted and not is_text(text):
            self._problem("key", f'a key must be text: quote it: "{shown(text)}"')
            return None
        return Node(text, self.last)

    def _start(self, event: Any) -> None:
        self._refuse_tag(event)
        if len(self._open) == MAX_DEPTH:
            raise self._stop("depth", f"nested deeper than {MAX_DEPTH} levels")
        if event.anchor is not None:
            self._anchors.pop(event.anchor, None)
        self._count(1)
        items: Any = {} if type(event) is MappingStartEvent else []
        self._open.append(_Open(items, self.last, event.anchor))

    def _end(self, event: Any) -> None:
        done = self._open.pop()
        self.last = done.at
        self._attach(Node(done.items, done.at), done.anchor, done.size, done.height)

    def _alias(self, event: Any) -> None:
        name = event.anchor
        if any(frame.anchor == name for frame in self._open) and name not in self._anchors:
            self._problem("alias", f"the alias `*{shown(name)}` stands inside its own anchor")
        elif name not in self._anchors:
            self._problem("alias", f"no anchor `&{shown(name)}` stands before this alias")
        else:
            node, size, height = self._anchors[name]
            if len(self._open) + height > MAX_DEPTH:
                raise self._stop("depth", f"nested deeper than {MAX_DEPTH} levels by the alias `*{shown(name)}`")
            self._count(size)
            self._attach(Node(node.value, self.last, plain=node.plain), None, size, height)
            return
        self._attach(None if self._open and self._open[-1].awaits_key else Node(None, self.last), None, 1, 0)

    def _attach(self, node: Node | None, anchor: str | None, size: int, height: int) -> None:
        """Put a finished node where it belongs; None is a key that was refused."""
        if anchor is not None and node is not None:
            self._anchors[anchor] = (node, size, height)
        if not self._open:
            self.root = node
            return
        frame = self._open[-1]
        frame.size += size
        frame.height = max(frame.height, height + 1)
        if isinstance(frame.items, list):
            frame.items.append(node)
        elif frame.awaits_key:
            self._take_key(frame, node)
        else:
            self._take_value(frame, node)

    def _take_key(self, frame: _Open, node: Node | None) -> None:
        frame.key_at = self.last
        frame.dropping = True
        if node is None:
            return
        if not isinstance(node.value, str):
            self._problem("key", "a key must be text")
        elif node.value in frame.places:
            first = frame.places[node.value]
            hint = f"first given on line {first.line}" if first.line else ""
            self._problem("repeated-key", f"repeated key `{shown(node.value)}`", hint)
        else:
            frame.key = node.value
            frame.places[node.value] = self.last
            frame.dropping = False

    def _take_value(self, frame: _Open, node: Node | None) -> None:
        if frame.key is not None and node is not None:
            node.key_at = frame.key_at
            frame.items[frame.key] = node
        frame.key = None
        frame.dropping = False

    def _count(self, values: int) -> None:
        self._values += values
        if self._values > MAX_VALUES:
            raise self._stop("size", f"more than {MAX_VALUES} values")
