# pyright: basic, reportCallIssue=false
"""Kernels in which a work-group computes one row: a pass over the row, and what the group makes of it together."""

from __future__ import annotations

import math
from typing import TypeVar

from poot.dtypes import f32, i32
from poot.kernel.language import (
    In,
    In2,
    In3,
    Out,
    Out2,
    group_index,
    group_max,
    group_min,
    group_size,
    group_sum,
    local_index,
)
from poot.kernel.parse import define

T = TypeVar("T")


@define(workgroup=256)
def softmax(x: In2[T], y: Out2[T]):
    """Softmax of each row, in f32; groups = rows."""
    row = group_index()
    first, stride, columns = local_index(), group_size(), x.shape[1]
    greatest = -math.inf
    for k in range(first, columns, stride):
        greatest = max(greatest, f32(x[row, k]))
    top = group_max(greatest)
    total = 0.0
    for k in range(first, columns, stride):
        total += math.exp(f32(x[row, k]) - top)
    scale = 1.0 / group_sum(total)
    for k in range(first, columns, stride):
        y[row, k] = T(math.exp(f32(x[row, k]) - top) * scale)


@define(workgroup=256)
def rmsnorm(x: In2[T], weight: In[T], y: Out2[T], eps: float):
    """Each row over the root of its mean square, times a weight a column; in f32; groups = rows."""
    row = group_index()
    first, stride, columns = local_index(), group_size(), x.shape[1]
    total = 0.0
    for k in range(first, columns, stride):
        total += f32(x[row, k]) ** 2
    scale = 1.0 / math.sqrt(group_sum(total) / f32(columns) + eps)
    for k in range(first, columns, stride):
        y[row, k] = T(f32(x[row, k]) * scale * f32(weight[k]))


@define(workgroup=256)
def argmax(x: In2[T], at: Out[i32]):
    """The index of the greatest element of each row, the first of several; NaN counts as greatest; groups = rows."""
    row = group_index()
    best, place = x[row, 0], 0
    for k in range(local_index(), x.shape[1], group_size()):
        value = x[row, k]
        if value > best or (value != value and best == best):
            best = value
            place = i32(k)
    top = group_max(best)
    found = best == top or (best != best and top != top)
    first = group_min(place if found else i32(x.shape[1]))
    if local_index() == 0:
        at[row] = first


@define(workgroup=64)
def gemv(a: In3[T], x: In2[T], y: Out2[T]):
    """y[b] = a[b] x[b] for each b of a batch, in f32; groups = (rows, batch)."""
    row, batch = group_index("x"), group_index("y")
    total = 0.0
    for k in range(local_index(), a.shape[2], group_size()):
        total += f32(a[batch, row, k]) * f32(x[batch, k])
    result = group_sum(total)
    if local_index() == 0:
        y[batch, row] = T(result)
