"""What a device backend is, and the registry of backends.

A backend loads compiled kernels and runs recordings of them; everything above it (programs, engines, caches, faults) is
written once, over this protocol.  A new device is one class and one `register` call.

Memory is untyped: a `Buffer` is a span of it; what is bound to a kernel is a `BufferView`, a buffer and a byte offset.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from poot import forks
from poot.backends.inherited import require_process
from poot.backends.names import BUILTIN, no_language, parts
from poot.backends.opening import opened
from poot.backends.toolchain import CompiledKernel
from poot.errors import ArgumentError
from poot.kernel.ir import Slot as ArgumentSlot
from poot.target import Language, Target

HostArray: TypeAlias = np.ndarray[Any, Any]


class Buffer(Protocol):
    """A span of device memory, made by `DeviceBackend.allocate`."""

    @property
    def nbytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class BufferView:
    """A buffer from byte `offset` on."""

    buffer: Buffer
    offset: int = 0


class Loaded(Protocol):
    """A kernel ready to run on its device; the device keeps what it needs alive with it."""

    @property
    def compiled(self) -> CompiledKernel: ...


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """One launch of a recording.

    `buffers` gives, per buffer parameter of the kernel, a position in the recording's table of views and a byte offset
    from it; `scalars` the values of the kernel's scalar, extent, stride and threads slots, in the order of its argument
    schema; `groups` the grid in work-groups; `number` what a fault record calls this launch.
    """

    loaded: Loaded
    buffers: tuple[tuple[int, int], ...]
    groups: tuple[int, int, int]
    scalars: tuple[int | float, ...] = ()
    number: int = 0


@dataclass(frozen=True, slots=True)
class CopySpec:
    """Copy `nbytes` from one position of the table to another, from byte offsets within them."""

    source: int
    target: int
    nbytes: int
    source_offset: int = 0
    target_offset: int = 0


RecordedStep: TypeAlias = LaunchSpec | CopySpec


@dataclass(frozen=True, slots=True)
class BranchSpec:
    """One of two blocks, by the bool at a position of the table and a byte offset: the first where it is false."""

    predicate: tuple[int, int]
    blocks: tuple[tuple[ControlledStep, ...], tuple[ControlledStep, ...]]


@dataclass(frozen=True, slots=True)
class LoopSpec:
    """`body`, `trip_count` times; where that is negative, while `condition` leaves the bool at `predicate` true.

    The i32 at `counter`, where there is one, holds the number of the turn while that runs.  `settles` says that more
    turns (body, then condition), once the predicate is false, change nothing that is read afterwards.
    """

    condition: tuple[ControlledStep, ...]
    predicate: tuple[int, int] | None
    body: tuple[ControlledStep, ...]
    trip_count: int = -1
    counter: tuple[int, int] | None = None
    settles: bool = False


ControlledStep: TypeAlias = RecordedStep | BranchSpec | LoopSpec


def launch_arguments(launch: LaunchSpec) -> Iterator[tuple[ArgumentSlot, int | float, int]]:
    """The arguments of a launch in the order of its kernel's schema.

    Each is (slot, value, offset): for a buffer, its position in the table and its byte offset; for the fault record,
    (slot, -1, 0); for every other slot the number itself.
    """
    buffers = iter(launch.buffers)
    scalars = iter(launch.scalars)
    for slot in launch.loaded.compiled.slots:
        match slot.kind:
            case "buffer":
                position, offset = next(buffers)
                yield slot, position, offset
            case "num_groups":
                yield slot, launch.groups[slot.axis], 0
            case "launch":
                yield slot, launch.number, 0
            case "fault":
                yield slot, -1, 0
            case _:
                yield slot, next(scalars), 0


class Recording(Protocol):
    """A prepared sequence of launches, made by `DeviceBackend.record`."""


class DeviceBackend(Protocol):
    """One device.  Every method raises a DeviceError, AllocationError or CompileError; none returns stale data.

    A class that sets `submits_whole = True` promises that a replay with fixed views which raises has run nothing, or
    everything; one that sets `launches_whole = True`, that a launch or copy has run as a whole or not at all.  Others
    may stop anywhere.  One that stops working for good says why in `lost`: each of its methods then raises a
    DeviceLostError, but for `free`, and `open_device` makes another.  `forked` says that a child has inherited it.
    """

    name: str
    target: Target

    def allocate(self, nbytes: int) -> Buffer:
        """Memory for `nbytes` (0 is allowed), aligned to 8 bytes and as kernels need it; contents are undefined.

        AllocationError where there is not so much.
        """
        ...

    def free(self, buffer: Buffer) -> None:
        """Give memory back; launches already enqueued may still use it."""
        ...

    def write(self, view: BufferView, array: HostArray) -> None:
        """Copy a C-contiguous host array to the device, in order with launches; the array may change afterwards."""
        ...

    def read(self, view: BufferView, out: HostArray) -> None:
        """Wait for the work that `view` depends on and copy it into a C-contiguous host array."""
        ...

    def copy(self, source: BufferView, target: BufferView, nbytes: int) -> None:
        """Copy on the device, in order with launches."""
        ...

    def host_view(self, view: BufferView, nbytes: int) -> HostArray | None:
        """The memory itself as a u8 array once the work on it is done, where the host can address it; else None.

        The array stays valid after the buffer is freed, for as long as anything refers to it.
        """
        ...

    def import_host(self, array: HostArray) -> Buffer | None:
        """A buffer over a C-contiguous host array, without a copy, where launches can use it in place; else None."""
        ...

    def synchronize(self) -> None:
        """Wait until everything enqueued has run."""
        ...

    def load(self, compiled: CompiledKernel) -> Loaded:
        """Make a compiled kernel runnable."""
        ...

    def record(
        self,
        steps: Sequence[RecordedStep],
        views: Sequence[BufferView | None],
        rebindable: Sequence[int],
        bindings: Sequence[BufferView],
        fault: int = -1,
    ) -> Recording:
        """Prepare `steps` over a table of views, and run them once.

        Positions named in `rebindable` (None in `views`) are given anew at each replay, and by `bindings` for this
        first run; all others are fixed.  `fault` is the position of the fault record (FAULT_WORDS i32) that is handed
        to every launch, or -1 where no kernel can fault; whoever runs the recording clears it.  Where a driver compiles
        at a first launch, it does so here, kernel by kernel, and is seen at it (`poot.backends.progress`).
        """
        ...

    def replay(self, recording: Recording, bindings: Sequence[BufferView]) -> None:
        """Run a recording with views for its rebindable positions, in their order."""
        ...

    def elapsed(self, recording: Recording, bindings: Sequence[BufferView], repeats: int) -> float:
        """The median time of a replay in seconds, measured on the device's clock where it has one."""
        ...


# --- devices that share the host's memory -----------------------------------------------------------------------


class DirectLaunch(Protocol):
    """A launch that takes host addresses."""

    def run(self, addresses: Sequence[int], numbers: Sequence[int | float] = ()) -> HostArray | None:
        """Launch and wait; the fault record if something failed, else None.

        `addresses` are those of the buffers' first elements, `numbers` the kernel's scalars, in the order of its
        parameters; any number of threads may run at once.
        """
        ...


@runtime_checkable
class InPlace(Protocol):
    """What a device offers besides, where kernels can work on the host's memory itself, strided arrays included."""

    def address(self, view: BufferView) -> int:
        """The host address of a view."""
        ...

    def direct(self, step: LaunchSpec) -> DirectLaunch:
        """Prepare one launch; its `buffers`, and those `scalars` that stand for parameters, are given at each run."""
        ...


# --- calls by address -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CallLayout:
    """Where a jit-style call's buffers stand in the table of views of its recording.

    `arguments` gives the position of each argument, -1 for one that no kernel reads; `outputs` position and bytes of
    each fresh result; `arena` the position of the scratch memory of `arena_bytes`; `fault` that of the fault record,
    -1 where no kernel can fault.
    """

    arguments: tuple[int, ...]
    outputs: tuple[tuple[int, int], ...]
    arena: int
    arena_bytes: int
    fault: int = -1


class DirectCall(Protocol):
    """A recording that is run on addresses, by any number of threads at once."""

    def __call__(self, addresses: list[int]) -> tuple[list[Any], Any]:
        """Run with the addresses of the arguments, in a list that is used up.

        A fresh buffer for each output, in the order of the layout, and the buffer of the fault record; None in its
        place where there was no fault, or can be none.
        """
        ...


@runtime_checkable
class Addressed(Protocol):
    """What a device offers besides, where its buffers have an `address` that launches take."""

    def direct_call(self, recording: Any, layout: CallLayout) -> DirectCall:
        """The quick form of a recording in which every position is rebindable."""
        ...


@runtime_checkable
class Controlling(Protocol):
    """What a device offers besides, where it decides branches and loops by itself, without the host."""

    def record_control(
        self,
        steps: Sequence[ControlledStep],
        views: Sequence[BufferView | None],
        rebindable: Sequence[int],
        bindings: Sequence[BufferView],
        fault: int = -1,
    ) -> Recording:
        """`record` of steps with branches and loops among them."""
        ...


@runtime_checkable
class Multilingual(Protocol):
    """A device that kernels can be compiled for in several languages."""

    def with_language(self, language: Language) -> DeviceBackend:
        """The same device, compiling for `language` where that can express a kernel."""
        ...


# --- the registry ---------------------------------------------------------------------------------------------------

Factory: TypeAlias = Callable[[int], DeviceBackend]  # the ordinal after the colon: "cuda:1"

_factories: dict[str, Factory] = {}
_devices: dict[str, DeviceBackend] = {}
_lock = threading.RLock()
forks.awaited(forks.DEVICES, _lock.acquire, _lock.release)


def register(name: str, factory: Factory) -> None:
    """Add a backend: `factory(ordinal)` makes its device or raises DeviceUnavailableError with the reason.

    What else it raises becomes a DeviceUnavailableError as well.
    """
    with _lock:
        if name in _factories or name in BUILTIN or not name or ":" in name:
            raise ArgumentError(what="device backend", actual=name, expected="a new name, without a colon")
        _factories[name] = factory


def unregister(name: str) -> None:
    """Take a registered backend out again, and forget its devices."""
    with _lock:
        del _factories[name]
        for device in [key for key in _devices if key.partition(":")[0] == name]:
            del _devices[device]


def backend_names() -> tuple[str, ...]:
    """The names of all backends, those that come with poot first."""
    return (*BUILTIN, *_factories)


def open_device(name: str, *, language: Language | None = None) -> DeviceBackend:
    """The device called `name`, the same object as long as it works; DeviceUnavailableError says why there is none.

    ArgumentError for what is no name of one; DeviceError in a child of the process that has it open.
    `language` asks for one of its target's languages first: a device of its own, with the same memory.
    """
    backend, ordinal = parts(name, backend_names())
    key = f"{backend}:{ordinal}"
    with _lock:
        found = _devices.get(key)
        require_process(found)
        if found is None or getattr(found, "lost", None) is not None:
            found = opened(backend, key if ordinal else backend, lambda: _factory(backend)(ordinal))
            for stale in [known for known in _devices if known.startswith(f"{key}:")]:
                del _devices[stale]
            _devices[key] = found
        if language is None or language == found.target.languages[0]:
            return found
        chosen = _devices.get(f"{key}:{language}")
        if chosen is None:
            chosen = _devices[f"{key}:{language}"] = _speaking(found, language)
        return chosen


def check_device(name: str) -> None:
    """The errors of `open_device` for what is the name of no device on any machine, without opening any."""
    parts(name, backend_names())


def _speaking(device: DeviceBackend, language: Language) -> DeviceBackend:
    if language not in device.target.languages or not isinstance(device, Multilingual):
        raise no_language(device.name, language, device.target.languages)
    return device.with_language(language)


def _factory(backend: str) -> Factory:
    if backend in _factories:
        return _factories[backend]
    return backend_module(backend).make_device


def backend_module(backend: str) -> Any:
    """The module of a backend that comes with poot, imported; None for any other."""
    if backend not in BUILTIN:
        return None
    with forks.imports:
        return importlib.import_module(BUILTIN[backend])
