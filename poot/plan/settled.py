"""Turns of a loop that may be one too many: they change nothing once the condition is false."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from poot.dtypes import ArraySpec
from poot.kernel.ir import Kernel
from poot.plan import rewire
from poot.plan.flat import FlatGrid
from poot.plan.program import Binding, Branch, Copy, Launch, Loop, Step

if TYPE_CHECKING:
    from poot.plan.turns import Turn


def settled(turn: Turn, steps: Sequence[Step], flag: int) -> tuple[Step, ...] | None:
    """Steps that change nothing carried and cannot fail while a flag is false; None where they cannot be had."""
    found: list[Step] = []
    for step in steps:
        made = _settled(turn, step, flag)
        if made is None:
            return None
        found.append(made)
    return tuple(found)


def _settled(turn: Turn, step: Step, flag: int) -> Step | None:
    match step:
        case Launch():
            return _predicated(turn, step, flag)
        case Copy():
            if step.target not in turn.carry:
                return step
            spec = turn.assembly.cells.slots[step.target].spec
            grid = turn.assembly.row_of(spec.size)
            return _predicated(turn, turn.launch(copy_kernel(spec, grid), (step.source, step.target), grid), flag)
        case Branch():
            blocks = [settled(turn, block, flag) for block in step.blocks]
            if blocks[0] is None or blocks[1] is None:
                return None
            return Branch(step.predicate, (blocks[0], blocks[1]))
        case Loop():
            body = settled(turn, step.body, flag)
            if step.trip_count < 0 or body is None:
                return None  # on values that the condition excludes it might never end
            return replace(step, body=body)


def _predicated(turn: Turn, launch: Launch, flag: int) -> Launch | None:
    assembly = turn.assembly
    kernel = assembly.lowering.kernels[launch.kernel]
    room = len(kernel.buffers) + 1 < assembly.target.limit("buffers")
    made = rewire.predicated(kernel) if room else None
    if made is None:
        written = {b.slot for b, p in zip(launch.bindings, kernel.buffers, strict=True) if p.access != "read"}
        return None if rewire.can_fault(kernel) or written.intersection(turn.carry) else launch
    number = assembly.lowering.number(made)
    return replace(launch, kernel=number, bindings=(*launch.bindings, Binding(flag)))


def copy_kernel(spec: ArraySpec, grid: FlatGrid) -> Kernel:
    """A kernel that copies an array, one element a thread."""
    k = grid.builder("keep")
    source = k.buffer("in0", spec.dtype, "read", (spec.size,))
    target = k.buffer("out1", spec.dtype, "write", (spec.size,))
    with grid.thread(k) as i:
        k.store(target, (i,), k.load(source, (i,)))
    return k.finish()
