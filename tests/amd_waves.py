"""Runs the AMDGCN renderer's text on this processor, a thread of Python for every lane.

Names are all that changes in the text: address spaces go, and the target's intrinsics become calls that do here what
LLVM's "User Guide for AMDGPU Backend" and the instruction set of CDNA3 say of them, for waves of 64 lanes.  Blocks run
one after the other.  It shows what the text means, not what the target's code generator makes of it.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from poot.dtypes import bool_, f32, f64
from poot.kernel.ir import FAULT_WORDS, Kernel, Slot
from poot.kernel.pipeline import prepare
from poot.kernel.render.amdgcn import render

WAVE = 64
_PATIENCE = 600.0
Triple = tuple[int, int, int]


@dataclass
class _Meeting:
    """Threads that wait for each other, and what each brought: in two tables in turn, lest one be overwritten early."""

    size: int
    tables: tuple[dict[int, int], dict[int, int]] = field(default_factory=lambda: ({}, {}))

    def __post_init__(self) -> None:
        self.barrier = threading.Barrier(self.size, timeout=_PATIENCE)


@dataclass
class _Lane(threading.local):
    """Where the thread that runs is."""

    thread: int = 0
    block: Triple = (0, 0, 0)
    group: _Meeting = field(default_factory=lambda: _Meeting(1))
    wave: _Meeting = field(default_factory=lambda: _Meeting(1))
    turns: int = 0

    def share(self, value: int) -> dict[int, int]:
        """What every lane of the wave gives at this point."""
        table = self.wave.tables[self.turns % 2]
        self.turns += 1
        table[self.thread % WAVE] = value
        self.wave.barrier.wait()
        return table


class Waves:
    """A kernel that runs lane by lane: `run` gives the fault record of a launch."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = prepare(kernel)
        self.source = render(self.kernel)
        self._here = _Lane()
        self._blocks = (ctypes.c_int32 * 3)()
        self._failures: list[BaseException] = []
        builder = llvm.JITLibraryBuilder().add_ir(_plain(self.source.text)).export_symbol(self.source.symbol)
        self._kept: list[Any] = []
        for name, (result, taken, function) in self._intrinsics().items():
            callback = ctypes.CFUNCTYPE(result, *taken)(self._careful(function))
            self._kept.append(callback)
            builder.import_symbol(name, ctypes.cast(callback, ctypes.c_void_p).value)
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._jit = llvm.create_lljit_compiler()
        self._library = builder.link(self._jit, "waves")
        kinds = [_kind(slot) for slot in self.source.slots]
        self._call = ctypes.CFUNCTYPE(None, *kinds)(self._library[self.source.symbol])

    def _intrinsics(self) -> dict[str, tuple[Any, tuple[Any, ...], Callable[..., Any]]]:
        here = self._here
        word, wide = ctypes.c_uint32, ctypes.c_uint64

        def read(address: int, value: int) -> int:
            return here.share(value).get(address // 4 % WAVE, 0)

        def ballot(condition: int) -> int:
            return sum(1 << lane for lane, held in here.share(condition & 1).items() if held)

        return {
            "amdgcn.workitem.id.x": (word, (), lambda: here.thread),
            **{f"amdgcn.workgroup.id.{a}": (word, (), lambda n=n: here.block[n]) for n, a in enumerate("xyz")},
            "amdgcn.implicitarg.ptr": (ctypes.c_void_p, (), lambda: ctypes.addressof(self._blocks)),
            "amdgcn.s.barrier": (None, (), lambda: here.group.barrier.wait() and None),
            "amdgcn.ds.bpermute": (word, (word, word), read),
            "amdgcn.ballot.i64": (wide, (ctypes.c_uint8,), ballot),
        }

    def _careful(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except BaseException as error:  # nothing may be raised through native code
                self._failures.append(error)
                return 0

        return call

    def run(
        self, values: Mapping[str, Any], *, groups: Triple, threads: Sequence[int] = (), folded: Triple | None = None
    ) -> np.ndarray:
        """Launch `groups` blocks, laid out as `folded` if that is given; arrays change in place."""
        fault, given, rest = np.zeros(FAULT_WORDS, np.int32), list[Any](), iter(threads)
        for slot in self.source.slots:
            match slot.kind:
                case "buffer":
                    given.append(values[slot.param].ctypes.data)
                case "scalar":
                    given.append(values[slot.param])
                case "extent":
                    given.append(values[slot.param].shape[slot.axis])
                case "stride":
                    given.append(values[slot.param].strides[slot.axis] // values[slot.param].itemsize)
                case "threads":
                    given.append(next(rest))
                case "num_groups":
                    given.append(groups[slot.axis])
                case "launch":
                    given.append(7)
                case "fault":
                    given.append(fault.ctypes.data)
        grid = folded or groups
        self._blocks[:] = grid
        for z, y, x in itertools.product(*(range(count) for count in reversed(grid))):
            self._block((x, y, z), given)
        return fault

    def _block(self, block: Triple, given: Sequence[Any]) -> None:
        size = self.source.threads
        group = _Meeting(size)
        waves = [_Meeting(min(WAVE, size - first)) for first in range(0, size, WAVE)]

        def lane(thread: int) -> None:
            here = self._here
            here.thread, here.block, here.group, here.wave, here.turns = thread, block, group, waves[thread // WAVE], 0
            self._call(*given)

        running = [threading.Thread(target=lane, args=(thread,)) for thread in range(size)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        if self._failures:
            raise self._failures[0]


def _kind(slot: Slot) -> Any:
    if slot.kind in ("buffer", "fault"):
        return ctypes.c_void_p
    if slot.dtype in (f32, f64):
        return ctypes.c_float if slot.dtype is f32 else ctypes.c_double
    if slot.dtype is bool_:
        return ctypes.c_uint8
    return {8: ctypes.c_int8, 16: ctypes.c_int16, 32: ctypes.c_int32, 64: ctypes.c_int64}[slot.dtype.bits]


def _plain(text: str) -> str:
    """The text without address spaces and calling convention, and with intrinsics as functions."""
    text = re.sub(r",? addrspace\(\d\)", "", text)
    text = text.replace("define amdgpu_kernel void", "define void").replace("@llvm.amdgcn.", "@amdgcn.")
    return re.sub(r"^target triple.*$", "", text, flags=re.MULTILINE)
