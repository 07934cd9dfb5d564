"""What a target cannot do of a valid kernel: dtypes, work-group size, shared memory, bindings."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from poot.dtypes import BY_NAME, DType
from poot.errors import PootError, SourceLocation, Unsupported
from poot.kernel.ir import Alloc, Assign, Collective, Kernel, Let, may_fault, statements, walk
from poot.target import Target

#: The arrays that a limit is about.
_SPACES = {"workgroup_storage": "shared", "workgroup_private": "private"}


def shared_bytes(kernel: Kernel) -> int:
    """Bytes of shared memory that a work-group takes: its arrays, and room for one operand of a collective a thread."""
    arrays = hidden = 0
    for stmt in statements(kernel.body):
        if isinstance(stmt, Alloc) and stmt.space == "shared":
            arrays += math.prod(stmt.shape) * stmt.dtype.itemsize
        elif isinstance(stmt, (Let, Assign)) and isinstance(stmt.value, Collective):
            hidden = max(hidden, kernel.group_invocations * max(4, stmt.value.dtype.itemsize))
    return arrays + hidden


def private_bytes(kernel: Kernel) -> int:
    """Bytes of the private arrays of all threads of a work-group."""
    arrays = [stmt for stmt in statements(kernel.body) if isinstance(stmt, Alloc) and stmt.space == "private"]
    return kernel.group_invocations * sum(math.prod(array.shape) * array.dtype.itemsize for array in arrays)


def largest_array(kernel: Kernel, space: str) -> SourceLocation | None:
    """The line of the array that takes most of a kind of memory; that of the kernel where there is none."""
    arrays = [stmt for stmt in statements(kernel.body) if isinstance(stmt, Alloc) and stmt.space == space]
    largest = max(arrays, key=lambda array: math.prod(array.shape) * array.dtype.itemsize, default=None)
    return kernel.where if largest is None or largest.where is None else largest.where


def check_target(kernel: Kernel, target: Target) -> None:
    """Raise Unsupported where a valid kernel uses a dtype that the target lacks or is past one of its limits."""
    for param in kernel.params:
        if param.dtype not in target.dtypes:
            raise _lacks(kernel, target, param.dtype, f"`{param.name}` has it", _declared(kernel.where, param.name))
    nodes = walk(kernel.body)
    for node in nodes:
        dtype = getattr(node, "dtype", None)
        if dtype is not None and dtype not in target.dtypes:
            raise _lacks(kernel, target, dtype, "it is used here", node.where)
    limits = dict(target.limits)
    buffers = len(kernel.buffers) + any(map(may_fault, nodes))
    fewer = "use smaller private arrays, or a smaller workgroup="
    for value, name, what, remedy in (
        (kernel.group_invocations, "workgroup_invocations", "threads in a work-group", "choose a smaller workgroup="),
        (shared_bytes(kernel), "workgroup_storage", "bytes of shared memory", "use smaller shared arrays"),
        (private_bytes(kernel), "workgroup_private", "bytes of private arrays in a work-group", fewer),
        (buffers, "buffers", "buffers, the fault record included", "pass fewer arrays"),
    ):
        if name in limits and value > limits[name]:
            raise Unsupported(
                what=f"kernel {kernel.name}: {value} {what}",
                target=target,
                message=f"the limit is {limits[name]}",
                where=largest_array(kernel, _SPACES[name]) if name in _SPACES else kernel.where,
                remedy=f"{remedy}.",
            )


def _lacks(kernel: Kernel, target: Target, dtype: DType, use: str, where: SourceLocation | None) -> PootError:
    fits = [d for d in BY_NAME.values() if d.kind == dtype.kind and d in target.dtypes]
    fits.sort(key=lambda other: abs(other.bits - dtype.bits))
    other = f"use {fits[0]} in place of {dtype}, or " if fits else ""
    return Unsupported(
        what=f"kernel {kernel.name}: dtype {dtype}",
        target=target,
        message=use,
        where=where,
        remedy=f"{other}launch it on another device, such as cpu.",
    )


def _declared(where: SourceLocation | None, name: str) -> SourceLocation | None:
    """The place of a parameter, where it stands in the line of the `def`."""
    found = None if where is None else re.search(rf"\b{re.escape(name)}\s*:", where.text)
    return (
        where
        if where is None or found is None
        else replace(where, column=found.start(), end_column=found.start() + len(name))
    )
