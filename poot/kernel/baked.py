"""Kernels with all of a launch baked in, as the planner's are: extents, strides, thread counts, no scalars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from typing_extensions import override

from poot.dtypes import ArraySpec
from poot.kernel.build import contiguous_strides
from poot.kernel.ir import BufferParam, Const, Expr, Index, Kernel, Load, ScalarParam, Var
from poot.kernel.rebuild import Rebuilder

Triple = tuple[int, int, int]


def baked(kernel: Kernel, shapes: Sequence[tuple[int, ...]], threads: Triple) -> Kernel:
    """The kernel for contiguous buffers of these shapes, one a buffer parameter, and for this many threads.

    Scalar parameters become buffers of rank 0, which hold the number.
    """
    return _Baker(kernel, shapes, threads).kernel_()


class _Baker(Rebuilder):
    def __init__(self, kernel: Kernel, shapes: Sequence[tuple[int, ...]], threads: Triple) -> None:
        self.source = kernel
        self.threads = threads
        self.shapes: Mapping[str, tuple[int, ...]] = {
            param.name: shape for param, shape in zip(kernel.buffers, shapes, strict=True)
        }
        self.scalars = {param.name for param in kernel.params if isinstance(param, ScalarParam)}

    def kernel_(self) -> Kernel:
        kernel = self.source
        params: list[BufferParam] = []
        for param in kernel.params:
            if isinstance(param, ScalarParam):
                params.append(BufferParam(param.name, param.dtype, "read", (), (), param.dtype.itemsize))
                continue
            shape = self.shapes[param.name]
            params.append(replace(param, shape=shape, strides=contiguous_strides(shape)))
        threads = None if kernel.threads is None else self.threads
        return replace(kernel, params=tuple(params), body=self.block(kernel.body), threads=threads)

    @override
    def leaf(self, expr: Expr) -> Expr | None:
        match expr:
            case Var() if expr.name in self.scalars:
                return Load(expr.name, (), expr.dtype, False, expr.where)
            case Index(kind="extent"):
                return Const(self.shapes[expr.buffer][expr.axis], expr.dtype, expr.where)
            case Index(kind="stride"):
                stride = contiguous_strides(self.shapes[expr.buffer])[expr.axis]
                assert stride is not None
                return Const(stride, expr.dtype, expr.where)
            case Index(kind="threads"):
                return Const(self.threads[expr.axis], expr.dtype, expr.where)
            case _:
                return None


def spec(param: BufferParam) -> ArraySpec:
    """The array that a buffer parameter with baked extents takes."""
    return ArraySpec(param.dtype, tuple(extent for extent in param.shape if extent is not None))
