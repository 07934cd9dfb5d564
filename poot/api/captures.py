"""What a traced function reads besides its arguments, and whether that has changed since it was traced.

Starting from a function, the names in its code are followed through closure cells, defaults, globals, imports, helper
functions outside the standard library and site-packages, and the attributes of captured objects; so are the special
methods that the code may run.  Constants become part of the call's key by value, arrays by dtype and shape (their
contents are hidden inputs of the call), buffers by their contents, and objects by identity together with those of their
attributes that the code names.  What is read in other ways (`getattr` with a computed name, a file, an object of a
library) is frozen at its value during the trace.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import re
import struct
import types
import weakref
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from poot.api.codes import code_token
from poot.api.libraries import is_bound, is_library, is_library_type, is_poot, unwrap
from poot.api.members import CACHED, CONTAINERS, EXACT, Member, function_members, items_of, layout, members, pairs_of
from poot.dtypes import ArraySpec, DType, as_dtype
from poot.trace.array import Array
from poot.trace.tracer import Tracer, WeakTracer

#: What nothing can change, of the libraries' objects that are not followed.
_SETTLED: Any = (
    *(type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodWrapperType, types.CodeType),
    *(
        types.GenericAlias,
        types.UnionType,
        types.SimpleNamespace,
        re.Pattern,
        np.ufunc,
        type(np.sum),
        Tracer,
        WeakTracer,
    ),
)
#: Modules of such classes, and of the generators, which are watched while the function is traced.
_SETTLED_MODULES = frozenset({"datetime", "decimal", "fractions", "pathlib", "random", "typing", "uuid"})
#: Types whose objects are what they lead to: one made anew is the same.
_TRANSPARENT = (types.MethodType, functools.partial, property, staticmethod, classmethod)
#: Up to this many bytes of a buffer are kept as they are, more as a hash.
_SMALL = 256
#: Labels longer than this are shortened from the middle.
_LONGEST = 120


class Same:
    """A key part that is equal to one object's alone.

    A key must not keep a whole model alive, so the object is referred to weakly where it can be: once it is gone, the
    key part equals no other, even if another object comes to have the same identity.
    """

    __slots__ = ("_identity", "_kind", "_value")

    def __init__(self, value: object) -> None:
        self._identity = id(value)
        self._kind = type(value).__name__
        self._value: Callable[[], object]
        try:
            self._value = weakref.ref(value)
        except TypeError:
            self._value = lambda: value

    @property
    def value(self) -> object:
        """The object, or None once it is gone."""
        return self._value()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Same) or self._identity != other._identity:
            return False
        value = self._value()
        return value is not None and value is other._value()

    def __hash__(self) -> int:
        return self._identity

    def __repr__(self) -> str:
        return f"<{self._kind} at {self._identity:#x}>"


@dataclass(slots=True)
class Captures:
    """What was found: key parts by the name under which the code reads them, and the arrays among them in order.

    `names` are those that the reachable code reads.  `opaque` are the objects that are not followed, though they may
    change: a label and the name of the type each.
    """

    parts: dict[str, Hashable] = field(default_factory=dict[str, Hashable])
    arrays: list[Any] = field(default_factory=list[Any])
    labels: list[str] = field(default_factory=list[str])
    functions: list[types.FunctionType] = field(default_factory=list[types.FunctionType])
    names: frozenset[str] = frozenset()
    opaque: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def specs(self) -> list[tuple[str, ArraySpec]]:
        """The labels and specs of the arrays."""
        pairs = zip(self.labels, self.arrays, strict=True)
        return [
            (label, ArraySpec(as_dtype(array.dtype, f"captured {label}"), tuple(array.shape)))
            for label, array in pairs
            if array.dtype != object
        ]


def capture(
    function: Callable[..., Any],
    names: frozenset[str],
    owner: object = None,
    statics: Iterable[tuple[str, object]] = (),
) -> Captures:
    """Everything that `function` reads outside its arguments; `owner` is the instance that a method is bound to.

    `names` are those that `reachable_names` found: the attributes that matter on captured objects.  `statics` are the
    static arguments by name; they are followed in the same way.
    """
    walk = _Walk(names)
    root = cast("types.FunctionType", function)
    walk.found.functions.append(root)
    walk.follow(members(root, names))
    if owner is not None:
        walk.follow([("self", owner)])
    walk.follow(statics)
    return walk.found


# --- values to key parts ----------------------------------------------------------------------------------------------

#: In the key part of a container: this item has a part of its own.
_ITEM = "item"


class _Walk:
    """Turns what the code reads into key parts, each object once.

    Parts are never nested, and nothing here recurs: what is captured may be as deep as it likes.
    """

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self.found = Captures(names=names)
        self._seen: dict[int, int] = {}
        self._array_numbers: dict[int, int] = {}
        self._labels: dict[str, int] = {}
        self._keep: list[object] = []
        self._pending: list[Member] = []

    def follow(self, roots: Iterable[Member]) -> None:
        """Take values and everything that they lead to into the key, depth first."""
        pending, parts = self._pending, self.found.parts
        pending += reversed([*roots])
        while pending:
            label, value = pending.pop()
            part = self._leaf(label, value)
            if part is None:
                found: list[Member] = []
                part = self._compound(label, value, found)
                for name, item in reversed(found):
                    pending.append((f"{label}.{name}" if len(label) < _LONGEST else _shortened(label, name), item))
            parts[label if label not in parts else self._unique(label)] = part

    def _unique(self, label: str) -> str:
        """A label that no part has yet: an attribute may be named like an item."""
        numbered = label
        while numbered in self.found.parts:
            count = self._labels[label] = self._labels.get(label, 1) + 1
            numbered = f"{label} ({count})"
        return numbered

    def _leaf(self, label: str, value: object) -> Hashable | None:
        """The key part of a constant or an array; None for anything with parts."""
        kind = type(value)
        if kind in EXACT:
            return kind, cast("Hashable", value)
        if kind is float:
            return float, struct.pack("<d", value)
        if kind is np.ndarray:
            array = cast("np.ndarray[Any, Any]", value)
            return None if array.dtype.hasobject else self._array(label, array)
        if issubclass(kind, (Tracer, WeakTracer)):
            return Same(value)
        if issubclass(kind, Array):
            return self._array(label, value)
        if issubclass(kind, DType):
            return cast("Hashable", value)
        if issubclass(kind, np.generic):
            scalar = cast("np.generic[Any]", value)
            return scalar.dtype, scalar.tobytes()
        if issubclass(kind, np.dtype):
            return np.dtype, cast("Hashable", value)
        return None

    def _array(self, label: str, array: Any) -> Hashable:
        number = self._array_numbers.setdefault(id(array), len(self.found.arrays))
        if number == len(self.found.arrays):
            self.found.arrays.append(array)
            self.found.labels.append(label)
        dtype = array.dtype
        # The number tells arrays that are one object from arrays that are equal in dtype and shape only.
        return ArraySpec, dtype, tuple(array.shape), number, getattr(array, "is_tracked", False)

    def _compound(self, label: str, value: object, found: list[Member]) -> Hashable:
        """The key part of an object; what it leads to is added to `found`."""
        known = layout(type(value))
        if not known.bare:
            value = unwrap(value)
        number = self._seen.get(id(value))
        if number is not None:
            return "again", number
        self._seen[id(value)] = len(self._seen)
        self._keep.append(value)
        kind = type(value)
        if kind is types.FunctionType:
            function = cast("types.FunctionType", value)
            found += function_members(function, self.names)
            if is_library(function):
                return Same(function)
            self.found.functions.append(function)
            return code_token(function.__code__)
        part = None if known.bare else self._content(label, kind, value, found)
        if kind in CONTAINERS or kind is dict:
            return part
        items = len(found)
        found += members(value, self.names)
        if not known.library and (number := self._seen.get(id(kind))) is not None:
            del found[items]  # the class, which has been followed
            return Same(value) if part is None else part, number
        if kind in _TRANSPARENT or (known.library and is_bound(value)):
            return kind.__name__
        if part is None:
            if kind is CACHED:  # its function is followed; what it remembers is not to be seen
                self.found.opaque.append((label, "functools.lru_cache"))
            elif known.library and len(found) == items and not _settled(kind):
                self.found.opaque.append((label, kind.__qualname__))
            return Same(value)
        return part

    def _content(self, label: str, kind: Any, value: Any, found: list[Member]) -> Hashable | None:
        """The part of what built-in classes hold: items, a constant, an array, a buffer; None for other objects."""
        same: Any = kind
        if issubclass(kind, (dict, types.MappingProxyType)):
            return same, tuple(
                (self._key(key, found), self._item(label, _named(key), item, found))
                for key, item in pairs_of(value, same)
            )
        if issubclass(kind, CONTAINERS):
            items = enumerate(items_of(value, same))
            return same, tuple(self._item(label, str(i), item, found) for i, item in items)
        if issubclass(kind, slice):
            found += [("start", value.start), ("stop", value.stop), ("step", value.step)]
            return (slice,)
        if issubclass(kind, np.ndarray):
            if value.dtype.hasobject:
                found += [(str(i), item) for i, item in enumerate(value.ravel().tolist())]
            return self._array(label, value)
        return _constant(same, value)

    def _item(self, label: str, name: str, item: object, found: list[Member]) -> Hashable:
        part = self._leaf(f"{label}.{name}", item)
        if part is None:
            found.append((name, item))
            return _ITEM
        return part

    def _key(self, key: object, found: list[Member]) -> Hashable:
        """A dict's key: as it is where it is plain, else by its parts."""
        if type(key) is str or type(key) is int:
            return key
        return self._item("a key", "key", key, found)


def _named(key: object) -> str:
    """How a dict's key stands in a label, without asking the user's classes."""
    return str(key) if type(key) in (str, int) else f"<{type(key).__name__}>"


def _shortened(label: str, name: str) -> str:
    return f"{label[: _LONGEST // 3]}…{label[-_LONGEST // 3 :]}.{name}"


def _constant(kind: Any, value: Any) -> Hashable | None:
    """The part of a constant of a class derived from a built-in one, or of a buffer; None for any other object."""
    if issubclass(kind, enum.Enum) and type(value).__hash__ is not None:
        return kind, value
    for base in (int, str):
        if issubclass(kind, base):
            return kind, base.__repr__(value)
    if issubclass(kind, float):
        return kind, struct.pack("<d", value)
    if issubclass(kind, complex):
        return kind, struct.pack("<2d", value.real, value.imag)
    if (
        issubclass(kind, _SETTLED)
        or kind.__module__ == "mmap"
        or (kind.__base__ is object and not is_library_type(kind))
    ):
        return None
    try:
        with memoryview(value) as view:
            held = view.tobytes()
            return kind, view.format, view.shape, held if len(held) <= _SMALL else hashlib.blake2b(held).digest()
    except (TypeError, ValueError, BufferError):
        return None


def _settled(kind: type) -> bool:
    """Whether the objects of a library's class cannot change, or not in what poot does not see."""
    if issubclass(kind, _SETTLED) or kind is object or hasattr(kind, "__get__"):
        return True
    module = kind.__module__
    return module in _SETTLED_MODULES or module.startswith("numpy.random") or is_poot(module)
