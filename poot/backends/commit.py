"""The last launches of a step: new state values over old ones, only if the fault record is clear.

Every update has been computed into memory of its own before the first is copied, so they commit together.  Where no
kernel can fault they are plain copies; elsewhere a small kernel reads the fault record and copies under its condition.

A device that runs a recording launch by launch may fail, or be interrupted, between two of these copies.  There a word
beside the fault record is 1 while they run; where it is found to be 1 after a failure, they are run again, which gives
the same values, since what they copy from is not touched by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from poot.backends.device import BufferView, CopySpec, LaunchSpec, RecordedStep
from poot.backends.executable import Executable, Run
from poot.backends.toolchain import compile_kernel
from poot.dtypes import ArraySpec, i32
from poot.kernel.ir import FAULT_WORDS, Kernel
from poot.plan.flat import FlatGrid

_LANES = 64
#: Bytes of an entry's fault record, and after it: whether a commit is going on, and the two values of that.
RECORD_BYTES = 4 * FAULT_WORDS
ENTRY_RECORD_BYTES = RECORD_BYTES + 12


def clear_record() -> np.ndarray[Any, Any]:
    """What an entry's fault record, and the words after it, hold at first."""
    words = np.zeros(ENTRY_RECORD_BYTES // 4, np.int32)
    words[-1] = 1
    return words


def _atomic(steps: Sequence[RecordedStep], device: object) -> bool:
    """Whether the device runs all of the steps or none, as it is."""
    alone = len(steps) == 1 and getattr(device, "launches_whole", False)
    return not steps or alone or getattr(device, "submits_whole", False)


def guarded(steps: Sequence[RecordedStep], executable: Executable) -> tuple[RecordedStep, ...]:
    """What a step runs last: `steps`, with a word that says whether they are running, where the device needs that."""
    if _atomic(steps, executable.device):
        return tuple(steps)
    record = executable.positions.fault
    begin, end = (CopySpec(record, record, 4, RECORD_BYTES + source, RECORD_BYTES) for source in (8, 4))
    return (begin, *steps, end)


def finish_commit(steps: Sequence[RecordedStep], run: Run) -> None:
    """After a failed run: complete a commit that was cut short.  Raises where the device cannot say or do that."""
    executable, device = run.executable, run.executable.device
    if _atomic(steps, device):
        return
    record = run.views[executable.positions.fault]
    assert record is not None
    running = np.empty(1, np.int32)
    device.read(BufferView(record.buffer, record.offset + RECORD_BYTES), running)
    if running[0]:
        fault = executable.positions.fault if executable.may_fault else -1
        device.record(guarded(steps, executable), run.views, (), (), fault)


def commit_steps(executable: Executable) -> tuple[RecordedStep, ...]:
    """The copies of new state values over old ones, for the updates of a program."""
    program = executable.program
    slot_of = {slot.name: index for index, slot in enumerate(program.storage.slots) if slot.role == "state"}
    steps: list[RecordedStep] = []
    for name, source in program.updates:
        target = slot_of.get(name)
        spec = program.storage.slots[source].spec
        if target is None or target == source or spec.size == 0:
            continue
        (source_position, source_offset), (target_position, target_offset) = (
            executable.locate(source),
            executable.locate(target),
        )
        if not executable.may_fault:
            steps.append(CopySpec(source_position, target_position, spec.nbytes, source_offset, target_offset))
            continue
        grid = FlatGrid(spec.size, _LANES, executable.device.target.limit("grid"))
        kernel = _conditional_copy(spec, grid)
        loaded = executable.device.load(compile_kernel(kernel, executable.device.target))
        buffers = (
            (executable.positions.fault, 0),
            (source_position, source_offset),
            (target_position, target_offset),
        )
        steps.append(LaunchSpec(loaded, buffers, grid.groups))
    return tuple(steps)


def _conditional_copy(spec: ArraySpec, grid: FlatGrid) -> Kernel:
    """`target[i] = source[i]` where word 0 of the fault record is 0."""
    k = grid.builder("commit")
    record = k.buffer("record", i32, "read", (FAULT_WORDS,))
    source = k.buffer("source", spec.dtype, "read", (spec.size,))
    target = k.buffer("target", spec.dtype, "write", (spec.size,))
    clear = k.op("eq", k.load(record, (k.i(0),)), k.const(0, i32))
    with k.if_(clear), grid.thread(k) as index:
        k.store(target, (index,), k.load(source, (index,)))
    return k.finish()
