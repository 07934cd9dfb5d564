"""The kernels that ship with poot, ready to launch: `library.add(a, b, c, threads=len(c))`.

They are written in the kernel language, in `poot/kernel/library/`, and serve as examples of it.
"""

from __future__ import annotations

from poot.api.kernels import Kernel
from poot.kernel import library
from poot.kernel.parse.definition import Definition


def _ready(made: Definition) -> Kernel:
    """A kernel that pickles find here, not where its function stands."""
    kernel = Kernel(made)
    kernel.__module__ = __name__
    return kernel


add = _ready(library.add)
saxpy = _ready(library.saxpy)
mandelbrot = _ready(library.mandelbrot)
game_of_life = _ready(library.game_of_life)
softmax = _ready(library.softmax)
rmsnorm = _ready(library.rmsnorm)
argmax = _ready(library.argmax)
gemv = _ready(library.gemv)
reduce = _ready(library.reduce)
scan = _ready(library.scan)
scan_blocks = _ready(library.scan_blocks)
add_before = _ready(library.add_before)
histogram = _ready(library.histogram)
transpose = _ready(library.transpose)
matmul = _ready(library.matmul)
convolution = _ready(library.convolution)
bitonic_step = _ready(library.bitonic_step)
accelerations = _ready(library.accelerations)
