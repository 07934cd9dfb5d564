# pyright: basic, reportCallIssue=false
"""Kernels over matrices: tiles in shared memory, sums in registers."""

from __future__ import annotations

from typing import TypeVar

from poot.dtypes import f32
from poot.kernel.language import (
    In2,
    Out2,
    barrier,
    group_index,
    local_index,
    private,
    shared,
    thread_index,
    unroll,
)
from poot.kernel.parse import define

T = TypeVar("T")

TILE = 32
ROWS = 8

BLOCK = 64
DEPTH = 16
EACH = 4
SIDE = BLOCK // EACH


@define(workgroup=(TILE, ROWS))
def transpose(x: In2[T], y: Out2[T]):
    """Y = x transposed; groups = (columns, rows) of x over 32, rounded up.

    Rows are read and written as a whole; the tile between has one column more, so that its columns lie in all banks.
    """
    tile = shared(T, (TILE, TILE + 1))
    rows, columns = x.shape
    down, across = local_index("y"), local_index("x")
    top, left = group_index("y") * TILE, group_index("x") * TILE
    for k in unroll(range(0, TILE, ROWS)):
        if top + down + k < rows and left + across < columns:
            tile[down + k, across] = x[top + down + k, left + across]
    barrier()
    for k in unroll(range(0, TILE, ROWS)):
        if left + down + k < columns and top + across < rows:
            y[left + down + k, top + across] = tile[across, down + k]


@define(workgroup=(SIDE, SIDE))
def matmul(a: In2[T], b: In2[T], c: Out2[T]):
    """C = a b, with sums in f32; groups = (columns, rows) of c over 64, rounded up.

    A group makes a block of 64 x 64, a thread 4 x 4 of it in registers, from strips of 16 that lie in shared memory.
    """
    left, right = shared(T, (DEPTH, BLOCK)), shared(T, (DEPTH, BLOCK))
    sums = private(f32, (EACH, EACH))
    rows, depth, columns = a.shape[0], a.shape[1], b.shape[1]
    x, y = local_index("x"), local_index("y")
    row, column = group_index("y") * BLOCK, group_index("x") * BLOCK
    thread = y * SIDE + x
    for i in unroll(range(EACH)):
        for j in unroll(range(EACH)):
            sums[i, j] = 0
    for start in range(0, depth, DEPTH):
        for n in unroll(range(BLOCK * DEPTH // (SIDE * SIDE))):
            at = thread + n * SIDE * SIDE
            r, k = row + at // DEPTH, start + at % DEPTH
            left[at % DEPTH, at // DEPTH] = a[r, k] if r < rows and k < depth else 0
            k, q = start + at // BLOCK, column + at % BLOCK
            right[at // BLOCK, at % BLOCK] = b[k, q] if k < depth and q < columns else 0
        barrier()
        for k in range(DEPTH):
            for i in unroll(range(EACH)):
                for j in unroll(range(EACH)):
                    sums[i, j] += f32(left[k, y * EACH + i]) * f32(right[k, x * EACH + j])
        barrier()
    for i in unroll(range(EACH)):
        for j in unroll(range(EACH)):
            if row + y * EACH + i < rows and column + x * EACH + j < columns:
                c[row + y * EACH + i, column + x * EACH + j] = T(sums[i, j])


@define
def convolution(x: In2[T], weight: In2[T], y: Out2[T]):
    """The correlation of an image with a small weight, both 2-D and as large as the image, with zeros around it.

    The weight's extents are odd; sums in f32; threads = (width, height).
    """
    column, row = thread_index("x"), thread_index("y")
    height, width = x.shape
    high, wide = weight.shape
    if row < height and column < width:
        total = 0.0
        for i in range(high):
            for j in range(wide):
                r, c = row + i - high // 2, column + j - wide // 2
                if 0 <= r < height and 0 <= c < width:
                    total += f32(x[r, c]) * f32(weight[i, j])
        y[row, column] = T(total)
