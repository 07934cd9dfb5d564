"""How a kernel runs on lanes: whole rows of threads as independent vectors, or one work-group at a time.

A kernel without barriers, collectives or shared arrays that never asks for its place in the group along x is *flat*:
the vectors run along the x axis of the whole grid, whatever the work-group.  Others run group by group, each as one
vector or as several parts, all of whose lanes differ in their index on one axis alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from poot.errors import ArgumentError
from poot.kernel.ir import Alloc, Assign, Atomic, Barrier, Collective, Index, Kernel, Load, Op, Store, walk
from poot.kernel.render.llvm_guards import Bound, invert_guards, peel
from poot.kernel.uniform import Uniformity

#: Lengths of vectors.  Shorter ones than 16 are left out: bytes would not fill a register, and LLVM 22 then stores them
#: under masks of which it has not cleared the upper lanes.
LANES = (1, 16, 32, 64)

_USUAL = 32


@dataclass(frozen=True, slots=True)
class Plan:
    """`lanes` along `axis`; `flat` as said above; a group has `parts` vectors.

    `kernel` is the one to write, its guards turned into branches and into `bounds` of the grid.  `together` says that a
    group's threads wait for each other somewhere.  `overlap` allows the last vector of a flat row to be moved back over
    lanes that have run already, since running them twice does no harm; `aligned` says that a row's vectors start at
    multiples of the lanes.
    """

    kernel: Kernel
    bounds: tuple[Bound, ...]
    lanes: int
    axis: int
    flat: bool
    parts: int
    together: bool
    overlap: bool
    aligned: bool
    assigned: frozenset[str]
    uniformity: Uniformity


def plan(kernel: Kernel, vector_lanes: int | None) -> Plan:
    """Choose the lanes: about two or four registers a value, which hides the latency of arithmetic without spilling."""
    if vector_lanes is not None and vector_lanes not in LANES:
        raise ArgumentError(what="vector_lanes", actual=vector_lanes, expected=f"one of {LANES}")
    kernel = invert_guards(kernel)
    nodes = walk(kernel.body)
    together = local = changed = atomic = False
    bits = 32
    assigned: set[str] = set()
    written: set[str] = set()
    for node in nodes:
        match node:
            case Assign():
                assigned.add(node.name)
            case Index(kind="local" | "group", axis=0):
                local = True
            case Barrier() | Collective() | Alloc(space="shared"):
                together = True
            case Store():
                written.add(node.buffer)
            case Atomic():
                atomic = True
            case Op() | Load() if node.dtype.is_float:
                bits = max(bits, node.dtype.bits)
            case _:
                pass
    changed = atomic or any(param.access == "readwrite" and param.name in written for param in kernel.buffers)
    flat = not (together or local)
    kernel, bounds = peel(kernel) if flat else (kernel, ())
    axis = 0 if flat else next((a for a in range(3) if kernel.workgroup[a] > 1), 0)
    size = kernel.workgroup[axis]
    threads = kernel.threads[0] if flat and kernel.threads is not None else None
    lanes = vector_lanes or (_flat_lanes(size, threads, bits) if flat else _group_lanes(size, bits))
    overlap = not bounds and threads is not None and not changed and threads > lanes and threads % lanes != 0
    aligned = size % lanes == 0 and not overlap and all(bound.upper for bound in bounds)
    parts = 1 if flat else -(-size // lanes) * (kernel.group_invocations // size)
    uniformity = Uniformity(kernel, (axis,) if lanes > 1 else (), lane_axis=axis, lanes=lanes, aligned=aligned)
    return Plan(kernel, bounds, lanes, axis, flat, parts, together, overlap, aligned, frozenset(assigned), uniformity)


def _flat_lanes(size: int, threads: int | None, bits: int) -> int:
    """The work-group's own length where that is one of ours, so that a planner may ask for one; not past the grid."""
    wanted = size if size in LANES[1:] and size * bits <= LANES[-1] * 32 else _USUAL * 32 // bits
    if threads is None or threads >= wanted:
        return wanted
    return 1 if threads <= 1 else max(LANES[1], 1 << threads.bit_length() - 1)


def _group_lanes(size: int, bits: int) -> int:
    """The whole group where it fits."""
    if size == 1:
        return 1
    whole = max(LANES[1], 1 << (size - 1).bit_length())
    return whole if whole * bits <= LANES[-1] * 32 else _USUAL * 32 // bits
