"""The last launches of a step: new state values over old ones, only if the fault record is clear.

Every update has been computed into memory of its own before the first is copied, so they commit together.  Where no
kernel can fault they are plain copies; elsewhere a small kernel reads the fault record and copies under its condition.
"""

from __future__ import annotations

from poot.backends.device import CopySpec, LaunchSpec
from poot.backends.executable import Executable
from poot.backends.toolchain import compile_kernel
from poot.dtypes import ArraySpec, i32
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import FAULT_WORDS, Kernel

_LANES = 64


def commit_steps(executable: Executable) -> tuple[LaunchSpec | CopySpec, ...]:
    """What a step runs last, for the updates of its program."""
    program = executable.program
    slot_of = {slot.name: index for index, slot in enumerate(program.storage.slots) if slot.role == "state"}
    steps: list[LaunchSpec | CopySpec] = []
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
        kernel = _conditional_copy(spec)
        loaded = executable.device.load(compile_kernel(kernel, executable.device.target))
        buffers = (
            (executable.positions.fault, 0),
            (source_position, source_offset),
            (target_position, target_offset),
        )
        steps.append(LaunchSpec(loaded, buffers, (-(-spec.size // _LANES), 1, 1)))
    return tuple(steps)


def _conditional_copy(spec: ArraySpec) -> Kernel:
    """`target[i] = source[i]` where word 0 of the fault record is 0."""
    k = KernelBuilder("commit", workgroup=(_LANES, 1, 1), threads=(spec.size, 1, 1))
    record = k.buffer("record", i32, "read", (FAULT_WORDS,))
    source = k.buffer("source", spec.dtype, "read", (spec.size,))
    target = k.buffer("target", spec.dtype, "write", (spec.size,))
    clear = k.op("eq", k.load(record, (k.i(0),)), k.const(0, i32))
    with k.if_(clear):
        index = k.index("thread", 0)
        k.store(target, (index,), k.load(source, (index,)))
    return k.finish()
