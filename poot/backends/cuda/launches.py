# pyright: basic
"""Launches with their arguments laid out once: eight bytes a parameter, and the array of addresses that CUDA takes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from poot.backends.cuda.code import CudaCode
from poot.backends.toolchain import CompiledKernel
from poot.dtypes import DType
from poot.errors import LaunchError

#: Blocks that a grid may have along x, and along y and z.
GRID_X = (1 << 31) - 1
GRID_YZ = 65535

Triple = tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class LoadedKernel:
    """A kernel in a device's memory; `module` keeps `function` alive."""

    compiled: CompiledKernel
    code: CudaCode
    module: Any
    function: Any


def fold(groups: Triple, what: str) -> Triple:
    """A grid that CUDA takes, with as many blocks or a few more: y and z are folded together where they are too long.

    Kernels undo it (see `render/ptx.py`); LaunchError where even that does not fit.
    """
    x, y, z = groups
    if y > GRID_YZ or z > GRID_YZ:
        y, z = min(y * z, GRID_YZ), math.ceil(y * z / GRID_YZ)
    if x > GRID_X or z > GRID_YZ:
        raise LaunchError(kernel=what, message=f"{groups} work-groups are more than a grid can have")
    return x, y, z


@dataclass(slots=True, eq=False)
class Launch:
    """One launch: `words` hold its arguments, `addresses` where each lies."""

    kernel: LoadedKernel
    grid: Triple
    words: np.ndarray[Any, Any]
    scratch: Any = field(default=None, repr=False)
    addresses: np.ndarray[Any, Any] = field(init=False, repr=False)
    arguments: int = field(init=False)

    def __post_init__(self) -> None:
        count = max(len(self.words), 1)
        self.addresses = self.words.ctypes.data + 8 * np.arange(count, dtype=np.uint64)
        self.arguments = self.addresses.ctypes.data

    @property
    def empty(self) -> bool:
        """Whether there is nothing to launch."""
        return 0 in self.grid

    def __call__(self, driver: Any, stream: int) -> None:
        """Enqueue it; the arguments are read before this returns."""
        x, y, z = self.grid
        code = self.kernel.code
        driver.launchKernel(
            self.kernel.function.ptr, x, y, z, code.threads, 1, 1, code.shared, stream, self.arguments, 0
        )


def word(value: int | float, dtype: DType) -> int:
    """The bits of a scalar, lowest first, in eight bytes."""
    data = np.asarray(value, dtype.dtype).tobytes()
    return int.from_bytes(data.ljust(8, b"\0"), "little")


def scratch_bytes(kernel: LoadedKernel, grid: Triple) -> int:
    """Global memory that a launch wants for itself."""
    return kernel.code.scratch * math.prod(grid)
