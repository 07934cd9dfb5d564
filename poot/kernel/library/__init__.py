"""The kernels that ship with poot, in its kernel language; `poot.api.library` makes them callable.

Each kernel's docstring says how to launch it: `threads` of an array's size, or `groups`, a work-group for each row or
block.
"""

from __future__ import annotations

from poot.kernel.library.elementwise import add, game_of_life, mandelbrot, saxpy
from poot.kernel.library.matrices import convolution, matmul, transpose
from poot.kernel.library.others import accelerations, bitonic_step
from poot.kernel.library.reductions import add_before, histogram, reduce, scan, scan_blocks
from poot.kernel.library.rows import argmax, gemv, rmsnorm, softmax

__all__ = [
    "add",
    "saxpy",
    "mandelbrot",
    "game_of_life",
    "softmax",
    "rmsnorm",
    "argmax",
    "gemv",
    "reduce",
    "scan",
    "scan_blocks",
    "add_before",
    "histogram",
    "transpose",
    "matmul",
    "convolution",
    "bitonic_step",
    "accelerations",
]
