"""Runs kernels on a CUDA device through its backend, and the interpreter beside it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from poot.backends.cuda.language import compile_ptx_kernel
from poot.backends.device import BufferView, DeviceBackend, LaunchSpec
from poot.backends.toolchain import CompiledKernel, compile_kernel
from poot.dtypes import DType, bf16, bool_, f16
from poot.kernel.interpret import bind
from poot.kernel.interpret import run as interpret
from poot.kernel.ir import FAULT_WORDS, Kernel, argument_slots, fault_sites
from poot.kernel.pipeline import prepare

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Outcome:
    """What a launch left behind: every array by name, the fault record, and what ran."""

    values: dict[str, Any]
    fault: np.ndarray
    compiled: CompiledKernel


def on_device(
    device: DeviceBackend,
    kernel: Kernel,
    values: Mapping[str, Any],
    groups: Triple,
    *,
    threads: Sequence[int] = (),
    launches: int = 1,
    contract: bool = False,
    raw: bool = False,
) -> Outcome:
    """Run a kernel `launches` times on fresh copies of contiguous arrays; `values` are left as they are.

    A `raw` kernel has native operations alone, and is rendered as it is.
    """
    compiled = _raw(kernel, device) if raw else compile_kernel(kernel, device.target, contract=contract)
    loaded = device.load(compiled)
    views: list[BufferView] = []
    positions: dict[str, int] = {}
    scalars: list[int | float] = []
    rest = iter(threads)
    for slot in compiled.slots:
        if slot.kind == "buffer":
            array = np.ascontiguousarray(values[slot.param])
            positions[slot.param] = len(views)
            views.append(BufferView(device.allocate(array.nbytes)))
            device.write(views[-1], array)
        elif slot.kind == "scalar":
            scalars.append(values[slot.param])
        elif slot.kind == "extent":
            scalars.append(values[slot.param].shape[slot.axis])
        elif slot.kind == "stride":
            array = np.ascontiguousarray(values[slot.param])
            scalars.append(array.strides[slot.axis] // array.itemsize)
        elif slot.kind == "threads":
            scalars.append(next(rest))
    record = BufferView(device.allocate(4 * FAULT_WORDS))
    device.write(record, np.zeros(FAULT_WORDS, np.int32))
    buffers = tuple((positions[slot.param], 0) for slot in compiled.slots if slot.kind == "buffer")
    spec = LaunchSpec(loaded, buffers, groups, tuple(scalars), 7)
    recording = device.record([spec], [*views, record], (), (), len(views))
    for _ in range(launches - 1):
        device.replay(recording, ())
    found: dict[str, Any] = dict(values)
    for name, position in positions.items():
        out = np.empty(values[name].shape, values[name].dtype)
        device.read(views[position], out)
        found[name] = out
    fault = np.empty(FAULT_WORDS, np.int32)
    device.read(record, fault)
    return Outcome(found, fault, compiled)


def _raw(kernel: Kernel, device: DeviceBackend) -> CompiledKernel:
    made = compile_ptx_kernel(kernel, device.target, False)
    slots, sites = argument_slots(kernel), fault_sites(kernel)
    return CompiledKernel(
        kernel, device.target, "ptx", made.artifact, made.entry, made.source, slots, sites, made.resources
    )


def interpreted(
    kernel: Kernel, values: Mapping[str, Any], groups: Triple, *, threads: Sequence[int] = (), raw: bool = False
) -> tuple[dict[str, Any], np.ndarray]:
    """The same launch by the interpreter."""
    prepared = kernel if raw else prepare(kernel)
    expected = {name: np.array(value) if isinstance(value, np.ndarray) else value for name, value in values.items()}
    fault = np.zeros(FAULT_WORDS, np.int32)
    with np.errstate(all="ignore"):
        interpret(prepared, bind(prepared, expected, threads=threads), groups=groups, fault=fault, launch=7)
    return expected, fault


def same(actual: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Equal bit for bit, except that a NaN is a NaN."""
    bits = f"u{actual.itemsize}"
    equal = actual.view(bits) == expected.view(bits)
    if actual.dtype.kind == "f" or actual.dtype in (f16.dtype, bf16.dtype):
        with np.errstate(all="ignore"):
            equal |= np.isnan(actual.astype(np.float64)) & np.isnan(expected.astype(np.float64))
    at = np.flatnonzero(~equal)
    assert not at.size, (
        f"{what}: {at.size} differ, at {at[:5]}: {actual.ravel()[at[:5]]}, expected {expected.ravel()[at[:5]]}"
    )


def agree(
    device: DeviceBackend,
    kernel: Kernel,
    values: Mapping[str, Any],
    groups: Triple,
    *,
    threads: Sequence[int] = (),
    raw: bool = False,
    what: str = "",
) -> Outcome:
    """Run on the device and in the interpreter; every array must come out the same, and so must whether it faulted."""
    outcome = on_device(device, kernel, copy.deepcopy(dict(values)), groups, threads=threads, raw=raw)
    expected, fault = interpreted(kernel, values, groups, threads=threads, raw=raw)
    for name, actual in outcome.values.items():
        if isinstance(actual, np.ndarray):
            same(actual, expected[name], f"{what or kernel.name} {name} ({outcome.compiled.language})")
    assert bool(outcome.fault[0]) == bool(fault[0]), f"{what}: fault {outcome.fault}, expected {fault}"
    return outcome


def specials(dtype: DType) -> np.ndarray:
    """Values at which operations change their behaviour."""
    if dtype is bool_:
        return np.array([False, True])
    if dtype.is_integer:
        low, high = int(dtype.min), int(dtype.max)
        candidates = [0, 1, 2, 3, 5, 7, 8, dtype.bits - 1, dtype.bits, 100, high, high - 1, high // 2, low, low + 1]
        candidates += [-1, -2, -3, -7, -8, -100] if low < 0 else []
        return np.array(sorted({c for c in candidates if low <= c <= high}), dtype.dtype)
    tiny = {"f16": 6e-8, "bf16": 1e-40, "f32": 1e-45, "f64": 5e-324}[dtype.name]
    numbers = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 1e-3, 0.1, 7.0, 100.25, 65504.0, tiny, float(dtype.max)]
    numbers += [127.5, 255.0, 256.0, 32768.0, 65536.0, 2.0**31, 2.0**32, 2.0**53, 2.0**63, 2.0**64, 8388607.5]
    with np.errstate(all="ignore"):
        made = np.array([*numbers, *(-x for x in numbers), np.inf, -np.inf, np.nan], np.float64).astype(dtype.dtype)
    return made
