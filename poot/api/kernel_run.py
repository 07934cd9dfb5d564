"""Running a planned launch: in place where the device works on the host's memory, through buffers elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, TypeAlias

import numpy as np

from poot.api.array import DeviceArray, Memory
from poot.api.checks import Failed, LaunchCheck
from poot.api.constants import note_write
from poot.api.kernel_arguments import ArrayLike, HostArray, array_dtype, converter, fail
from poot.api.kernel_plan import Plan, Scalar, refuse_overlap
from poot.backends.device import BufferView, DeviceBackend, InPlace
from poot.backends.host import data_address, data_addresses
from poot.errors import KernelFault
from poot.kernel.ir import FAULT_WORDS
from poot.kernel.parse.annotations import BufferParameter, ConstParameter
from poot.kernel.parse.definition import Definition
from poot.trace.source import user_location

#: Bytes that the first element of every array is aligned to where a kernel may rely on it.
ALIGNED = 16
Strides: TypeAlias = tuple[int, ...]
Layouts: TypeAlias = "list[tuple[tuple[int, ...], Strides, int]]"
_CLEAR = np.zeros(FAULT_WORDS, np.int32)


@dataclass(frozen=True, slots=True)
class Wiring:
    """Where a kernel's arguments are among those of a call, and how its scalars are converted.

    `host` says that all buffers are NumPy arrays.
    """

    name: str
    host: bool
    buffers: tuple[int, ...]
    names: tuple[str, ...]
    written: tuple[int, ...]
    scalars: tuple[tuple[int, Callable[[Any], bool | int | float]], ...]


def wiring(made: Definition, plan: Plan, arrays: Sequence[ArrayLike]) -> Wiring:
    """The wiring of a planned kernel for arrays of these kinds."""
    items = made.parameters.items
    buffers = tuple(n for n, item in enumerate(items) if isinstance(item, BufferParameter))
    rest = [n for n, item in enumerate(items) if not isinstance(item, (BufferParameter, ConstParameter))]
    params = [param for param in plan.kernel.params if param not in plan.kernel.buffers]
    scalars = tuple(
        (n, converter(made.name, items[n].name, param.dtype)) for n, param in zip(rest, params, strict=False)
    )
    accesses = [item.access for item in items if isinstance(item, BufferParameter)]
    written = tuple(n for n, access in enumerate(accesses) if access != "read")
    host = not any(isinstance(array, DeviceArray) for array in arrays)
    return Wiring(made.name, host, buffers, tuple(items[n].name for n in buffers), written, scalars)


# --- layouts --------------------------------------------------------------------------------------------------------


def layouts(kernel: str, names: Sequence[str], arrays: Sequence[ArrayLike], device: DeviceBackend) -> Layouts:
    """Shape, element strides and alignment of each array, as the device will have it."""
    found: Layouts = []
    for name, array in zip(names, arrays, strict=True):
        shape = tuple(array.shape)
        itemsize = array_dtype(array).itemsize
        if isinstance(array, DeviceArray):
            place = device.address(array.buffer_view()) if isinstance(device, InPlace) else 0
            found.append((shape, contiguous(shape), itemsize if place % ALIGNED else ALIGNED))
            continue
        if any(stride % itemsize for stride in array.strides) or data_address(array) % itemsize:
            fail(kernel, f"`{name}` does not lie at multiples of its {itemsize} bytes", "copy it: np.array(x).")
        if not isinstance(device, InPlace):  # copied there in order
            found.append((shape, contiguous(shape), ALIGNED))
            continue
        strides = [stride // itemsize for stride in array.strides]
        if shape[-1] <= 1:
            strides[-1] = 1
        found.append((shape, tuple(strides), ALIGNED if data_address(array) % ALIGNED == 0 else itemsize))
    return found


def contiguous(shape: tuple[int, ...]) -> Strides:
    """Row-major element strides."""
    strides, step = list[int](), 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def check_writeable(kernel: str, names: Sequence[str], arrays: Sequence[ArrayLike], written: Sequence[int]) -> None:
    """Outputs can be written."""
    for number in written:
        if not writeable(arrays[number]):
            refuse_read_only(kernel, names[number])


def check_apart(kernel: str, names: Sequence[str], arrays: Sequence[ArrayLike], written: Sequence[int]) -> None:
    """No two elements of an output are in one place: which of their writes stayed would be up to the device."""
    for number in written:
        array = arrays[number]
        if isinstance(array, np.ndarray) and _folded(array.shape, array.strides, array.itemsize):
            message = f"elements of the output `{names[number]}` share memory: its strides are {array.strides}"
            fail(kernel, message, "write to an array that has a place for each element, such as a copy of it.")


def _folded(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Whether two elements of an array meet.  Steps that pass all that is below them never do; others are counted."""
    if 0 in shape:
        return False
    axes = sorted((abs(step), extent) for extent, step in zip(shape, strides, strict=True) if extent > 1)
    reach = itemsize
    for step, extent in axes:
        if step < reach:
            break
        reach += step * (extent - 1)
    else:
        return False
    if axes[0][0] == 0:
        return True
    places = np.zeros(1, np.int64)
    for step, extent in axes:
        places = np.add.outer(places, np.arange(extent, dtype=np.int64) * step).reshape(-1)
    return int(np.diff(np.sort(places)).min()) < itemsize


def writeable(array: ArrayLike) -> bool:
    """Whether a kernel may write an array; memory that poot only borrows may be read-only."""
    if isinstance(array, DeviceArray):
        return not getattr(array.buffer_view().buffer, "read_only", False)
    return bool(array.flags.writeable)


def note_writes(arrays: Sequence[ArrayLike], written: Sequence[int]) -> None:
    """What was made of the arrays of poot among the outputs is out of date."""
    for number in written:
        array = arrays[number]
        if isinstance(array, DeviceArray):
            note_write(array)


def refuse_read_only(kernel: str, name: str) -> NoReturn:
    """LaunchError for an output that cannot be written."""
    fail(kernel, f"the output `{name}` is read-only", "pass an array that can be written.")


# --- in place -------------------------------------------------------------------------------------------------------


class InPlaceRun:
    """Launches on host memory; arguments of the same dtypes, shapes and strides take the same one."""

    __slots__ = ("_address", "_aligned", "_direct", "_numbers", "_pairs", "_sizes", "plan", "wiring")

    def __init__(self, plan: Plan, wires: Wiring, device: InPlace, where: Layouts, itemsizes: Sequence[int]) -> None:
        self.plan = plan
        self.wiring = wires
        self._address = device.address
        self._aligned = all(align == ALIGNED for _, _, align in where)
        self._sizes = tuple(itemsizes)
        spans = [_span(shape, strides, size) for (shape, strides, _), size in zip(where, itemsizes, strict=True)]
        # Of each output and each other buffer: how far apart their addresses may lie, and their memory still overlap.
        self._pairs = tuple(
            (output, other, spans[output][0] - spans[other][1], spans[output][1] - spans[other][0])
            for output in wires.written
            for other in range(len(spans))
            if other != output
        )
        self._direct = device.direct(plan.spec([0] * len(wires.scalars)))
        self._numbers = plan.scalar_sources

    def run(self, args: Sequence[Any]) -> bool:
        """Launch and wait; False where the arrays are aligned less than the kernel relies on."""
        wires = self.wiring
        arrays = [args[position] for position in wires.buffers]
        addresses = data_addresses(arrays) if wires.host else [self._place(array) for array in arrays]
        if self._aligned:
            low = 0
            for address in addresses:
                low |= address
            if low % ALIGNED:
                return False
        elif any(address % size for address, size in zip(addresses, self._sizes, strict=True)):
            return False
        for number in wires.written:
            array = arrays[number]
            if not (array.flags.writeable if type(array) is np.ndarray else writeable(array)):
                refuse_read_only(wires.name, wires.names[number])
        for output, other, nearest, furthest in self._pairs:
            if nearest < addresses[other] - addresses[output] < furthest:
                self._overlap(output, other, arrays)
        numbers: list[bool | int | float] = []
        if self._numbers:
            given = [convert(args[position]) for position, convert in wires.scalars]
            numbers = [given[item.rank] if isinstance(item, Scalar) else item for item in self._numbers]
        if self.plan.empty:
            return True
        try:
            fault = self._direct.run(addresses, numbers)
        finally:
            if not wires.host:
                note_writes(arrays, wires.written)
        if fault is not None:
            report(self.plan.fault(fault.tolist(), user_location()), [arrays[number] for number in wires.written])
        return True

    def _place(self, array: ArrayLike) -> int:
        return self._address(array.buffer_view()) if isinstance(array, DeviceArray) else data_address(array)

    def _overlap(self, output: int, other: int, arrays: Sequence[ArrayLike]) -> None:
        """The spans of two arrays meet; strided ones may still have no element in common."""
        a, b = arrays[output], arrays[other]
        if not isinstance(a, DeviceArray) and not isinstance(b, DeviceArray) and not np.shares_memory(a, b):
            return
        raise refuse_overlap(self.wiring.name, self.wiring.names[output], self.wiring.names[other])


def _span(shape: tuple[int, ...], strides: Strides, itemsize: int) -> tuple[int, int]:
    """The bytes that an array reaches, from its first element: where they begin, and where they end."""
    if 0 in shape:
        return 0, 0
    reach = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    low = sum(step for step in reach if step < 0)
    high = sum(step for step in reach if step > 0)
    return low * itemsize, (high + 1) * itemsize


def report(error: KernelFault, outputs: Sequence[ArrayLike]) -> None:
    """Raise a fault, or keep it for the reader where all outputs are arrays of poot."""
    kept = [array for array in outputs if isinstance(array, DeviceArray)]
    if len(kept) < len(outputs) or not kept:
        raise error
    for array in kept:
        array.await_check(Failed(error))


# --- through buffers ------------------------------------------------------------------------------------------------


class BufferedRun:
    """Launches on a device with memory of its own: NumPy arrays are copied there and, where written, back."""

    __slots__ = ("device", "plan", "wiring")

    def __init__(self, plan: Plan, wires: Wiring, device: DeviceBackend) -> None:
        self.plan = plan
        self.wiring = wires
        self.device = device

    def run(self, args: Sequence[Any]) -> bool:
        """Launch; waits where an output is a NumPy array, or NumPy sees into it.  False for arrays out of place."""
        wires = self.wiring
        arrays: list[ArrayLike] = [args[position] for position in wires.buffers]
        if any(isinstance(array, np.ndarray) and data_address(array) % array.itemsize for array in arrays):
            return False
        check_writeable(wires.name, wires.names, arrays, wires.written)
        self._check_overlaps(arrays)
        numbers = [convert(args[position]) for position, convert in wires.scalars]
        if self.plan.empty:
            return True
        keep: list[object] = []
        views = [self._view(array, keep) for array in arrays]
        try:
            check = self._launch(numbers, views)
        finally:
            note_writes(arrays, wires.written)
        outputs = [arrays[number] for number in wires.written]
        if check is not None:
            if all(isinstance(array, DeviceArray) for array in outputs) and outputs:
                for array in outputs:
                    assert isinstance(array, DeviceArray)
                    array.await_check(check)
            else:
                self._read_back(arrays, views)
                check.check()
                return True
        if any(_is_seen(array) for array in outputs) or not all(map(_is_ours, arrays)):
            self.device.synchronize()
        self._read_back(arrays, views)
        return True

    def _launch(self, numbers: Sequence[int | float], views: list[BufferView]) -> LaunchCheck | None:
        device, plan = self.device, self.plan
        spec = plan.spec(numbers)
        if not plan.may_fault:
            device.record([spec], views, (), ())
            return None
        record = device.allocate(_CLEAR.nbytes)
        check = LaunchCheck(device, record, partial(plan.fault, where=user_location()))
        device.write(BufferView(record), _CLEAR)
        device.record([spec], [*views, BufferView(record)], (), (), len(views))
        return check

    def _view(self, array: ArrayLike, keep: list[object]) -> BufferView:
        if isinstance(array, DeviceArray):
            return array.buffer_view()
        host: HostArray = np.ascontiguousarray(array)
        memory = Memory(self.device, self.device.allocate(host.nbytes))
        keep.append(memory)
        view = BufferView(memory.buffer)
        self.device.write(view, host)
        return view

    def _read_back(self, arrays: Sequence[ArrayLike], views: Sequence[BufferView]) -> None:
        for number in self.wiring.written:
            array = arrays[number]
            if isinstance(array, np.ndarray):
                out = np.empty(array.shape, array.dtype)
                self.device.read(views[number], out)
                array[...] = out

    def _check_overlaps(self, arrays: Sequence[ArrayLike]) -> None:
        for number in self.wiring.written:
            for other, array in enumerate(arrays):
                if other != number and shares(arrays[number], array):
                    raise refuse_overlap(self.wiring.name, self.wiring.names[number], self.wiring.names[other])


def _is_ours(array: ArrayLike) -> bool:
    """Whether nobody else can write the elements that the launch works on, as those of copies of NumPy arrays."""
    return not isinstance(array, DeviceArray) or array.is_tracked


def _is_seen(array: ArrayLike) -> bool:
    """Whether the host has been given a view of an array's memory."""
    return isinstance(array, DeviceArray) and getattr(array.memory.buffer, "shared", False)


def shares(a: ArrayLike, b: ArrayLike) -> bool:
    """Whether two arrays have an element in common; of one of poot's and one of NumPy's, whether their spans meet."""
    if not isinstance(a, DeviceArray) and not isinstance(b, DeviceArray):
        return np.shares_memory(a, b)
    (memory, low, high), (other, least, most) = _place(a), _place(b)
    return memory == other and low < most and least < high


def _place(array: ArrayLike) -> tuple[object, int, int]:
    """The memory that an array lies in, and its bounds there: two buffers may be over the same memory of others."""
    if not isinstance(array, DeviceArray):
        return ("addressed", *np.lib.array_utils.byte_bounds(array))
    view, nbytes = array.buffer_view(), array.spec.nbytes
    address: int | None = getattr(view.buffer, "address", None)
    memory, start = (id(view.buffer), view.offset) if address is None else ("addressed", address + view.offset)
    return memory, start, start + nbytes
