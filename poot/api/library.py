"""The kernels that ship with poot, ready to launch: `library.add(a, b, c, threads=len(c))`.

They are written in the kernel language, in `poot/kernel/library/`, and serve as examples of it.
"""

from __future__ import annotations

from poot.api.kernels import kernel
from poot.kernel import library

add = kernel(library.add)
saxpy = kernel(library.saxpy)
mandelbrot = kernel(library.mandelbrot)
game_of_life = kernel(library.game_of_life)
softmax = kernel(library.softmax)
rmsnorm = kernel(library.rmsnorm)
argmax = kernel(library.argmax)
gemv = kernel(library.gemv)
reduce = kernel(library.reduce)
scan = kernel(library.scan)
scan_blocks = kernel(library.scan_blocks)
add_before = kernel(library.add_before)
histogram = kernel(library.histogram)
transpose = kernel(library.transpose)
matmul = kernel(library.matmul)
convolution = kernel(library.convolution)
bitonic_step = kernel(library.bitonic_step)
accelerations = kernel(library.accelerations)
