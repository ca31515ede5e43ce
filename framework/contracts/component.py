"""What every component is."""

from __future__ import annotations

from typing import ClassVar


class Component:
    """Anything that a recipe can name with `type:`. Raises ValueError, argument's name first, on bad arguments."""

    type_name: ClassVar[str] = ""
    given: ClassVar[tuple[str, ...]] = ()
    at_most_one: ClassVar[tuple[tuple[str, ...], ...]] = ()
