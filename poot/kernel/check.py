"""The checker of kernel IR: types, declarations, access modes, flow, uniformity, and a target's limits.

Locals are visible from their declaration to the end of its block and in the blocks inside it, so that every renderer
may declare them where they stand.  Arrays are allocated at the top level of a kernel.
"""

from __future__ import annotations

from functools import cache
from typing import NoReturn

from poot.dtypes import DType, bool_, f32, f64, i32, i64, u32, u64
from poot.errors import DTypeError, KernelCheckError, PootError, SourceLocation
from poot.kernel import expand as expand  # the table is complete with its expansions
from poot.kernel import ops
from poot.kernel.check_group import check_group
from poot.kernel.check_target import check_target
from poot.kernel.ir import (
    Alloc,
    Assert,
    Assign,
    Atomic,
    Break,
    BufferParam,
    Cast,
    Collective,
    Const,
    Continue,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Op,
    Stmt,
    Store,
    Var,
    While,
    jumps,
)
from poot.target import Target

_ATOMIC_INTEGERS = (i32, u32, i64, u64)
_ATOMIC_DTYPES = {"add": (*_ATOMIC_INTEGERS, f32, f64), "exchange": (*_ATOMIC_INTEGERS, f32, f64)}
_LAUNCH_KINDS = ("thread", "local", "group", "group_size", "num_groups", "threads")


def check(kernel: Kernel, target: Target | None = None) -> None:
    """Raise KernelCheckError where a kernel is not valid, Unsupported where it is past what the target can do."""
    _Checker(kernel).kernel_()
    if target is not None:
        check_target(kernel, target)


def atomic_dtypes(op: str) -> tuple[DType, ...]:
    """The dtypes of elements that an atomic operation takes."""
    return _ATOMIC_DTYPES.get(op, _ATOMIC_INTEGERS)


@cache
def _result(name: str, args: tuple[DType, ...]) -> DType:
    return ops.result_dtype(name, args)


class _Checker:
    """One walk over one kernel; `visible` holds the locals in scope, `where` the innermost location seen."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.where = kernel.where
        self.arrays: dict[str, BufferParam | Alloc] = {}
        self.visible: dict[str, DType] = {}
        self.fixed: set[str] = set()
        self.names: set[str] = set()
        self.depth = 0
        self.loops = 0

    def fail(self, message: str, where: SourceLocation | None = None, remedy: str | None = None) -> NoReturn:
        raise KernelCheckError(kernel=self.kernel.name, message=message, where=where or self.where, remedy=remedy)

    # --- kernels ---

    def kernel_(self) -> None:
        kernel = self.kernel
        if kernel.index_dtype not in (i32, i64):
            self.fail(f"the index dtype is {kernel.index_dtype}, expected i32 or i64")
        if len(kernel.workgroup) != 3 or min(kernel.workgroup) < 1:
            self.fail(f"the work-group is {kernel.workgroup}, expected three positive sizes")
        if kernel.threads is not None and (len(kernel.threads) != 3 or min(t or 0 for t in kernel.threads) < 0):
            self.fail(f"threads are {kernel.threads}, expected three sizes that are not negative")
        for param in kernel.params:
            self.declare(param.name)
            if isinstance(param, BufferParam):
                self.buffer(param)
            else:
                self.visible[param.name] = param.dtype
                self.fixed.add(param.name)
        self.block(kernel.body)
        check_group(kernel)

    def buffer(self, param: BufferParam) -> None:
        self.arrays[param.name] = param
        if len(param.shape) != len(param.strides):
            self.fail(f"`{param.name}` has {len(param.shape)} extents and {len(param.strides)} strides")
        largest = self.kernel.index_dtype.max
        for extent in param.shape:
            if extent is not None and not 0 <= extent <= largest:
                self.fail(
                    f"an extent of `{param.name}` is {extent}, which {self.kernel.index_dtype} indices cannot hold"
                )

    def declare(self, name: str) -> None:
        if not name.isidentifier():
            self.fail(f"{name!r} is no name")
        if name in self.names:
            self.fail(f"`{name}` is declared twice")
        self.names.add(name)

    # --- statements ---

    def block(self, body: tuple[Stmt, ...], *, loop: bool = False, var: tuple[str, DType] | None = None) -> None:
        before = self.visible.copy()
        self.depth += 1
        self.loops += loop
        if var is not None:
            self.visible[var[0]] = var[1]
        for stmt in body:
            self.where = stmt.where or self.where
            self.stmt(stmt)
        self.loops -= loop
        self.depth -= 1
        self.visible = before

    def stmt(self, stmt: Stmt) -> None:
        match stmt:
            case Let() | Assign():
                self.binding(stmt)
            case Store():
                dtype = self.element(stmt.buffer, stmt.indices)
                self.access(stmt.buffer, write=True)
                self.expr(stmt.value)
                self.same(dtype, stmt.value.dtype, f"value stored to `{stmt.buffer}`")
            case Atomic():
                self.atomic(stmt)
            case If():
                self.condition(stmt.condition, "if")
                self.block(stmt.then)
                self.block(stmt.orelse)
            case For():
                self.counted(stmt)
            case While():
                self.condition(stmt.condition, "while")
                self.block(stmt.body, loop=True)
            case Assert():
                self.condition(stmt.condition, "assert")
                if stmt.index is not None:
                    self.noted(stmt.index)
            case Alloc():
                self.alloc(stmt)
            case Break() | Continue():
                if not self.loops:
                    self.fail(f"{'break' if isinstance(stmt, Break) else 'continue'} outside a loop")
            case _:
                pass

    def noted(self, index: Expr) -> None:
        """An index that a fault record is to keep."""
        self.expr(index)
        if index.dtype not in (i32, i64):
            self.fail(f"the index of an assert is {index.dtype}, not i32 or i64")

    def binding(self, stmt: Let | Assign) -> None:
        value = stmt.value
        if isinstance(value, Collective):
            self.collective(value)
        else:
            self.expr(value)
        if isinstance(stmt, Let):
            self.declare(stmt.name)
            self.visible[stmt.name] = value.dtype
            return
        self.expr(Var(stmt.name, self.visible.get(stmt.name, value.dtype)))
        if stmt.name in self.fixed:
            self.fail(f"`{stmt.name}` is a parameter or loop variable and cannot be assigned", remedy="use a new name.")
        self.same(self.visible[stmt.name], value.dtype, f"value assigned to `{stmt.name}`")

    def counted(self, stmt: For) -> None:
        self.expr(stmt.start)
        self.expr(stmt.stop)
        dtype = stmt.start.dtype
        if not dtype.is_integer:
            self.fail(f"a range counts in {dtype}, expected an integer dtype")
        self.same(dtype, stmt.stop.dtype, "the end of a range")
        if stmt.step == 0 or not dtype.min <= stmt.step <= dtype.max:
            self.fail(f"the step of a range is {stmt.step}, expected a {dtype} other than 0")
        if stmt.unroll and jumps(stmt.body):
            self.fail(
                "break or continue in a loop that is to be unrolled",
                remedy="use an ordinary range, or an `if` around the rest.",
            )
        self.declare(stmt.var)
        self.fixed.add(stmt.var)
        self.block(stmt.body, loop=True, var=(stmt.var, dtype))

    def atomic(self, stmt: Atomic) -> None:
        dtype = self.element(stmt.buffer, stmt.indices)
        array = self.arrays[stmt.buffer]
        if isinstance(array, Alloc) and array.space == "private":
            self.fail(f"atomic operation on `{array.name}`, which is private to its thread")
        if isinstance(array, BufferParam) and array.access != "readwrite":
            what = "an input" if array.access == "read" else "an output"
            remedy = "declare it InOut: an atomic reads and writes."
            self.fail(f"atomic operation on `{array.name}`, which is {what}", remedy=remedy)
        allowed = atomic_dtypes(stmt.op)
        if dtype not in allowed:
            known = ", ".join(d.name for d in allowed)
            remedy = "declare the array as one of them."
            if dtype is f32 and stmt.op in ("min", "max"):
                remedy = (
                    "declare the array as i32, and keep the bits of floats that are not negative, which are in the "
                    f"same order: `poot.atomic_{stmt.op}({array.name}, i, poot.bitcast(value, i32))`."
                )
            self.fail(f"atomic {stmt.op} on {dtype}, expected one of {known}", remedy=remedy)
        if (stmt.compare is not None) != (stmt.op == "compare_exchange"):
            self.fail(f"atomic {stmt.op} {'without' if stmt.compare is None else 'with'} a value to compare")
        for value in (stmt.value,) if stmt.compare is None else (stmt.compare, stmt.value):
            self.expr(value)
            self.same(dtype, value.dtype, f"value of an atomic on `{stmt.buffer}`")
        if stmt.result is not None:
            self.declare(stmt.result)
            self.visible[stmt.result] = dtype

    def alloc(self, stmt: Alloc) -> None:
        if self.depth > 1:
            self.fail(f"`{stmt.name}` is allocated inside a branch or loop", remedy="allocate it before.")
        if any(extent < 1 for extent in stmt.shape):
            self.fail(f"`{stmt.name}` has the shape {stmt.shape}, expected positive extents")
        self.declare(stmt.name)
        self.arrays[stmt.name] = stmt

    def condition(self, expr: Expr, what: str) -> None:
        self.expr(expr)
        self.same(bool_, expr.dtype, f"condition of `{what}`")

    # --- expressions ---

    def same(self, expected: DType, actual: DType, what: str) -> None:
        if expected is not actual:
            self.fail(f"{what} is {actual}, expected {expected}", remedy=f"cast it to {expected}.")

    def expr(self, expr: Expr) -> None:
        match expr:
            case Var():
                self.var(expr)
            case Const():
                self.const(expr)
            case Op():
                for arg in expr.args:
                    self.expr(arg)
                self.op(expr)
            case Load():
                dtype = self.element(expr.buffer, expr.indices, expr.where)
                self.access(expr.buffer, write=False, where=expr.where)
                if dtype is not expr.dtype:
                    self.fail(f"`{expr.buffer}` holds {dtype}, read as {expr.dtype}", expr.where)
            case Cast():
                self.expr(expr.arg)
            case Index():
                self.index(expr)
            case Collective():
                self.fail(
                    f"group_{expr.op} inside a larger expression",
                    expr.where,
                    "give its result a name on a line of its own.",
                )

    def var(self, var: Var) -> None:
        dtype = self.visible.get(var.name)
        if dtype is None:
            if var.name in self.names and var.name not in self.arrays:
                self.fail(
                    f"`{var.name}` is used where not every path has given it a value",
                    var.where,
                    "give it a value before the branch or loop.",
                )
            what = "is an array, used as a value" if var.name in self.arrays else "is used before it has a value"
            self.fail(f"`{var.name}` {what}", var.where)
        if dtype is not var.dtype:
            self.fail(f"`{var.name}` is {dtype}, used as {var.dtype}", var.where)

    def const(self, const: Const) -> None:
        value, dtype = const.value, const.dtype
        if dtype.is_float:
            if not isinstance(value, float) or not (value != value or float(dtype.dtype.type(value)) == value):
                self.fail(f"the literal {value!r} is no {dtype}", const.where)
        elif dtype is bool_:
            if not isinstance(value, bool):
                self.fail(f"the literal {value!r} is no bool", const.where)
        elif isinstance(value, (bool, float)) or not dtype.min <= value <= dtype.max:
            self.fail(f"the literal {value!r} is no {dtype}", const.where)

    def op(self, op: Op) -> None:
        try:
            dtype = _result(op.name, tuple(arg.dtype for arg in op.args))
        except PootError as error:
            fields = error.fields
            what = f"{fields['what']}: {fields['actual']}, expected {fields['expected']}"
            remedy = "cast the operands to one dtype." if isinstance(error, DTypeError) else None
            self.fail(what, op.where, remedy)
        if op.name == "bitcast":
            if op.dtype is bool_ and dtype is not bool_:
                self.fail(f"bitcast of {dtype} to bool, expected a number", op.where)
            if dtype.bits != op.dtype.bits:
                self.fail(f"bitcast of {dtype} to {op.dtype}, expected a dtype of {dtype.bits} bits", op.where)
        else:
            self.same(dtype, op.dtype, f"result of {op.name}")

    def index(self, index: Index) -> None:
        if index.dtype is not self.kernel.index_dtype:
            self.fail(f"{index.kind} number of {index.dtype}, expected {self.kernel.index_dtype}", index.where)
        if index.kind in _LAUNCH_KINDS:
            if not 0 <= index.axis < 3:
                self.fail(f"axis {index.axis} of a {index.kind} number, expected 0, 1 or 2", index.where)
            if index.kind == "threads" and self.kernel.threads is None:
                self.fail("the number of threads, in a kernel that is launched by groups", index.where)
            return
        array = self.arrays.get(index.buffer)
        if not isinstance(array, BufferParam):
            self.fail(f"{index.kind} of `{index.buffer}`, which is no buffer parameter", index.where)
        if not 0 <= index.axis < array.rank:
            self.fail(f"axis {index.axis} of `{index.buffer}`, which has rank {array.rank}", index.where)

    def element(self, name: str, indices: tuple[Expr, ...], where: SourceLocation | None = None) -> DType:
        array = self.arrays.get(name)
        if array is None:
            self.fail(f"`{name}` is no array of this kernel", where)
        if len(indices) != len(array.shape):
            self.fail(f"`{name}` has rank {len(array.shape)}, indexed with {len(indices)}", where)
        for axis, index in enumerate(indices):
            self.expr(index)
            if index.dtype is not self.kernel.index_dtype:
                self.fail(
                    f"index {axis} of `{name}` is {index.dtype}, expected {self.kernel.index_dtype}",
                    index.where or where,
                    f"cast it to {self.kernel.index_dtype}.",
                )
        return array.dtype

    def access(self, name: str, *, write: bool, where: SourceLocation | None = None) -> None:
        array = self.arrays[name]
        if isinstance(array, BufferParam):
            if write and array.access == "read":
                self.fail(f"`{name}` is an input and cannot be written", where, "declare it Out or InOut.")
            if not write and array.access == "write":
                self.fail(f"`{name}` is an output and cannot be read", where, "declare it InOut.")

    def collective(self, collective: Collective) -> None:
        self.expr(collective.arg)
        dtype = collective.arg.dtype
        if (collective.op in ("any", "all")) != (dtype is bool_):
            expected = "bool" if collective.op in ("any", "all") else "a number"
            self.fail(f"group_{collective.op} of {dtype}, expected {expected}", collective.where)
        self.same(dtype, collective.dtype, f"result of group_{collective.op}")
