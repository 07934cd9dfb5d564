"""How a kernel runs on lanes: whole rows of threads as independent vectors, or one work-group at a time.

A kernel without barriers, collectives or shared arrays that never asks for its place in the group along x is *flat*:
the vectors run along the x axis of the whole grid, whatever the work-group.  Others run group by group, each as one
vector or as several parts, all of whose lanes differ in their index on one axis alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from poot.errors import ArgumentError
from poot.kernel.ir import Alloc, Assign, Atomic, Barrier, Collective, Index, Kernel, Load, Op, Store, walk
from poot.kernel.render.llvm_guards import Bound, invert_guards, peel
from poot.kernel.uniform import Uniformity

#: Lengths of vectors.  Shorter ones than 16 are left out: bytes would not fill a register, and LLVM 22 then stores them
#: under masks of which it has not cleared the upper lanes.
LANES = (1, 16, 32, 64)

_USUAL = 32

#: Operations from which a body costs much to compile, and little more to run under a mask.
_LARGE = 60


@dataclass(frozen=True, slots=True)
class Plan:
    """`lanes` along `axis`; `flat` as said above; a group has `parts` vectors.

    `kernel` is the one to write, its guards turned into branches and into `bounds` of the grid.  `together` says that a
    group's threads wait for each other somewhere.  `overlap` allows the last vector of a flat row to be moved back over
    lanes that have run already, since running them twice does no harm.  `once` asks for one body, under a mask, where a
    vector may stick out, instead of a second one for those that do not.  `aligned` says that a row's vectors start at
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
    once: bool
    aligned: bool
    assigned: frozenset[str]
    uniformity: Uniformity


@dataclass(slots=True)
class _Survey:
    """What one walk over a kernel finds."""

    together: bool = False
    placed: bool = False
    atomic: bool = False
    widest: int = 32
    narrowest: int = 64
    operations: int = 0
    assigned: set[str] = field(default_factory=set[str])
    written: set[str] = field(default_factory=set[str])


def _survey(kernel: Kernel) -> _Survey:
    found = _Survey()
    for node in walk(kernel.body):
        match node:
            case Op():
                found.operations += 1
                found.widest = max(found.widest, node.dtype.bits) if node.dtype.is_float else found.widest
            case Load():
                found.narrowest = min(found.narrowest, node.dtype.bits)
                found.widest = max(found.widest, node.dtype.bits) if node.dtype.is_float else found.widest
            case Store():
                found.written.add(node.buffer)
                found.narrowest = min(found.narrowest, node.value.dtype.bits)
            case Assign():
                found.assigned.add(node.name)
            case Index(kind="local" | "group", axis=0):
                found.placed = True
            case Atomic():
                found.atomic = True
            case Alloc(space="private"):
                pass
            case Barrier() | Collective() | Alloc():
                found.together = True
            case _:
                pass
    return found


def plan(kernel: Kernel, vector_lanes: int | None) -> Plan:
    """Choose the lanes: about two or four registers a value, which hides the latency of arithmetic without spilling."""
    if vector_lanes is not None and vector_lanes not in LANES:
        raise ArgumentError(what="vector_lanes", actual=vector_lanes, expected=f"one of {LANES}")
    kernel = invert_guards(kernel)
    found = _survey(kernel)
    flat = not (found.together or found.placed)
    kernel, bounds = peel(kernel) if flat else (kernel, ())
    axis = 0 if flat else next((a for a in range(3) if kernel.workgroup[a] > 1), 0)
    size = kernel.workgroup[axis]
    threads = kernel.threads[0] if flat and kernel.threads is not None else None
    large = found.operations > _LARGE
    lanes = vector_lanes or (
        _flat_lanes(size, threads, found.widest, large=large) if flat else _group_lanes(size, found.widest)
    )
    changed = found.atomic or any(p.access == "readwrite" and p.name in found.written for p in kernel.buffers)
    overlap = not bounds and threads is not None and not changed and threads > lanes and threads % lanes != 0
    aligned = size % lanes == 0 and not overlap and all(bound.upper for bound in bounds)
    return Plan(
        kernel=kernel,
        bounds=bounds,
        lanes=lanes,
        axis=axis,
        flat=flat,
        parts=1 if flat else -(-size // lanes) * (kernel.group_invocations // size),
        together=found.together,
        overlap=overlap,
        once=large and found.narrowest >= 32,
        aligned=aligned,
        assigned=frozenset(found.assigned),
        uniformity=Uniformity(kernel, (axis,) if lanes > 1 else (), lane_axis=axis, lanes=lanes, aligned=aligned),
    )


def _flat_lanes(size: int, threads: int | None, bits: int, *, large: bool) -> int:
    """The work-group's own length where that is one of ours, so that a planner may ask for one; not past the grid."""
    usual = _USUAL * 32 // bits
    most = usual if large else LANES[-1] * 32 // bits
    wanted = size if size in LANES[1:] and size <= most else usual
    if threads is None or threads >= wanted:
        return wanted
    return 1 if threads <= 1 else max(LANES[1], 1 << threads.bit_length() - 1)


def _group_lanes(size: int, bits: int) -> int:
    """The whole group where it fits."""
    if size == 1:
        return 1
    whole = max(LANES[1], 1 << (size - 1).bit_length())
    return whole if whole * bits <= LANES[-1] * 32 else _USUAL * 32 // bits
