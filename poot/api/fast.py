"""The short way of a repeated call: positional arrays, and captures that are certain not to have changed.

A call that went the long way leaves behind what made it valid: the exact objects that the function's names led to, and
the dtypes and shapes of its arguments.  While these are the same, the next call goes straight to the recorded launches.
Anything unusual (keywords, pytrees, numbers, captured containers and instances, programs that can fault, devices whose
memory is not addressed by the host) takes the long way, which gives the same answer.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from poot.api.array import DeviceArray, Memory
from poot.api.captures import PLAIN, code_names, is_library, is_library_module, is_library_type, unwrap
from poot.api.devices import default
from poot.api.invoke import Compiled
from poot.api.recording import digest
from poot.backends.device import DeviceBackend
from poot.dtypes import DType

_ABSENT = object()
_STABLE = (*PLAIN, float, np.generic, DType)


def call_key(args: tuple[Any, ...]) -> Hashable | None:
    """The dtypes and shapes of positional arrays, or None where an argument is anything else."""
    key: list[Hashable] = []
    for value in args:
        kind = cast("type[object]", type(value))
        if kind is np.ndarray:
            key.append(value.dtype)
            key.append(value.shape)
        elif kind is DeviceArray:
            key.append(value.token)
        else:
            return None
    return tuple(key)


@dataclass(frozen=True, slots=True)
class Guards:
    """What a function's names led to, by the place that holds each name."""

    spaces: tuple[tuple[dict[str, object], str, object], ...]
    cells: tuple[tuple[types.CellType, object], ...]
    functions: tuple[tuple[types.FunctionType, types.CodeType, object, object], ...]
    arrays: tuple[tuple[Any, Any, tuple[int, ...]], ...]

    def hold(self) -> bool:
        """Whether every name still leads to the same object, and every captured array has its dtype and shape."""
        for space, name, value in self.spaces:
            if space.get(name, _ABSENT) is not value:
                return False
        for cell, value in self.cells:
            if cell.cell_contents is not value:
                return False
        for function, code, defaults, keywords in self.functions:
            if function.__code__ is not code or function.__defaults__ is not defaults:
                return False
            if function.__kwdefaults__ is not keywords:
                return False
        return all(array.dtype is dtype and array.shape == shape for array, dtype, shape in self.arrays)


def guards_of(root: types.FunctionType) -> Guards | None:
    """The guards of a function that captures constants, arrays, modules and other such functions alone; else None."""
    walk = _GuardWalk()
    return walk.result() if walk.function(root) else None


class _GuardWalk:
    def __init__(self) -> None:
        self.spaces: list[tuple[dict[str, object], str, object]] = []
        self.cells: list[tuple[types.CellType, object]] = []
        self.functions: list[tuple[types.FunctionType, types.CodeType, object, object]] = []
        self.arrays: list[tuple[Any, Any, tuple[int, ...]]] = []
        self._seen: set[int] = set()

    def result(self) -> Guards:
        return Guards(tuple(self.spaces), tuple(self.cells), tuple(self.functions), tuple(self.arrays))

    def function(self, function: types.FunctionType) -> bool:
        if id(function) in self._seen:
            return True
        self._seen.add(id(function))
        defaults, keywords = function.__defaults__, function.__kwdefaults__
        self.functions.append((function, function.__code__, defaults, keywords))
        for cell in function.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:
                return False
            self.cells.append((cell, value))
            if not self.value(value):
                return False
        space = function.__globals__
        for name in code_names(function.__code__):
            value = space.get(name, _ABSENT)
            self.spaces.append((space, name, value))
            if value is not _ABSENT and not self.value(value):
                return False
        return all(isinstance(value, _STABLE) for value in (*(defaults or ()), *(keywords or {}).values()))

    def value(self, value: object) -> bool:
        """Whether a value cannot change but through a name; functions are followed."""
        if isinstance(value, (np.ndarray, DeviceArray)):
            array = cast("np.ndarray[Any, Any]", value)
            self.arrays.append((array, array.dtype, array.shape))
            return True
        if isinstance(value, _STABLE):
            return True
        if isinstance(value, types.ModuleType):
            return is_library_module(value)
        if isinstance(value, type):
            return is_library_type(value)
        if isinstance(value, types.BuiltinFunctionType):
            return True
        inner = unwrap(value)
        return isinstance(inner, types.FunctionType) and (is_library(inner) or self.function(inner))


class FastCall:
    """A compiled specialisation behind its guards."""

    __slots__ = (
        *("_call", "_contents", "_device", "_guards", "_outputs"),
        *("_rebuild", "_roams", "_sizes", "_sources", "_specs"),
    )

    def __init__(
        self, compiled: Compiled, guards: Guards, sources: Sequence[Any], device: DeviceBackend, *, roams: bool
    ) -> None:
        self._guards = guards
        self._device = device
        # The process's bounded cache alone decides how long a specialisation is kept.
        self._call = weakref.ref(compiled.call)
        #: Per graph input: an argument's position, or the captured array itself.
        self._sources = tuple(sources)
        self._sizes = tuple(spec.dtype.itemsize for _, _, spec in compiled.sources)
        self._outputs = compiled.outputs
        self._specs = tuple(atom.spec for atom in compiled.recorded.graph.outputs)
        self._rebuild: Callable[[Sequence[Any]], Any] = compiled.recorded.outputs.unflatten
        self._roams = roams
        self._contents: tuple[tuple[Any, bytes], ...] = ()

    @staticmethod
    def make(
        compiled: Compiled,
        function: types.FunctionType,
        leaves: Sequence[Any],
        captured: Sequence[Any],
        device: DeviceBackend,
        order: Sequence[int],
        *,
        fixed: bool,
    ) -> FastCall | None:
        """The short way of a call that has just gone the long one; None where it must go on doing so.

        `order` maps the leaves of the arguments to positions of the call; `fixed` says that the function states its
        device.
        """
        if compiled.call.by_address() is None:
            return None
        sources: list[Any] = []
        for _, source, spec in compiled.sources:
            if source.kind not in ("leaf", "capture"):
                return None
            value = leaves[source.index] if source.kind == "leaf" else captured[source.index]
            if value.dtype != spec.dtype or not np.dtype(value.dtype).isnative:
                return None
            sources.append(order[source.index] if source.kind == "leaf" else value)
        guards = guards_of(function)
        if guards is None:
            return None
        at_home = any(isinstance(value, DeviceArray) for value in (*leaves, *captured))
        fast = FastCall(compiled, guards, sources, device, roams=not (fixed or at_home))
        fast._contents = tuple((captured[index], known) for index, known in compiled.recorded.contents)
        return fast

    def __call__(self, args: tuple[Any, ...]) -> Any:
        """Run; None where the long way has to be taken."""
        device = self._device
        call = self._call()
        if call is None or (self._roams and default() is not device) or not self._guards.hold():
            return None
        if any(digest(array) != known for array, known in self._contents):
            return None
        addresses: list[int] = []
        for source, size in zip(self._sources, self._sizes, strict=True):
            value = args[source] if type(source) is int else source
            if type(value) is DeviceArray:
                if value.backend is not device or not value.is_plain:
                    return None
                addresses.append(value.address)
                continue
            interface = value.__array_interface__
            address = interface["data"][0]
            if interface["strides"] is not None or address % size:
                return None
            addresses.append(address)
        run = call.by_address()
        if run is None:
            return None
        memories = [Memory(device, buffer) for buffer in run(addresses)]
        arrays = [DeviceArray(memories[number], spec) for number, spec in zip(self._outputs, self._specs, strict=True)]
        return self._rebuild(arrays)
