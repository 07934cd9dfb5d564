"""Runs a kernel on a device and in the interpreter, on the same arguments, and compares everything that they leave.

Buffers stand between guards, at an offset that is no multiple of anything but their elements' size; strided arrays are
passed with their strides.
"""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from poot.backends.device import BufferView, DeviceBackend, LaunchSpec, open_device
from poot.backends.toolchain import compile_kernel
from poot.dtypes import DType, bf16
from poot.kernel.interpret import bind, run
from poot.kernel.ir import FAULT_WORDS, Kernel, argument_slots

Array = np.ndarray[Any, Any]
GUARD = 0xA5


@dataclass(frozen=True)
class Span:
    """The flat memory that an array's elements lie in: its first byte in the array's own memory, and its size."""

    before: int
    nbytes: int

    @staticmethod
    def of(array: Array) -> Span:
        if not array.size:
            return Span(0, 0)
        reach = [(count - 1) * stride for count, stride in zip(array.shape, array.strides, strict=True)]
        before = -sum(step for step in reach if step < 0)
        return Span(before, before + sum(step for step in reach if step > 0) + array.itemsize)


def memory(array: Array, span: Span) -> Array:
    """The bytes of a span, as they lie."""
    window = (ctypes.c_uint8 * span.nbytes).from_address(array.ctypes.data - span.before)
    return np.frombuffer(window, np.uint8)


def launch(
    device: DeviceBackend,
    kernel: Kernel,
    values: Mapping[str, Any],
    *,
    groups: tuple[int, int, int],
    threads: Sequence[int] = (),
    contract: bool = False,
) -> Array:
    """Run once, with results in the arrays of `values`; returns the fault record.  Guards are checked."""
    compiled = compile_kernel(kernel, device.target, contract=contract)
    loaded = device.load(compiled)
    views: list[BufferView] = []
    places: list[tuple[int, int]] = []
    spans: dict[str, tuple[int, Span, int]] = {}
    scalars: list[int | float] = []
    rest = iter(threads)
    for slot in argument_slots(compiled.kernel):
        match slot.kind:
            case "buffer":
                array = values[slot.param]
                span = Span.of(array)
                pad = slot.dtype.itemsize * (3 + len(views))
                held = np.full(2 * pad + span.nbytes, GUARD, np.uint8)
                if array.size:
                    held[pad : pad + span.nbytes] = memory(array, span)
                view = BufferView(device.allocate(held.nbytes))
                device.write(view, held)
                spans[slot.param] = len(views), span, pad
                places.append((len(views), pad + span.before))
                views.append(view)
            case "scalar":
                scalars.append(values[slot.param])
            case "extent":
                scalars.append(int(values[slot.param].shape[slot.axis]))
            case "stride":
                array = values[slot.param]
                scalars.append(array.strides[slot.axis] // array.itemsize)
            case "threads":
                scalars.append(next(rest))
            case _:
                pass
    fault = BufferView(device.allocate(4 * FAULT_WORDS))
    device.write(fault, np.zeros(FAULT_WORDS, np.int32))
    spec = LaunchSpec(loaded, tuple(places), groups, tuple(scalars), 7)
    device.record([spec], [*views, fault], (), (), len(views))
    for name, (position, span, pad) in spans.items():
        held = np.empty(2 * pad + span.nbytes, np.uint8)
        device.read(views[position], held)
        edges = np.concatenate([held[:pad], held[pad + span.nbytes :]])
        assert (edges == GUARD).all(), f"memory beside `{name}` was written to"
        if span.nbytes and values[name].flags.writeable:
            memory(values[name], span)[...] = held[pad : pad + span.nbytes]
    record = np.empty(FAULT_WORDS, np.int32)
    device.read(fault, record)
    for view in (*views, fault):
        device.free(view.buffer)
    return record


def interpret(
    kernel: Kernel, values: Mapping[str, Any], *, groups: tuple[int, int, int], threads: Sequence[int] = ()
) -> Array:
    """The same in the interpreter, without a device around it."""
    from poot.kernel.pipeline import prepare

    record = np.zeros(FAULT_WORDS, np.int32)
    prepared = prepare(kernel)
    run(prepared, bind(prepared, values, threads=threads), groups=groups, fault=record, launch=7)
    return record


def same(actual: Array, expected: Array) -> Array:
    """Which elements, in one row, are equal bit for bit, but for the bits of a NaN."""
    unsigned = f"u{actual.dtype.itemsize}"
    a, b = np.ascontiguousarray(actual), np.ascontiguousarray(expected)
    equal = a.reshape(-1).view(unsigned) == b.reshape(-1).view(unsigned)
    if actual.dtype.kind == "f" or actual.dtype == bf16.dtype:
        equal |= (np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))).reshape(-1)
    return equal


def assert_same(actual: Array, expected: Array | Sequence[Array], what: str) -> None:
    """Every element equal bit for bit, but for the bits of a NaN, to the expected one, or to one of several."""
    several = [expected] if isinstance(expected, np.ndarray) else expected
    at = np.flatnonzero(~np.any([same(actual, each) for each in several], axis=0))
    a, b = actual.reshape(-1), several[0].reshape(-1)
    assert not at.size, f"{what}: at {at[:5]}: {a[at[:5]]}, expected {b[at[:5]]}"


def agree(
    device_name: str,
    kernel: Kernel,
    values: Mapping[str, Any],
    *,
    groups: tuple[int, int, int] | None = None,
    threads: Sequence[int] = (),
    record: bool = True,
) -> dict[str, Any]:
    """Run both ways, compare all arrays and, with `record`, whole fault records; returns the device's values."""
    if groups is None:
        rest = iter(threads)
        counts = [next(rest) if count is None else count for count in kernel.threads or ()]
        groups = tuple(-(-n // size) for n, size in zip(counts, kernel.workgroup, strict=True))  # type: ignore[assignment]
    assert groups is not None
    mine, theirs = dict(copied(values)), dict(copied(values))
    fault = launch(open_device(device_name), kernel, mine, groups=groups, threads=threads)
    expected = interpret(kernel, theirs, groups=groups, threads=threads)
    for name, array in theirs.items():
        if isinstance(array, np.ndarray):
            assert_same(mine[name], array, name)
    if record:
        assert fault.tolist() == expected.tolist()
    else:
        assert bool(fault[0]) == bool(expected[0])
    return mine


def copied(values: Mapping[str, Any]) -> dict[str, Any]:
    """Copies that keep strides: of the memory below each array."""
    made: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, np.ndarray) and value.size and not value.flags.c_contiguous:
            span = Span.of(value)
            held = memory(value, span).copy()
            made[name] = np.ndarray(value.shape, value.dtype, held, span.before, value.strides)
        else:
            made[name] = copy.deepcopy(value)
    return made


def supported(device_name: str, *dtypes: DType) -> bool:
    """Whether a device has all of these dtypes."""
    return set(dtypes) <= open_device(device_name).target.dtypes
