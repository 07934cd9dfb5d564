"""The LLVM text of a few small kernels, to be read when it changes."""

from collections.abc import Callable

import pytest

from poot.dtypes import f32, i32
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Kernel
from poot.kernel.render.llvm_lanes import render


def scale() -> Kernel:
    """A baked size: the last vector overlaps the one before it."""
    k = KernelBuilder("scale", workgroup=(16, 1, 1), threads=(100, 1, 1))
    x, y = k.buffer("x", f32, "read", (100,)), k.buffer("y", f32, "write", (100,))
    i = k.index("thread", 0)
    k.store(y, (i,), k.op("mul", k.load(x, (i,)), k.const(2.0, f32)))
    return k.finish()


def guarded() -> Kernel:
    """A size given at launch, a guard that bounds the grid, and a checked load."""
    k = KernelBuilder("guarded", workgroup=(256, 1, 1), threads=(None, 1, 1))
    x, y = k.buffer("x", f32, "read", (None,)), k.buffer("y", f32, "write", (None,))
    i = k.let(k.index("thread", 0), "i")
    with k.if_(k.op("ge", i, k.index("extent", 0, "y"))):
        k.return_()
    k.store(y, (i,), k.load(x, (i,), checked=True))
    return k.finish()


def row_sums() -> Kernel:
    """A work-group of one vector a row, with a reduction of its lanes."""
    k = KernelBuilder("row_sums", workgroup=(16, 1, 1))
    x, y = k.buffer("x", i32, "read", (8, 64)), k.buffer("y", i32, "write", (8,))
    row, lane = k.index("group", 0), k.index("local", 0)
    total = k.let(k.i(0), "total")
    with k.for_(k.i(0), k.i(64), 16, hint="start") as start:
        k.assign(total, k.op("add", total, k.load(x, (row, k.op("add", start, lane)))))
    k.store(y, (row,), k.collective("sum", total))
    return k.finish()


@pytest.mark.parametrize("make", [scale, guarded, row_sums], ids=lambda make: make.__name__)
def test_text(make: Callable[[], Kernel], golden: Callable[[str, str], None]) -> None:
    golden(f"native/{make.__name__}.ll", render(make()).text)
