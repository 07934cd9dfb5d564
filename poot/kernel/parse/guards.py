"""What a kernel read outside itself while it was parsed, and whether that still means the same.

Every global, closure cell and attribute that the kernel or one of its helpers names is a guard: the place, and what
stood there.  A launch checks them by identity, a few dozen nanoseconds each; where an identity differs, equal numbers,
strings and tuples still mean the same, and anything else (a helper defined anew) means that the kernel is parsed again.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CellType
from typing import Any

from poot.kernel.parse.values import same_meaning


class _Missing:
    """Nothing stands there."""


MISSING = _Missing()


class Guards:
    """The places that one parsed kernel depends on."""

    __slots__ = ("_attributes", "_items", "_seen")

    def __init__(self) -> None:
        self._items: list[tuple[dict[str, Any], str, object]] = []
        self._attributes: list[tuple[object, str, object]] = []
        self._seen: set[tuple[int, str]] = set()

    def item(self, space: dict[str, Any], name: str) -> object:
        """What a namespace holds under a name, or MISSING; from now on guarded."""
        value = space.get(name, MISSING)
        if (id(space), name) not in self._seen:
            self._seen.add((id(space), name))
            self._items.append((space, name, value))
        return value

    def attribute(self, owner: object, name: str) -> object:
        """An attribute of an object, or MISSING; from now on guarded."""
        value = getattr(owner, name, MISSING)
        if (id(owner), name) not in self._seen:
            self._seen.add((id(owner), name))
            self._attributes.append((owner, name, value))
        return value

    def cell(self, cell: CellType) -> object:
        """The contents of a closure cell, or MISSING; from now on guarded."""
        return self.attribute(cell, "cell_contents")

    def function(self, function: Callable[..., Any], *, defaults: bool = False) -> None:
        """Guard the body of a function, which a reloader may exchange, and the defaults of a helper."""
        for name in ("__code__", "__defaults__", "__kwdefaults__") if defaults else ("__code__",):
            self.attribute(function, name)

    def hold(self) -> bool:
        """Whether everything still means what it meant."""
        for space, name, value in self._items:
            if space.get(name, MISSING) is not value and not same_meaning(space.get(name, MISSING), value):
                return False
        for owner, name, value in self._attributes:
            try:
                found = getattr(owner, name, MISSING)
            except Exception:  # read again by the parser, which says what is wrong
                return False
            if found is not value and not same_meaning(found, value):
                return False
        return True
