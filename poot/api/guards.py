"""Whether what a function captures is certain not to have changed: checks by identity, in a microsecond or less."""

from __future__ import annotations

import functools
import operator
import types
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from poot.api.array import DeviceArray
from poot.api.codes import imported, reads_of
from poot.api.libraries import is_library, is_library_module, is_library_type, is_poot, unwrap
from poot.api.members import PLAIN, UNBOUND, content, function_members
from poot.dtypes import DType

_ABSENT = object()
_STABLE = frozenset({*PLAIN, float})
_ASKS = frozenset({"getattr", "hasattr"})


@dataclass(frozen=True, slots=True)
class Guards:
    """What a function's names led to, by the place that holds each name."""

    spaces: tuple[tuple[dict[str, object], str, object], ...]
    cells: tuple[tuple[types.CellType, object], ...]
    functions: tuple[tuple[types.FunctionType, types.CodeType, object, object], ...]
    arrays: tuple[tuple[Any, Any, tuple[int, ...]], ...]
    containers: tuple[tuple[Any, tuple[object, ...], tuple[object, ...]], ...] = ()

    def hold(self) -> bool:
        """Whether names lead to the same objects, containers have the same items, and arrays are alike."""
        for function, code, defaults, keywords in self.functions:
            if (
                function.__code__ is not code
                or function.__defaults__ is not defaults
                or function.__kwdefaults__ is not keywords
            ):
                return False
        for space, name, value in self.spaces:
            if space.get(name, _ABSENT) is not value:
                return False
        try:
            for cell, value in self.cells:
                if cell.cell_contents is not value:
                    return False
        except ValueError:  # it has been emptied
            return False
        for container, keys, items in self.containers:
            if len(container) != len(items):
                return False
            if not all(map(operator.is_, container.values() if keys else container, items)):
                return False
            if keys and not all(map(operator.is_, container, keys)):
                return False
        if not self.arrays:
            return True
        return all(array.dtype is dtype and array.shape == shape for array, dtype, shape in self.arrays)


def guards_of(root: types.FunctionType) -> Guards | None:
    """The guards of a function that captures constants, arrays, dicts, lists and tuples of them, modules, and other
    such functions alone; None for others.
    """
    walk = _GuardWalk()
    return walk.result() if walk.follow(root) else None


class _GuardWalk:
    def __init__(self) -> None:
        self.spaces: list[tuple[dict[str, object], str, object]] = []
        self.cells: list[tuple[types.CellType, object]] = []
        self.functions: list[tuple[types.FunctionType, types.CodeType, object, object]] = []
        self.arrays: list[tuple[Any, Any, tuple[int, ...]]] = []
        self.containers: list[tuple[Any, tuple[object, ...], tuple[object, ...]]] = []
        self._names: set[str] = set()
        self._seen: set[int] = set()
        self._pending: list[object] = []

    def result(self) -> Guards:
        lists = self.spaces, self.cells, self.functions, self.arrays, self.containers
        return Guards(*map(tuple, lists))  # type: ignore[arg-type]

    def follow(self, root: types.FunctionType) -> bool:
        """Whether everything that a function leads to is guarded."""
        self._pending = [root]
        while self._pending:
            if not self.value(self._pending.pop()):
                return False
        helpers = [function for function, _, _, _ in self.functions]
        return all(self.own_attributes(helper) for helper in helpers)

    def function(self, function: types.FunctionType) -> bool:
        if id(function) in self._seen:
            return True
        self._seen.add(id(function))
        defaults, keywords = function.__defaults__, function.__kwdefaults__
        self.functions.append((function, function.__code__, defaults, keywords))
        self._pending += [defaults or (), keywords or ()]
        for cell in function.__closure__ or ():
            value = content(cell)
            if value is UNBOUND:
                return False
            self.cells.append((cell, value))
            self._pending.append(value)
        space, reads = function.__globals__, reads_of(function.__code__)
        self._names |= reads.attributes
        self._names |= _ASKS & set(reads.globals)
        for name in reads.globals:
            value = space.get(name, _ABSENT)
            self.spaces.append((space, name, value))
            if value is not _ABSENT:
                self._pending.append(value)
        self._pending += [module for _, module in imported(reads, space)] if reads.imports else ()
        return True

    def own_attributes(self, function: types.FunctionType) -> bool:
        """Whether no code reads an attribute of a function; what it wraps does not change unless someone names it."""
        own, asked = function.__dict__, not _ASKS.isdisjoint(self._names)
        if not own and asked:
            self.containers.append((own, (), ()))
        return self._names.isdisjoint(own) and not (own and asked)

    def value(self, value: object) -> bool:
        """Whether a value cannot change but through a name; functions and containers are followed later."""
        kind = type(value)
        if kind in _STABLE or kind is DeviceArray:  # whose dtype and shape are its own for good
            return True
        if kind in (dict, list, tuple):
            return self.container(cast("Any", value))
        if kind is functools.partial:
            partial = cast("functools.partial[Any]", value)
            self._pending += [partial.func, partial.args, partial.keywords]
            return not vars(partial)
        if kind is np.ndarray:
            array = cast("np.ndarray[Any, Any]", value)
            self.arrays.append((array, array.dtype, array.shape))
            return not array.dtype.hasobject
        if issubclass(kind, (np.generic, DType, np.dtype)):
            return True
        if issubclass(kind, types.ModuleType):
            return is_library_module(cast("types.ModuleType", value))
        if issubclass(kind, type):
            return is_library_type(cast("type", value))
        if kind is types.BuiltinFunctionType:  # of a module, not the method of an object that may change
            owner = cast("types.BuiltinFunctionType", value).__self__
            return owner is None or issubclass(type(owner), types.ModuleType)
        inner = unwrap(value)
        return type(inner) is types.FunctionType and self.inner(inner)

    def container(self, container: dict[object, object] | list[object] | tuple[object, ...]) -> bool:
        """Whether nothing in a container can change but by putting something else there."""
        if id(container) in self._seen:
            return True
        self._seen.add(id(container))
        mapping = isinstance(container, dict)
        keys = tuple(container) if mapping else ()
        items = tuple(container.values()) if mapping else tuple(container)
        if not isinstance(container, tuple):
            self.containers.append((container, keys, items))
        self._pending += items
        return all(type(key) in (str, int) for key in keys)

    def inner(self, function: types.FunctionType) -> bool:
        """Whether a function is a library's that wraps none of the user's, or one that is guarded itself."""
        if not is_library(function):
            return self.function(function)
        return is_poot(function.__module__) or not function_members(function, frozenset())
