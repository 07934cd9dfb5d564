"""A kernel with every native operation and conversion of one dtype, for renderers that are compiled but not run."""

from __future__ import annotations

from poot.dtypes import ALL, DType, bf16, bool_, f16
from poot.kernel import expand as expand  # the table is complete with its expansions
from poot.kernel import ops
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Kernel
from poot.kernel.pipeline import prepare


def native(dtype: DType) -> list[ops.ScalarOp]:
    """The rows that a renderer spells for a dtype; arithmetic of 16-bit floats is written in f32 before."""
    rows = [op for op in ops.table() if dtype in op.dtypes and op.native and op.name != "bitcast"]
    return rows if dtype in (f16, bf16) else [op for op in rows if not op.expands(dtype)]


def matrix(dtype: DType) -> Kernel:
    """Each row and each cast of a dtype, on two operands and a condition, into a buffer of its own."""
    n = 96
    k = KernelBuilder(f"matrix_{dtype}", workgroup=(64, 1, 1), threads=(n, 1, 1))
    x, y = k.buffer("x", dtype, "read", (n,)), k.buffer("y", dtype, "read", (n,))
    z, i = k.buffer("z", bool_, "read", (n,)), k.index("thread", 0)
    operands = [k.let(k.load(x, (i,))), k.let(k.load(y, (i,)))]
    condition = k.let(k.load(z, (i,)))
    for op in native(dtype):
        value = k.op(op.name, *([condition, *operands] if op.name == "select" else operands[: op.arity]))
        k.store(k.buffer(f"out_{op.name}", value.dtype, "write", (n,)), (i,), value)
    for to in ALL:
        if to is not dtype:
            k.store(k.buffer(f"to_{to}", to, "write", (n,)), (i,), k.cast(operands[0], to))
        if to is not dtype and to.bits == dtype.bits and bool_ not in (to, dtype):
            k.store(k.buffer(f"bits_{to}", to, "write", (n,)), (i,), k.bitcast(operands[0], to))
    return prepare(k.finish())
