"""Intervals of integer expressions, found as a kernel is written: where a plain operator will do for one that wraps."""

from __future__ import annotations

from collections.abc import Collection

from poot.kernel.interval import interval
from poot.kernel.ir import Cast, Const, Expr, For, Index, Kernel, Let, Op, Var
from poot.kernel.ranges import Interval, hull


class Intervals:
    """What is known of the integers of one kernel; `changing` names the locals that are assigned again."""

    def __init__(self, kernel: Kernel, changing: Collection[str]) -> None:
        self._kernel = kernel
        self._changing = changing
        self._locals: dict[str, Interval] = {}

    def let(self, stmt: Let) -> None:
        """Note a local that never changes."""
        if stmt.value.dtype.is_integer and stmt.name not in self._changing:
            self._locals[stmt.name] = self.of(stmt.value)

    def counted(self, stmt: For) -> None:
        """Note the variable of a loop."""
        start, stop = self.of(stmt.start), self.of(stmt.stop)
        if stmt.step > 0:
            self._locals[stmt.var] = start[0], max(start[0], stop[1] - 1)
        else:
            self._locals[stmt.var] = min(start[1], stop[0] + 1), start[1]

    def of(self, expr: Expr) -> Interval:
        """The least and greatest value of an integer expression."""
        whole = int(expr.dtype.min), int(expr.dtype.max)
        match expr:
            case Const():
                return int(expr.value), int(expr.value)
            case Var():
                return self._locals.get(expr.name, whole)
            case Index():
                return self._number(expr, whole)
            case Cast() if expr.arg.dtype.is_integer:
                inner = self.of(expr.arg)
                return inner if whole[0] <= inner[0] and inner[1] <= whole[1] else whole
            case Op(name="select"):
                return hull(map(self.of, expr.args[1:]))
            case Op() if all(arg.dtype.is_integer for arg in expr.args) and expr.name != "bitcast":
                exact = self.exact(expr)
                return exact if whole[0] <= exact[0] and exact[1] <= whole[1] else whole
            case _:
                return whole

    def exact(self, op: Op) -> Interval:
        """The least and greatest value of an integer operation before it wraps."""
        args = [self.of(arg) for arg in op.args]
        match op.name, args:
            case "add", (a, b):
                return a[0] + b[0], a[1] + b[1]
            case "sub", (a, b):
                return a[0] - b[1], a[1] - b[0]
            case "mul", (a, b):
                corners = [x * y for x in a for y in b]
                return min(corners), max(corners)
            case "neg", (a,):
                return -a[1], -a[0]
            case "abs", (a,):
                return (0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1]))), max(abs(a[0]), abs(a[1]))
            case _:
                return interval(op, args)

    def _number(self, expr: Index, whole: Interval) -> Interval:
        kernel, axis, most = self._kernel, expr.axis, whole[1]
        # An array may have more axes than a grid.
        threads = None if expr.buffer or kernel.threads is None else kernel.threads[axis]
        match expr.kind:
            case "local":
                return 0, kernel.workgroup[axis] - 1
            case "group_size":
                return kernel.workgroup[axis], kernel.workgroup[axis]
            case "thread":
                return 0, most - 1 if threads is None else max(threads - 1, 0)
            case "group":
                size = kernel.workgroup[axis]
                return 0, (most // size if threads is None else max(threads - 1, 0) // size)
            case "extent":
                extent = next(b for b in kernel.buffers if b.name == expr.buffer).shape[axis]
                return (0, most) if extent is None else (extent, extent)
            case "stride":
                stride = next(b for b in kernel.buffers if b.name == expr.buffer).strides[axis]
                return whole if stride is None else (stride, stride)
            case "threads" if threads is not None:
                return threads, threads
            case _:
                return 0, most
