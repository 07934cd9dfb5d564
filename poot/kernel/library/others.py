# pyright: basic, reportCallIssue=false
"""A sorting network, and the forces between bodies."""

from __future__ import annotations

import math
from typing import TypeVar

from poot.dtypes import f32
from poot.kernel.language import In, In2, InOut, Out2, barrier, group_size, local_index, shared, thread_index
from poot.kernel.parse import define

T = TypeVar("T")

BODIES = 128


@define
def bitonic_step(x: InOut[T], mask: int):
    """One step of a bitonic sorting network over `x`: order each element with that at its index xor `mask`.

    threads = len(x).  For size = 2, 4, 8 … until it covers the array: a step with mask = size - 1, then steps with
    size // 4, size // 8 … 1.  Any length is sorted, since elements past the end would count as greatest.
    """
    i = thread_index()
    other = i ^ mask
    if i < other and other < len(x):
        low, high = x[i], x[other]
        if low > high:
            x[i], x[other] = high, low


@define(workgroup=BODIES)
def accelerations(position: In2[f32], mass: In[f32], out: Out2[f32], softening: float):
    """The gravity that each of n bodies (n x 3) feels from all, with constant 1; groups = n over 128, rounded up.

    Softened by Plummer's rule: each distance² grows by softening².
    """
    count = len(mass)
    others = shared(f32, (4, BODIES))
    me, lane = thread_index(), local_index()
    x = y = z = 0.0
    if me < count:
        x, y, z = position[me, 0], position[me, 1], position[me, 2]
    ax = ay = az = 0.0
    for start in range(0, count, group_size()):
        body = start + lane
        if body < count:
            others[0, lane], others[1, lane], others[2, lane] = position[body, 0], position[body, 1], position[body, 2]
            others[3, lane] = mass[body]
        else:
            others[0, lane] = others[1, lane] = others[2, lane] = others[3, lane] = 0.0
        barrier()
        for k in range(group_size()):
            dx, dy, dz = others[0, k] - x, others[1, k] - y, others[2, k] - z
            square = dx * dx + dy * dy + dz * dz + softening * softening
            pull = others[3, k] / (square * math.sqrt(square)) if square > 0.0 else 0.0
            ax += dx * pull
            ay += dy * pull
            az += dz * pull
        barrier()
    if me < count:
        out[me, 0], out[me, 1], out[me, 2] = ax, ay, az
