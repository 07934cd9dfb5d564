"""Threads in one long row, folded into several where a target's grids are not long enough for it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from poot.dtypes import DType, i32, i64
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Expr


def _over(count: int, by: int) -> int:
    """The quotient, rounded up."""
    return -(-count // by)


@dataclass(frozen=True, slots=True)
class FlatGrid:
    """`size` threads in work-groups of `width`, on a target whose grids have at most `limit` groups an axis."""

    size: int
    width: int
    limit: int

    @property
    def _rows(self) -> int:
        return max(_over(_over(self.size, self.width), self.limit), 1)

    @property
    def _columns(self) -> int:
        """Threads of a row: all of them, or whole work-groups."""
        if self._rows == 1:
            return self.size
        return _over(_over(self.size, self.width), self._rows) * self.width

    @property
    def threads(self) -> tuple[int, int, int]:
        return (self._columns, self._rows, 1)

    @property
    def groups(self) -> tuple[int, int, int]:
        return (_over(self._columns, self.width), self._rows, 1)

    @property
    def index_dtype(self) -> DType:
        return i32 if self._columns * self._rows < 1 << 31 else i64

    def builder(self, name: str) -> KernelBuilder:
        """A kernel over the grid."""
        workgroup = (self.width, 1, 1)
        return KernelBuilder(name, workgroup=workgroup, threads=self.threads, index_dtype=self.index_dtype)

    @contextmanager
    def thread(self, k: KernelBuilder) -> Generator[Expr]:
        """A thread's number; statements for it belong inside the context."""
        x = k.index("thread", 0)
        if self._rows == 1:
            yield x
            return
        number = k.let(k.op("add", k.op("mul", k.index("thread", 1), k.i(self._columns)), x), "number")
        if self._columns * self._rows == self.size:
            yield number
            return
        with k.if_(k.op("lt", number, k.i(self.size))):
            yield number
