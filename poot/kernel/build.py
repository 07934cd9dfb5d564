"""The typed builder of kernel IR, used by the parser, the planner and the expansions alike.

Expressions are made by methods that check and infer dtypes; statements are appended to the innermost open block:

    k = KernelBuilder("scale", workgroup=(64, 1, 1), threads=(n, 1, 1))
    x = k.buffer("x", f32, "read", (n,)); y = k.buffer("y", f32, "write", (n,))
    i = k.index("thread", 0)
    k.store(y, (i,), k.op("mul", k.load(x, (i,)), k.const(2.0, f32)))
    kernel = k.finish()
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from poot.dtypes import DType, bool_, i32
from poot.errors import ArgumentError, DTypeError, KernelCheckError, SourceLocation
from poot.kernel import ops
from poot.kernel.ir import (
    Access,
    Alloc,
    Assert,
    Assign,
    Atomic,
    AtomicOp,
    Barrier,
    Break,
    BufferParam,
    Cast,
    Collective,
    CollectiveOp,
    Const,
    Continue,
    Expr,
    For,
    If,
    Index,
    IndexKind,
    Kernel,
    Let,
    Load,
    Op,
    Param,
    Return,
    ScalarParam,
    Space,
    Stmt,
    Store,
    Var,
    While,
)


def contiguous_strides(shape: Sequence[int | None]) -> tuple[int | None, ...]:
    """Row-major element strides; None to the left of an extent that is None."""
    strides: list[int | None] = []
    step: int | None = 1
    for extent in reversed(shape):
        strides.append(step)
        step = None if step is None or extent is None else step * max(extent, 1)
    return tuple(reversed(strides))


class KernelBuilder:
    """Collects parameters and statements; `finish` gives the Kernel.  `where` is stamped on every node made."""

    def __init__(
        self,
        name: str,
        *,
        workgroup: tuple[int, int, int],
        threads: tuple[int | None, int | None, int | None] | None = None,
        index_dtype: DType = i32,
    ) -> None:
        self.name = name
        self.workgroup = workgroup
        self.threads = threads
        self.index_dtype = index_dtype
        self.where: SourceLocation | None = None
        self._params: list[Param] = []
        self._arrays: dict[str, tuple[DType, int]] = {}
        self._blocks: list[list[Stmt]] = [[]]
        self._names: dict[str, int] = {}

    # --- parameters and names ---

    def fresh(self, hint: str) -> str:
        """A name not yet used in this kernel: the hint itself, or the hint with a number."""
        count = self._names.get(hint)
        self._names[hint] = 1 if count is None else count + 1
        if count is None:
            return hint
        candidate = f"{hint}_{count}"
        return self.fresh(candidate) if candidate in self._names else self._claim(candidate)

    def _claim(self, name: str) -> str:
        self._names[name] = 1
        return name

    def buffer(
        self,
        name: str,
        dtype: DType,
        access: Access,
        shape: Sequence[int | None],
        strides: Sequence[int | None] | None = None,
        align: int = 1,
    ) -> str:
        """Add a buffer parameter (row-major unless strides are given); returns its name in this kernel."""
        name = self.fresh(name)
        strides = contiguous_strides(shape) if strides is None else tuple(strides)
        self._params.append(BufferParam(name, dtype, access, tuple(shape), strides, align))
        self._arrays[name] = dtype, len(shape)
        return name

    def scalar(self, name: str, dtype: DType) -> Var:
        """Add a scalar parameter."""
        name = self.fresh(name)
        self._params.append(ScalarParam(name, dtype))
        return Var(name, dtype, self.where)

    # --- expressions ---

    def const(self, value: bool | int | float, dtype: DType) -> Const:
        """A literal, converted to what the dtype holds."""
        if dtype is bool_:
            return Const(bool(value), dtype, self.where)
        if dtype.is_integer:
            if not dtype.min <= value <= dtype.max:
                raise ArgumentError(what=f"{dtype} constant", actual=value, expected="a value in its range")
            return Const(int(value), dtype, self.where)
        return Const(float(dtype.dtype.type(value)), dtype, self.where)

    def i(self, value: int) -> Const:
        """A literal of the index dtype."""
        return self.const(value, self.index_dtype)

    def op(self, name: str, *args: Expr) -> Expr:
        """An operation of the table; DTypeError where the operands do not fit."""
        return Op(name, args, ops.result_dtype(name, [arg.dtype for arg in args]), self.where)

    def bitcast(self, arg: Expr, dtype: DType) -> Expr:
        if arg.dtype.bits != dtype.bits:
            raise DTypeError(what="bitcast", actual=dtype, expected=f"a dtype of {arg.dtype.bits} bits")
        return arg if arg.dtype is dtype else Op("bitcast", (arg,), dtype, self.where)

    def cast(self, arg: Expr, dtype: DType) -> Expr:
        return arg if arg.dtype is dtype else Cast(arg, dtype, self.where)

    def index(self, kind: IndexKind, axis: int, buffer: str = "") -> Expr:
        return Index(kind, axis, buffer, self.index_dtype, self.where)

    def load(self, buffer: str, indices: Sequence[Expr], *, checked: bool = False) -> Expr:
        return Load(buffer, tuple(indices), self._element(buffer, indices), checked, self.where)

    def _element(self, buffer: str, indices: Sequence[Expr]) -> DType:
        dtype, rank = self._arrays[buffer]
        if len(indices) != rank:
            raise KernelCheckError(
                kernel=self.name, message=f"{buffer} has rank {rank}, indexed with {len(indices)}", where=self.where
            )
        for index in indices:
            if index.dtype is not self.index_dtype:
                raise DTypeError(what=f"index of {buffer}", actual=index.dtype, expected=self.index_dtype)
        return dtype

    # --- statements ---

    @property
    def here(self) -> list[Stmt]:
        """The statements of the innermost open block so far."""
        return self._blocks[-1]

    def emit(self, stmt: Stmt) -> None:
        self._blocks[-1].append(stmt)

    def let(self, value: Expr, hint: str = "t") -> Var:
        """Bind a value to a new local; constants and locals that never change need none."""
        name = self.fresh(hint)
        self.emit(Let(name, value, self.where))
        return Var(name, value.dtype, self.where)

    def collective(self, op: CollectiveOp, arg: Expr, hint: str = "t") -> Var:
        return self.let(Collective(op, arg, arg.dtype, self.where), hint)

    def assign(self, var: Var, value: Expr) -> None:
        if value.dtype is not var.dtype:
            raise DTypeError(what=f"value assigned to {var.name}", actual=value.dtype, expected=var.dtype)
        self.emit(Assign(var.name, value, self.where))

    def store(self, buffer: str, indices: Sequence[Expr], value: Expr, *, checked: bool = False) -> None:
        dtype = self._element(buffer, indices)
        if value.dtype is not dtype:
            raise DTypeError(what=f"value stored to {buffer}", actual=value.dtype, expected=dtype)
        self.emit(Store(buffer, tuple(indices), value, checked, self.where))

    def atomic(
        self,
        op: AtomicOp,
        buffer: str,
        indices: Sequence[Expr],
        value: Expr,
        *,
        compare: Expr | None = None,
        hint: str = "old",
        checked: bool = False,
    ) -> Var:
        """A read-modify-write; returns the local that holds the old value."""
        dtype = self._element(buffer, indices)
        name = self.fresh(hint)
        self.emit(Atomic(op, buffer, tuple(indices), value, compare, name, checked, self.where))
        return Var(name, dtype, self.where)

    def alloc(self, name: str, dtype: DType, shape: Sequence[int], space: Space) -> str:
        name = self.fresh(name)
        self._arrays[name] = dtype, len(shape)
        self._blocks[0].append(Alloc(name, dtype, tuple(shape), space, self.where))  # no branch or loop may have one
        return name

    def barrier(self) -> None:
        self.emit(Barrier(self.where))

    def assertion(
        self, condition: Expr, message: str, *, index: Expr | None = None, axis: int = 0, extent: int = 0
    ) -> None:
        self.emit(Assert(condition, message, index, axis, extent, self.where))

    def break_(self) -> None:
        self.emit(Break(self.where))

    def continue_(self) -> None:
        self.emit(Continue(self.where))

    def return_(self) -> None:
        self.emit(Return(self.where))

    @contextmanager
    def block(self) -> Generator[list[Stmt]]:
        """Collect the statements made inside into a list of their own."""
        collected: list[Stmt] = []
        self._blocks.append(collected)
        try:
            yield collected
        finally:
            self._blocks.pop()

    @contextmanager
    def if_(self, condition: Expr) -> Generator[None]:
        with self.block() as then:
            yield
        self.emit(If(condition, tuple(then), (), self.where))

    @contextmanager
    def for_(self, start: Expr, stop: Expr, step: int = 1, *, hint: str = "i", unroll: bool = False) -> Generator[Var]:
        var = Var(self.fresh(hint), start.dtype, self.where)
        with self.block() as body:
            yield var
        self.emit(For(var.name, start, stop, step, tuple(body), unroll, self.where))

    @contextmanager
    def while_(self, condition: Expr) -> Generator[None]:
        with self.block() as body:
            yield
        self.emit(While(condition, tuple(body), self.where))

    def finish(self) -> Kernel:
        """The kernel so far; `check.check` says whether it is valid."""
        (body,) = self._blocks
        return Kernel(
            self.name, tuple(self._params), tuple(body), self.workgroup, self.threads, self.index_dtype, self.where
        )
