# pyright: basic, reportCallIssue=false
"""Reductions and scans of arrays of any length, and a histogram."""

from __future__ import annotations

from typing import TypeVar

from poot.dtypes import bf16, f16, f32, i32, u8
from poot.kernel.language import (
    Const,
    In,
    InOut,
    Out,
    atomic_add,
    barrier,
    group_index,
    group_max,
    group_min,
    group_scan,
    group_size,
    group_sum,
    local_index,
    num_groups,
    shared,
    thread_index,
)
from poot.kernel.parse import define

T = TypeVar("T")


@define(workgroup=256)
def reduce(x: In[T], out: Out[T], op: Const[str] = "sum"):
    """The sum, max or min (`op`) of what each work-group strides over, one element of `out` a group.

    groups = len(out).  For one number, launch again over `out` with groups = 1.  f16 and bf16 are summed in f32.  `x`
    has an element at least, unless `op` is "sum".
    """
    A = f32 if T in (f16, bf16) else T
    value = A(0) if op == "sum" else A(x[0])
    i, stride = thread_index(), group_size() * num_groups()
    while i < len(x):
        element = A(x[i])
        if op == "sum":
            value += element
        elif op == "max":
            value = max(value, element)
        else:
            assert op == "min", "op is sum, max or min"
            value = min(value, element)
        i += stride
    if op == "sum":
        value = group_sum(value)
    elif op == "max":
        value = group_max(value)
    else:
        value = group_min(value)
    if local_index() == 0:
        out[group_index()] = T(value)


@define(workgroup=256)
def scan(x: In[T], y: Out[T]):
    """y[i] = x[0] + … + x[i], by one work-group; groups = 1."""
    carry = T(0)
    for start in range(0, len(x), group_size()):
        i = start + local_index()
        value = x[i] if i < len(x) else T(0)
        running = carry + group_scan(value)
        if i < len(x):
            y[i] = running
        carry += group_sum(value)


@define(workgroup=256)
def scan_blocks(x: In[T], y: Out[T], totals: Out[T]):
    """The scan of each block of 256 elements, and its total; groups = blocks.

    `scan` over `totals`, then `add_before`, make it the scan of the whole.
    """
    i = thread_index()
    value = x[i] if i < len(x) else T(0)
    running = group_scan(value)
    if i < len(x):
        y[i] = running
    if local_index() == group_size() - 1:
        totals[group_index()] = running


@define(workgroup=256)
def add_before(y: InOut[T], totals: In[T]):
    """Add to each block of 256 elements the scanned total of those before it; groups = blocks."""
    i = thread_index()
    if group_index() > 0 and i < len(y):
        y[i] += totals[group_index() - 1]


@define(workgroup=256)
def histogram(x: In[u8], counts: InOut[i32]):
    """Add to counts[v] how often the byte v is in `x`; counts has 256 elements; any number of groups."""
    own = shared(i32, 256)
    own[local_index()] = 0
    barrier()
    i, stride = thread_index(), group_size() * num_groups()
    while i < len(x):
        atomic_add(own, x[i], 1)
        i += stride
    barrier()
    atomic_add(counts, local_index(), own[local_index()])
