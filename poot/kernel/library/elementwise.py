# pyright: basic, reportCallIssue=false
"""Kernels in which every thread makes one element of its own."""

from __future__ import annotations

from typing import TypeVar

from poot.dtypes import f32, i32, u8
from poot.kernel.language import In, In2, InOut, Out, Out2, thread_index
from poot.kernel.parse import define

T = TypeVar("T")


@define
def add(a: In[T], b: In[T], c: Out[T]):
    """C = a + b; threads = len(c)."""
    i = thread_index()
    if i < len(c):
        c[i] = a[i] + b[i]


@define
def saxpy(alpha: float, x: In[f32], y: InOut[f32]):
    """Y = alpha x + y; threads = len(y)."""
    i = thread_index()
    if i < len(y):
        y[i] += alpha * x[i]


@define
def mandelbrot(turns: Out2[i32], left: float, top: float, step: float, limit: int):
    """How often z = z² + c is computed before |z| passes 2, at most `limit` times; threads = (width, height).

    Pixel (y, x) stands for c = left + step x + i (top - step y).
    """
    x, y = thread_index("x"), thread_index("y")
    if x < turns.shape[1] and y < turns.shape[0]:
        real, imaginary = left + step * f32(x), top - step * f32(y)
        a = b = 0.0
        count = 0
        while count < limit:
            square_a, square_b = a * a, b * b
            if square_a + square_b > 4.0:
                break
            b = 2.0 * a * b + imaginary
            a = square_a - square_b + real
            count += 1
        turns[y, x] = count


@define
def game_of_life(old: In2[u8], new: Out2[u8]):
    """One generation of Conway's game on a torus of cells that are 0 or 1; threads = (width, height)."""
    x, y = thread_index("x"), thread_index("y")
    height, width = old.shape
    if x < width and y < height:
        alive = u8(0)
        for dy in range(-1, 2):
            for dx in range(-1, 2):
                if dx != 0 or dy != 0:
                    alive += old[(y + dy) % height, (x + dx) % width]
        born = alive == 3
        stays = alive == 2 and old[y, x] == 1
        new[y, x] = u8(born or stays)
