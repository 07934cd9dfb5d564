"""How a kernel runs on lanes: whole rows of threads as independent vectors, or one work-group at a time.

A kernel without barriers, collectives or shared arrays that never asks for its place in the group along x is *flat*:
the vectors run along the x axis of the whole grid, whatever the work-group.  Others run group by group, each as one
vector or as several parts, all of whose lanes differ in their index on one axis alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from poot.errors import ArgumentError
from poot.kernel.ir import Alloc, Assign, Atomic, Barrier, Collective, Index, Kernel, Load, Op, Store, walk
from poot.kernel.uniform import Uniformity

_LANES = 32
_MOST_LANES = 64


@dataclass(frozen=True, slots=True)
class Plan:
    """`lanes` along `axis`; `flat` as said above; a group has `parts` vectors.

    `together` says that a group's threads wait for each other somewhere.  `overlap` allows the last vector of a flat
    row to be moved back over lanes that have run already, since running them twice does no harm.
    """

    lanes: int
    axis: int
    flat: bool
    parts: int
    together: bool
    overlap: bool
    assigned: frozenset[str]
    uniformity: Uniformity


def plan(kernel: Kernel, vector_lanes: int | None) -> Plan:
    """Choose the lanes: about two or four registers a value, which hides the latency of arithmetic without spilling."""
    if vector_lanes is not None and (vector_lanes < 1 or vector_lanes & (vector_lanes - 1)):
        raise ArgumentError(what="vector_lanes", actual=vector_lanes, expected="a power of two")
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
    axis = 0 if flat else next((a for a in range(3) if kernel.workgroup[a] > 1), 0)
    lanes = vector_lanes or _choose(kernel, kernel.workgroup[axis], bits, flat=flat)
    threads = kernel.threads[0] if flat and kernel.threads is not None else None
    if threads is not None:
        lanes = min(lanes, 1 << max(threads, 1).bit_length() - 1)
    overlap = threads is not None and not changed and threads % lanes != 0
    size = kernel.workgroup[axis]
    aligned = size % lanes == 0 and not overlap
    parts = 1 if flat else -(-size // lanes) * (kernel.group_invocations // size)
    uniformity = Uniformity(kernel, (axis,) if lanes > 1 else (), lane_axis=axis, lanes=lanes, aligned=aligned)
    return Plan(lanes, axis, flat, parts, together, overlap, frozenset(assigned), uniformity)


def _choose(kernel: Kernel, size: int, bits: int, *, flat: bool) -> int:
    most = _MOST_LANES * 32 // bits
    usual = _LANES * 32 // bits
    if flat:
        return size if 8 <= size <= most and size & (size - 1) == 0 else usual
    if size <= most:
        return 1 << (size - 1).bit_length()
    return usual
