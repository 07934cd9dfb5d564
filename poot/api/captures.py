"""What a traced function reads besides its arguments, and whether that has changed since it was traced.

Starting from a function, the names in its code are followed through closure cells, defaults, globals, helper functions
outside the standard library and site-packages, and the attributes of captured objects.  Constants become part of the
call's key by value, arrays by dtype and shape (their contents are hidden inputs of the call), and objects by identity
together with those of their attributes that the code names.  What is read in other ways (`getattr` with a computed
name, a file, a database) is frozen at its value during the trace.
"""

from __future__ import annotations

import enum
import functools
import os
import struct
import sys
import sysconfig
import threading
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from poot.dtypes import ArraySpec, DType, as_dtype
from poot.trace.array import Array
from poot.trace.tracer import Tracer, WeakTracer

PLAIN = (bool, int, str, bytes, type(None), complex, range, type(Ellipsis), enum.Enum, np.dtype)
_LIBRARY_FOLDERS = tuple(
    {path for name in ("stdlib", "platstdlib", "purelib", "platlib") if (path := sysconfig.get_path(name))}
)
_PACKAGE = __name__.partition(".")[0]


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

    `names` are those that the reachable code reads.
    """

    parts: dict[str, Hashable] = field(default_factory=dict[str, Hashable])
    arrays: list[Any] = field(default_factory=list[Any])
    labels: list[str] = field(default_factory=list[str])
    functions: list[types.FunctionType] = field(default_factory=list[types.FunctionType])
    names: frozenset[str] = frozenset()

    def specs(self) -> list[tuple[str, ArraySpec]]:
        """The labels and specs of the arrays."""
        pairs = zip(self.labels, self.arrays, strict=True)
        return [
            (label, ArraySpec(as_dtype(array.dtype), tuple(array.shape)))
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
    walk.function("", cast("types.FunctionType", function))
    if owner is not None:
        walk.add("self", owner)
    for name, value in statics:
        walk.add(name, value)
    return walk.found


# --- the code that can run --------------------------------------------------------------------------------------------

#: Names by code object; the code is kept so that its id stays its own.
_names: OrderedDict[int, tuple[types.CodeType, frozenset[str], tuple[str, ...]]] = OrderedDict()
_tokens: OrderedDict[tuple[types.CodeType, str], int] = OrderedDict()
_lock = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
_KEPT = 1024


def _code_names(code: types.CodeType) -> tuple[frozenset[str], tuple[str, ...]]:
    """The names that a code object and those nested in it read as globals or attributes: as a set, and in order."""
    known = _names.get(id(code))
    if known is not None:
        return known[1], known[2]
    ordered = dict.fromkeys(code.co_names)
    if "getattr" in ordered:  # a literal name may be what it is given
        ordered.update(dict.fromkeys(item for item in code.co_consts if isinstance(item, str) and item.isidentifier()))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            ordered.update(dict.fromkeys(_code_names(constant)[1]))
    entry = code, frozenset(ordered), tuple(ordered)
    _names[id(code)] = entry
    if len(_names) > _KEPT:
        _names.popitem(last=False)
    return entry[1], entry[2]


def code_names(code: types.CodeType) -> tuple[str, ...]:
    """The names that a code object and those nested in it read as globals or attributes, in order."""
    return _code_names(code)[1]


def code_token(code: types.CodeType) -> int:
    """A number that equal code objects of one file share: an identical function made anew has the same."""
    key = code, code.co_filename  # which equality of code leaves out, and messages name
    with _lock:
        token = _tokens.get(key)
        if token is None:
            token = _tokens[key] = next(_counter)
            if len(_tokens) > _KEPT:
                _tokens.popitem(last=False)
        else:
            _tokens.move_to_end(key)
        return token


_counter = iter(range(1 << 62))


@functools.lru_cache(maxsize=_KEPT)
def is_library_file(file: str) -> bool:
    """Whether a file is the standard library's or an installed package's."""
    return file.startswith(_LIBRARY_FOLDERS) or file.startswith("<frozen")


def is_library(function: types.FunctionType) -> bool:
    """Whether a function is poot's own, the standard library's, or an installed package's."""
    module = function.__module__ or ""
    return module.partition(".")[0] == _PACKAGE or is_library_file(function.__code__.co_filename)


def reachable_names(roots: Iterable[object]) -> frozenset[str]:
    """Every name that code reachable from `roots` reads, through helper functions and methods of captured objects."""
    names: set[str] = set()
    before = -1
    while len(names) != before:  # a method found by one name may read further ones
        before = len(names)
        _collect_names(list(roots), names)
    return frozenset(names)


def _collect_names(pending: list[object], names: set[str]) -> None:
    seen: dict[int, object] = {}
    while pending:
        value = unwrap(pending.pop())
        if id(value) in seen or isinstance(value, (*PLAIN, float, np.ndarray, Array, np.generic)):
            continue
        seen[id(value)] = value
        if isinstance(value, types.FunctionType):
            if not is_library(value):
                names |= _code_names(value.__code__)[0]
                pending += [item for _, item in _free_values(value)]
        elif isinstance(value, dict):
            pending += list(cast("dict[object, object]", value).values())
        elif isinstance(value, (list, tuple, set, frozenset, deque)):
            pending += list(cast("list[object]", value))
        else:
            pending += [item for _, item in _members(value, names)]


def unwrap(value: object) -> object:
    """The user's function below a traced one; anything else as it is."""
    return getattr(value, "__poot_function__", value) if not isinstance(value, type) else value


def _free_values(function: types.FunctionType) -> list[tuple[str, object]]:
    """Closure cells, defaults and globals of a function, by the names under which its code reads them."""
    found: list[tuple[str, object]] = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found.append((name, cell.cell_contents))
        except ValueError:
            found.append((name, _UNBOUND))
    code = function.__code__
    defaults = function.__defaults__ or ()
    defaulted = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    named = [*zip(defaulted, defaults, strict=True), *(function.__kwdefaults__ or {}).items()]
    found += [(f"default of {name}", value) for name, value in named]
    space = function.__globals__
    found += [(name, space[name]) for name in _code_names(code)[1] if name in space]
    return found


class _Unbound:
    """The value of a closure cell that has none yet."""


_UNBOUND = _Unbound()


def _members(value: object, names: Iterable[str]) -> list[tuple[str, object]]:
    """The parts of a captured object that code with these `names` may read."""
    if isinstance(value, types.MethodType):
        return [("", value.__func__), ("self", value.__self__)]
    if isinstance(value, functools.partial):
        partial = cast("functools.partial[Any]", value)
        arguments = [(str(number), item) for number, item in enumerate(partial.args)]
        return [("func", partial.func), *arguments, *partial.keywords.items()]
    if isinstance(value, property):
        return [("get", value.fget)]
    if isinstance(value, functools.cached_property):
        return [("get", cast("functools.cached_property[Any]", value).func)]
    if isinstance(value, (staticmethod, classmethod)):
        return [("", cast("staticmethod[..., Any]", value).__func__)]
    if isinstance(value, types.ModuleType):
        if is_library_module(value):
            return []
        return [(name, vars(value)[name]) for name in sorted(names) if name in vars(value)]
    space: dict[str, object] = {}
    kind = value if isinstance(value, type) else type(value)
    for base in reversed(kind.__mro__):
        if not is_library_type(base):
            space.update({name: item for name, item in vars(base).items() if name in names or name == "__call__"})
    if not isinstance(value, type):
        slots = [name for base in kind.__mro__ for name in _slots(base)]
        space.update({name: getattr(value, name) for name in slots if name in names and hasattr(value, name)})
        space.update({name: item for name, item in getattr(value, "__dict__", {}).items() if name in names})
    return [(name, space[name]) for name in sorted(space)]


def _slots(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def is_library_module(module: types.ModuleType) -> bool:
    """The same of a module."""
    file = getattr(module, "__file__", None)
    root = module.__name__.partition(".")[0]
    if file is None:
        return root in sys.stdlib_module_names
    return root == _PACKAGE or is_library_file(file)


def is_library_type(kind: type) -> bool:
    """The same of a class."""
    module = sys.modules.get(kind.__module__)
    if module is None:
        return False
    return kind.__module__ == "builtins" or (kind.__module__ != "__main__" and is_library_module(module))


# --- values to key parts ----------------------------------------------------------------------------------------------


class _Walk:
    """Turns what the code reads into key parts, each object once."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self.found = Captures(names=names)
        self._seen: dict[int, int] = {}
        self._array_numbers: dict[int, int] = {}
        self._keep: list[object] = []

    def add(self, label: str, value: object) -> None:
        self.found.parts[label] = self.value(label, value)

    def function(self, label: str, function: types.FunctionType) -> Hashable:
        """A function's code and, unless it is a library's, everything that it reads."""
        if is_library(function):
            return Same(function)
        self.found.functions.append(function)
        prefix = f"{label}." if label else ""
        for name, value in _free_values(function):
            self.add(prefix + name, value)
        return code_token(function.__code__)

    def value(self, label: str, value: object) -> Hashable:
        """The key part of any value."""
        if isinstance(value, DType):
            return value
        if isinstance(value, PLAIN):
            return type(cast("object", value)), cast("Hashable", value)
        if isinstance(value, float):
            return float, struct.pack("<d", value)
        if isinstance(value, (Tracer, WeakTracer)):
            return Same(value)
        if isinstance(value, (np.ndarray, Array)):
            return self._array(label, value)
        if isinstance(value, np.generic):
            scalar = cast("np.generic[Any]", value)
            return scalar.dtype, scalar.tobytes()
        if isinstance(value, slice):
            part = cast("slice[object, object, object]", value)
            return slice, tuple(self.value(label, item) for item in (part.start, part.stop, part.step))
        return self._compound(label, unwrap(value))

    def _array(self, label: str, array: Any) -> Hashable:
        number = self._array_numbers.setdefault(id(array), len(self.found.arrays))
        if number == len(self.found.arrays):
            self.found.arrays.append(array)
            self.found.labels.append(label)
        dtype = array.dtype
        # The number tells arrays that are one object from arrays that are equal in dtype and shape only.
        return ArraySpec, dtype, tuple(array.shape), number, getattr(array, "is_tracked", False)

    def _compound(self, label: str, value: object) -> Hashable:
        number = self._seen.get(id(value))
        if number is not None:
            return "again", number
        self._seen[id(value)] = len(self._seen)
        self._keep.append(value)
        if isinstance(value, types.FunctionType):
            return self.function(label, value)
        if isinstance(value, (list, tuple, deque)):
            items = cast("list[object] | tuple[object, ...] | deque[object]", value)
            return type(items), tuple(self.value(f"{label}.{i}", item) for i, item in enumerate(items))
        if isinstance(value, dict):
            mapping = cast("dict[object, object]", value)
            entries = tuple((self._name(key), self.value(f"{label}.{key}", item)) for key, item in mapping.items())
            return type(mapping), entries
        if isinstance(value, (set, frozenset)):
            members = cast("set[object] | frozenset[object]", value)
            return type(members), frozenset(self.value(label, item) for item in members)
        for name, item in _members(value, self.names):
            self.add(f"{label}.{name}" if name else label, item)
        return Same(value)

    def _name(self, key: object) -> Hashable:
        return key if isinstance(key, (str, int)) else Same(key)
