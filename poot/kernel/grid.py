"""Grids that are longer on an axis than a device allows, folded into ones that it takes.

A folded kernel counts its work-groups in one line over the grid that is really launched, and takes that number apart
into the group numbers of the grid that was asked for, which come as scalars.  Groups past the end return at once.
"""

from __future__ import annotations

from dataclasses import replace

from typing_extensions import override

from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Alloc, Atomic, Expr, For, Index, Kernel, Let, Return, ScalarParam, Var, walk
from poot.kernel.rebuild import Rebuilder

Triple = tuple[int, int, int]


def fold_sizes(groups: Triple, limit: int) -> Triple | None:
    """A grid within `limit` on each axis that holds as many groups, or None where no axis is too long.

    Of the axes the last takes what is left, so it may pass the limit where three axes do not hold the groups.
    """
    if max(groups) <= limit:
        return None
    total = groups[0] * groups[1] * groups[2]
    x = min(total, limit)
    y = min(-(-total // x), limit)
    return x, y, -(-total // (x * y))


def folded(kernel: Kernel) -> Kernel:
    """The kernel for a folded grid.

    Its parameters are followed by scalars of the index dtype: the three group counts asked for, then the counts of
    threads that `kernel.threads` leaves to the launch.
    """
    return _Folder(kernel).kernel_()


class _Folder(Rebuilder):
    def __init__(self, kernel: Kernel) -> None:
        self.source = kernel
        self.k = KernelBuilder(kernel.name, workgroup=kernel.workgroup, index_dtype=kernel.index_dtype)
        self.k.where = kernel.where
        for name in _names(kernel):
            self.k.fresh(name)
        self.numbers: dict[tuple[str, int], Expr] = {}

    def kernel_(self) -> Kernel:
        kernel, k = self.source, self.k
        grid = [k.scalar(f"grid_{axis}", k.index_dtype) for axis in "xyz"]
        params = list(kernel.params) + [ScalarParam(var.name, var.dtype) for var in grid]
        groups = self.groups(grid)
        for axis in range(3):
            self.numbers["group", axis] = groups[axis]
            self.numbers["num_groups", axis] = grid[axis]
            first = k.op("mul", groups[axis], k.i(kernel.workgroup[axis]))
            thread = k.op("add", first, k.index("local", axis))
            self.numbers["thread", axis] = k.let(thread, f"thread_{'xyz'[axis]}")
        for axis, count in enumerate(kernel.threads or ()):
            bound: Expr = k.i(count) if count is not None else k.scalar(f"threads_{'xyz'[axis]}", k.index_dtype)
            if isinstance(bound, Var):
                params.append(ScalarParam(bound.name, bound.dtype))
            self.numbers["threads", axis] = bound
            self.leave_unless(k.op("lt", self.numbers["thread", axis], bound))
        body = (*k.here, *self.block(kernel.body))
        return replace(kernel, params=tuple(params), body=body, threads=None)

    def groups(self, grid: list[Var]) -> list[Var]:
        """The group numbers of the grid asked for."""
        k = self.k
        plane = k.op("add", k.index("group", 1), k.op("mul", k.index("num_groups", 1), k.index("group", 2)))
        line = k.let(k.op("add", k.index("group", 0), k.op("mul", k.index("num_groups", 0), plane)), "group")
        total = k.op("mul", k.op("mul", grid[0], grid[1]), grid[2])
        self.leave_unless(k.op("lt", line, total))
        rest = k.op("floor_div", line, grid[0])
        x, y = k.op("rem", line, grid[0]), k.op("rem", rest, grid[1])
        z = k.op("floor_div", rest, grid[1])
        return [k.let(number, f"group_{axis}") for number, axis in zip((x, y, z), "xyz", strict=True)]

    def leave_unless(self, condition: Expr) -> None:
        with self.k.if_(self.k.op("not", condition)):
            self.k.emit(Return(self.k.where))

    @override
    def leaf(self, expr: Expr) -> Expr | None:
        if isinstance(expr, Index) and not expr.buffer:
            return self.numbers.get((expr.kind, expr.axis))
        return None


def _names(kernel: Kernel) -> list[str]:
    names = {param.name: None for param in kernel.params}
    for node in walk(kernel.body):
        match node:
            case Let() | Alloc():
                names[node.name] = None
            case For():
                names[node.var] = None
            case Atomic(result=str() as result):
                names[result] = None
            case _:
                pass
    return list(names)
