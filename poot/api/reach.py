"""Which names matter: those that code which can run reads, of captured objects and of everything that they lead to."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any, cast

import numpy as np

from poot.api.codes import reads_of
from poot.api.libraries import is_library, is_library_type, unwrap
from poot.api.members import ALWAYS, CONTAINERS, EXACT, PLAIN, Member, items_of, members, pairs_of, special_names
from poot.dtypes import DType
from poot.trace.array import Array
from poot.trace.tracer import Tracer, WeakTracer

#: Types whose objects have no parts.
_NO_PARTS: tuple[Any, ...] = (*PLAIN, float, np.ndarray, Array, np.generic, DType, Tracer, WeakTracer)


def reachable_names(roots: Iterable[object]) -> frozenset[str]:
    """Every name that code reachable from `roots` reads, through helper functions and methods of captured objects.

    The special methods among them are those that the code may run without naming them.
    """
    found = _Names()
    before: tuple[int, ...] = ()
    while before != found.sizes():  # a method found by one name may read further ones
        before = found.sizes()
        found.collect([("", root) for root in roots])
    return frozenset(found.names)


class _Names:
    def __init__(self) -> None:
        self.names = set(ALWAYS)
        self.stores: set[str] = set()
        self.uses: set[str] = set()

    def sizes(self) -> tuple[int, ...]:
        return len(self.names), len(self.stores), len(self.uses)

    def collect(self, pending: list[Member]) -> None:
        seen: dict[int, object] = {}
        while pending:
            label, value = pending.pop()
            value = unwrap(value)
            kind = type(value)
            if id(value) in seen or kind in EXACT:
                continue
            seen[id(value)] = value
            if kind is types.FunctionType:
                self.function(cast("types.FunctionType", value))
            elif issubclass(kind, type) and label != "__class__" and not is_library_type(cast("type", value)):
                self.uses.add("make")  # while `__class__` is there for `super()`
            if issubclass(kind, (dict, types.MappingProxyType)):
                pending += [("", part) for pair in pairs_of(value, kind) for part in pair]
            elif issubclass(kind, CONTAINERS):
                pending += [("", item) for item in items_of(value, type(value))]
            elif issubclass(kind, np.ndarray) and cast("Any", value).dtype.hasobject:
                pending += [("", item) for item in cast("Any", value).ravel().tolist()]
            if kind in _NO_PARTS:
                continue
            if issubclass(kind, type):
                self.type(cast("type", value))
            pending += members(value, self.names)

    def function(self, function: types.FunctionType) -> None:
        if not is_library(function):
            reads = reads_of(function.__code__)
            self.names |= reads.attributes
            self.stores |= reads.stores
            self.uses |= reads.uses

    def type(self, kind: type) -> None:
        """The names in a user's classes that code need not name: special methods, setters, and positional patterns."""
        for base in kind.__mro__:
            if is_library_type(base):
                continue
            space = vars(base)
            self.names.update(special_names(base, self.uses))
            self.names.update(
                name for name in self.stores & space.keys() if hasattr(cast("Any", type(space[name])), "__set__")
            )
            if "__match_args__" in self.names:
                self.names.update(name for name in space.get("__match_args__", ()) if isinstance(name, str))
