"""Runs rendered native kernels on NumPy arrays, without a device: compiled, loaded and called through ctypes."""

import ctypes
from collections.abc import Sequence

import numpy as np

from poot.backends.cpu.jit import compile_object, load_object
from poot.dtypes import DType
from poot.kernel.ir import FAULT_WORDS, Kernel
from poot.kernel.render.llvm_lanes import NativeSource, render


class Compiled:
    """A kernel ready to be called; `fault` holds the record of the last call."""

    def __init__(self, kernel: Kernel, *, vector_lanes: int | None = None, contract: bool = False) -> None:
        self.kernel = kernel
        self.source: NativeSource = render(kernel, vector_lanes=vector_lanes, contract=contract)
        self._object = load_object(compile_object(self.source.text, vectors=self.source.vectors), [self.source.symbol])
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        self._call = function(self._object.address(self.source.symbol))
        self.fault = np.zeros(FAULT_WORDS, np.int32)

    def prepare(
        self,
        *values: object,
        threads: tuple[int, ...] | None = None,
        groups: tuple[int, ...] | None = None,
        launch: int = 7,
    ) -> tuple[np.ndarray, int]:
        """The slots of a launch, and its number of groups."""
        kernel = self.kernel
        by_name = dict(zip((p.name for p in kernel.params), values, strict=True))
        given = [t if t is not None else 0 for t in kernel.threads] if kernel.threads else None
        for axis, count in enumerate(threads or ()):
            if given is not None:
                given[axis] = count
        sizes = list(groups or ()) + [1] * (3 - len(groups or ()))
        if given is not None:
            sizes = [-(-t // w) for t, w in zip(given, kernel.workgroup, strict=True)]
        slots = np.zeros((len(self.source.slots), 8), np.uint8)
        for row, slot in zip(slots, self.source.slots, strict=True):
            value: object
            match slot.kind:
                case "buffer":
                    value = np.asarray(by_name[slot.param]).ctypes.data
                case "extent":
                    value = np.asarray(by_name[slot.param]).shape[slot.axis]
                case "stride":
                    array = np.asarray(by_name[slot.param])
                    value = array.strides[slot.axis] // array.itemsize
                case "scalar":
                    value = by_name[slot.param]
                case "threads":
                    assert given is not None
                    value = given[slot.axis]
                case "num_groups":
                    value = sizes[slot.axis]
                case "launch":
                    value = launch
                case "fault":
                    self.fault[:] = 0
                    value = self.fault.ctypes.data
            dtype = np.dtype(np.uint64) if slot.kind in ("buffer", "fault") else slot.dtype.dtype
            row[: dtype.itemsize] = np.array([value], dtype).view(np.uint8)
        return slots, int(np.prod(sizes))

    def __call__(
        self,
        *values: object,
        threads: tuple[int, ...] | None = None,
        groups: tuple[int, ...] | None = None,
        split: Sequence[int] = (),
    ) -> None:
        """Run all groups, in ranges that end at the numbers of `split`."""
        slots, total = self.prepare(*values, threads=threads, groups=groups)
        start = 0
        for stop in (*split, total):
            self._call(slots.ctypes.data, start, stop)
            start = stop


def run(kernel: Kernel, *values: object, vector_lanes: int | None = None, **launch: object) -> Compiled:
    """Compile and call a kernel once."""
    compiled = Compiled(kernel, vector_lanes=vector_lanes)
    compiled(*values, **launch)  # type: ignore[arg-type]
    return compiled


def zeros(dtype: DType, *shape: int) -> np.ndarray:
    return np.zeros(shape, dtype.dtype)


def check_record(compiled: Compiled, *, site: int, axis: int, index: int, extent: int) -> None:
    """The record of the last call, as launch 7 made it."""
    record = compiled.fault
    assert record[:4].tolist() == [1, 7, site, axis]
    assert record[4:6].view(np.int64)[0] == index
    assert record[6:8].view(np.int64)[0] == extent
