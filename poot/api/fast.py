"""The short way of a repeated call: positional arrays, and captures that are certain not to have changed.

A call that went the long way leaves behind what made it valid: the exact objects that the function's names led to, and
the dtypes and shapes of its arguments.  While these are the same, the next call goes straight to the recorded launches.
Anything unusual (pytrees, captured containers and instances, loops that the host decides, devices
whose buffers have no address) takes the long way, which gives the same answer.

Every line of `FastCall.__call__` counts here: it runs in a microsecond or two.
"""

# The slots of arrays are read directly, since a property costs as much as a launch's argument.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from poot.api.arguments import Arguments
from poot.api.array import DeviceArray, Held
from poot.api.constants import Kept, keep
from poot.api.devices import default, precision_of
from poot.api.guards import Guards, guards_of
from poot.api.invoke import Compiled, weak_value
from poot.api.precision import KEPT, WIDE
from poot.api.recording import Source, digest
from poot.backends.device import DeviceBackend, InPlace
from poot.backends.executable import Call
from poot.backends.faults import FaultCheck
from poot.backends.host import data_address
from poot.dtypes import ArraySpec

_NDARRAY: Final[type[Any]] = np.ndarray
#: NumPy's flags of C-contiguous, aligned arrays.
_PLAIN_FLAGS = 0x101

#: What a short call gives that cannot be made.
MISS: Final = object()


def call_key(args: tuple[Any, ...]) -> Hashable | None:
    """The dtypes and shapes of positional arrays, and the types of numbers; None where an argument is anything else."""
    key: list[Hashable] = []
    for value in args:
        kind = cast("type[object]", type(value))
        if kind is np.ndarray:
            key.append(value.dtype)
            key.append(value.shape)
        elif kind is DeviceArray:
            spec = value._spec
            key.append(spec.shape)  # first: NumPy's arrays have keys of their own
            key.append(spec.dtype.dtype)
        elif kind is float or kind is int:
            key.append(kind)
        else:
            return None
    return tuple(key)


@dataclass(frozen=True, slots=True)
class _Expected:
    """What an input of the graph must be: `position` among the arguments, or the captured array itself.

    For a number `number` is its type, and `array` the name of its argument.
    """

    position: int
    array: Any
    spec: ArraySpec
    number: type[int] | type[float] | None = None


def _position(path: str, names: Sequence[str]) -> int:
    """Where the argument of a path stands among arguments by position; only those of `*args` have a place below it."""
    name, _, place = path.partition(".")
    return names.index(name) + int(place or 0)


def _value(source: Source, leaves: Sequence[Any], captured: Sequence[Any]) -> Any:
    """What a call gives for an input of the graph, numbers as they are."""
    match source.kind:
        case "capture":
            return captured[source.index]
        case "frozen":
            return source.array
        case _:
            return leaves[source.index]


#: Each spec that calls have met, as the one object by which calls tell it at once.
_specs: dict[ArraySpec, ArraySpec] = {}


def _one(spec: ArraySpec) -> ArraySpec:
    return _specs.setdefault(spec, spec)


class FastCall:
    """A compiled specialisation behind its guards."""

    __slots__ = (
        *("_call", "_contents", "_count", "_device", "_expected", "_guards"),
        *("_kept", "_kept_addresses", "_on_host", "_outputs", "_rebuild", "_rare", "_roams", "_unread", "_wide"),
    )

    def __init__(
        self,
        compiled: Compiled,
        guards: Guards,
        expected: Sequence[_Expected],
        contents: tuple[tuple[Any, bytes], ...],
        device: DeviceBackend,
        count: int,
        unread: tuple[tuple[int, type[object]], ...],
        *,
        roams: bool,
    ) -> None:
        self._guards = guards
        self._device = device
        self._on_host = isinstance(device, InPlace)
        self._count = count
        # The process's bounded cache alone decides how long a specialisation is kept.
        self._call = weakref.ref(compiled.call)
        #: (position, array or name, spec, NumPy dtype, shape); for a number None and its type in place of the latter.
        self._expected = tuple(
            (item.position, item.array, _one(item.spec), item.spec.dtype.dtype, item.spec.shape)
            if item.number is None
            else (item.position, item.array, item.spec, None, item.number)
            for item in expected
        )
        self._unread = unread
        self._wide = any(item.spec.dtype in WIDE for item in expected)
        self._rare = bool(unread or contents or self._wide)
        specs = [_one(atom.spec) for atom in compiled.recorded.graph.outputs]
        self._outputs = tuple(zip(compiled.outputs, specs, strict=True))
        tree = compiled.recorded.outputs
        self._rebuild: Callable[[Sequence[Any]], Any] | None = None if tree.is_leaf() else tree.unflatten
        self._roams = roams
        self._contents = contents
        self._kept: Kept | None = None
        self._kept_addresses: tuple[int, ...] = ()

    @staticmethod
    def make(
        compiled: Compiled,
        function: types.FunctionType,
        arguments: Arguments,
        captured: Sequence[Any],
        device: DeviceBackend,
        *,
        fixed: bool,
        trees: bool,
    ) -> FastCall | None:
        """The short way of a call that has just gone the long one; None where it must go on doing so.

        `fixed` says that the function states its device, `trees` that the short way is called with the leaves of the
        arguments, not with the arguments themselves.
        """
        names, paths = arguments.names, [leaf.path for leaf in arguments.leaves]
        if arguments.statics or not compiled.call.make_direct():
            return None
        order = range(len(paths)) if trees else [_position(path, names) for path in paths]
        leaves = [leaf.value for leaf in arguments.leaves]
        expected: list[_Expected] = []
        for _, source, spec in compiled.sources:
            if source.kind == "weak" and isinstance(device, InPlace):
                kind = int if type(leaves[source.index]) is int else float
                expected.append(_Expected(order[source.index], paths[source.index], spec, kind))
                continue
            if source.kind == "weak":
                return None
            leaf, value = source.kind == "leaf", _value(source, leaves, captured)
            if value.dtype != spec.dtype or not np.dtype(value.dtype).isnative:
                return None
            if not isinstance(value, DeviceArray) and not isinstance(device, InPlace):
                return None
            expected.append(_Expected(order[source.index] if leaf else -1, None if leaf else value, spec))
        guards = guards_of(function)
        if guards is None:
            return None
        read = {item.position for item in expected}
        unread = tuple(
            (order[n], cast("type[object]", type(leaf))) for n, leaf in enumerate(leaves) if order[n] not in read
        )
        read = [_value(source, leaves, captured) for _, source, _ in compiled.sources if source.kind == "capture"]
        # What the graph reads of the arguments may come from anywhere at the next call; these are what they are.
        at_home = any(isinstance(value, DeviceArray) for value in read) or any(
            kind is DeviceArray for _, kind in unread
        )
        contents = tuple((captured[index], known) for index, known in compiled.recorded.contents)
        fast = FastCall(compiled, guards, expected, contents, device, len(order), unread, roams=not (fixed or at_home))
        return fast if fast._keep(compiled, leaves, captured) else None

    def _keep(self, compiled: Compiled, leaves: Sequence[Any], captured: Sequence[Any]) -> bool:
        """Hold the program's kept slots; whether they are there, as long as nothing writes to what they are made of."""
        if not compiled.call.kept:
            return True
        values = [_value(source, leaves, captured) for _, source, _ in compiled.sources]
        views = [value.buffer_view() if isinstance(value, DeviceArray) else None for value in values]
        self._kept = keep(compiled.call, values, cast("Any", views))
        if self._kept is None:
            return False
        self._kept_addresses = tuple(cast("Any", buffer).address for buffer in self._kept.buffers)
        return True

    def _differs(self, args: tuple[Any, ...]) -> bool:
        """Whether an argument that the graph does not read has another type or device, an array that the trace read
        changed, or 64-bit arrays are to be converted here.
        """
        if self._wide and precision_of(KEPT, None, self._device) != KEPT:
            return True
        for position, kind in self._unread:
            value = args[position]
            if type(value) is not kind:
                return True
            if isinstance(value, DeviceArray) and (value._gone or value._memory.device is not self._device):
                return True
        return any(digest(array) != known for array, known in self._contents)

    def __call__(self, args: tuple[Any, ...]) -> Any:
        """Run; MISS where the arguments are others, or the long way has to be taken."""
        if len(args) != self._count:
            return MISS
        device, on_host, roams = self._device, self._on_host, self._roams
        addresses: list[int] = []
        alive: list[object] | None = None
        value: Any
        for position, held, spec, dtype, shape in self._expected:
            value = held if position < 0 else args[position]
            if type(value) is _NDARRAY and on_host:
                if (value.dtype is not dtype and value.dtype != dtype) or value.shape != shape:
                    return MISS
                if value.flags.num & _PLAIN_FLAGS != _PLAIN_FLAGS:
                    return MISS
                addresses.append(data_address(value))
            elif type(value) is DeviceArray and dtype is not None:
                memory: Any = value._memory
                if memory.device is not device or value._gone or (value._spec is not spec and not value.takes(spec)):
                    return MISS
                if value._check is not None:
                    value.buffer_view()  # waits for its launch, and raises its fault
                roams = roams and position < 0  # an argument's device is the call's
                addresses.append(memory.buffer.address + value._offset)
            elif type(value) is shape:
                number = weak_value(held, cast("float", value), spec.dtype)
                alive = [*(alive or ()), number]  # until the launch has run
                addresses.append(data_address(number))
            else:
                return MISS
        call = self._call()
        if call is None or not self._guards.hold() or (roams and default() is not device):
            return MISS
        if self._rare and self._differs(args):
            return MISS
        if self._kept is not None:
            if not self._kept.valid:
                return MISS
            addresses += self._kept_addresses
        buffers, record = call.run_direct(addresses)
        check = None if record is None else FaultCheck(call.faults, record)
        if self._rebuild is None:
            return DeviceArray(Held(device, buffers[0]), self._outputs[0][1], check)
        memories = [Held(device, buffer) for buffer in buffers]
        return self._rebuild([DeviceArray(memories[number], spec, check) for number, spec in self._outputs])


#: The kinds of calls that one function keeps short ways of.
_KINDS = 64


class ShortWays(dict[Hashable, FastCall]):
    """The short ways of one function's calls by the kinds of calls, and the kinds that leave none behind."""

    def __init__(self) -> None:
        super().__init__()
        self._none: dict[Hashable, weakref.ref[Call]] = {}

    def wanted(self, key: Hashable, compiled: Compiled) -> bool:
        """Whether it is worth trying to make one: not where this specialisation has left none behind before."""
        known = self._none.get(key)
        return known is None or known() is not compiled.call

    def keep(self, key: Hashable, compiled: Compiled, fast: FastCall | None) -> None:
        """Take the short way from now on, where there is one."""
        for kept in (self, self._none):
            if len(kept) >= _KINDS:
                kept.clear()
        if fast is None:
            self._none[key] = weakref.ref(compiled.call)
        else:
            self[key] = fast
