"""Fault records: which launches can fault, and what a claimed record says."""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from poot import forks
from poot.backends.device import Buffer, BufferView, DeviceBackend
from poot.backends.toolchain import CompiledKernel
from poot.errors import IndexFault, PootError, ScatterFault, SourceLocation
from poot.kernel.faults import INDEX_FAULT, fault_error
from poot.kernel.ir import FAULT_WORDS
from poot.kernel.pipeline import prepare
from poot.plan.program import Program


def may_fault(kernels: Iterable[CompiledKernel]) -> bool:
    """Whether any of the kernels has a checked access or an assertion left."""
    return any(kernel.sites for kernel in kernels)


def decode(
    record: np.ndarray[tuple[int], np.dtype[np.int32]],
    program: Program,
    kernels: Sequence[CompiledKernel],
    where: SourceLocation | None = None,
) -> PootError | None:
    """The error that a fault record stands for, or None where it is clear.

    `where` is the line of the call, for programs that several lines share; without it a launch's own counts.

    A fault of a graph's equation (an index of gather or scatter, also in a region) is an IndexFault, one of a kernel a
    KernelFault; both are IndexErrors and name the line.
    """
    if record[0] == 0:
        return None
    launch = program.launches[int(record[1])]
    compiled = kernels[launch.kernel]
    line = where or launch.where
    site = compiled.sites[int(record[2])]
    noted = site.message.endswith(INDEX_FAULT)
    equation = program.faulting(launch)
    if equation is not None and equation.primitive == "kernel_call":
        # The user's own kernel, which keeps its lines in the program.
        return fault_error(prepare(program.kernels[launch.kernel], program.target), record).at(line)
    if equation is None or not (site.buffer or noted):
        return fault_error(compiled.kernel, record).at(line)
    index, extent = (int(np.asarray(record[k : k + 2]).view(np.int64)[0]) for k in (4, 6))
    if noted and equation.inputs[1].dtype.kind == "uint":
        index &= (1 << equation.inputs[1].dtype.bits) - 1
    error = ScatterFault if equation.primitive.startswith("scatter") else IndexFault
    place = where or equation.where or line
    return error(what=equation.primitive, index=index, axis=int(record[3]), extent=extent, where=place)


@dataclass(frozen=True, slots=True, eq=False)
class Faults:
    """What the fault records of a program's runs on a device are read with."""

    device: DeviceBackend
    program: Program
    kernels: Sequence[CompiledKernel]


#: Held while a check gets the lock of its own, which few of them ever need.
_first_use = forks.lock()


class FaultCheck:
    """The fault record of one run, read at most once; every later check gives the same answer.

    Every call that can fault makes one, and few are asked.  The record frees itself.
    """

    __slots__ = ("__weakref__", "_error", "_faults", "_lock", "record", "where")

    def __init__(self, faults: Faults, record: Buffer) -> None:
        self._faults = faults
        self.record: Buffer | None = record
        #: The line of the call, where the program's own lines are another caller's.
        self.where: SourceLocation | None = None
        self._error: PootError | None = None
        self._lock: threading.RLock | None = None

    def check(self) -> None:
        """Raise the fault of the run, if there was one."""
        with _first_use:
            lock = self._lock = self._lock or forks.lock()
        within = forks.is_mine(lock)  # in the middle of another check, which frees the record
        with lock:
            record = self.record
            if record is not None:
                words = np.empty(FAULT_WORDS, np.int32)
                self._faults.device.read(BufferView(record), words)
                self._error = decode(words, self._faults.program, self._faults.kernels, self.where)
                if not within:
                    self.discard()
        if self._error is not None:
            raise copy.copy(self._error)  # each raise has a traceback of its own, and no cycle through this check

    def discard(self) -> None:
        """Let go of the record: it has been read, or the run has failed otherwise."""
        self.record = None


class OwningCheck(FaultCheck):
    """A check that owns its record, and gives it back."""

    __slots__ = ()

    @override
    def discard(self) -> None:
        record, self.record = self.record, None
        if record is not None and getattr(record, "alive", True):
            self._faults.device.free(record)

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not finalizing():
            self.discard()
