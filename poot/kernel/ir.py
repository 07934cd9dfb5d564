# size: the grammar, its argument schema and its traversal belong together, on one page
"""The kernel IR: a small typed program that every thread of a grid runs.

The whole grammar stands on this page::

    kernel ::= Kernel(name, params, body, workgroup, threads, index_dtype)
    param  ::= BufferParam(name, dtype, access, shape, strides, align) | ScalarParam(name, dtype)

    stmt   ::= Let(name, value)                           declare a local, with its first value
             | Assign(name, value)                        change a local
             | Store(buffer, indices, value, checked)
             | Atomic(op, buffer, indices, value, compare, result, checked)
             | If(condition, then, orelse) | While(condition, body)
             | For(var, start, stop, step, body, unroll)  step is a non-zero constant
             | Break() | Continue() | Return()
             | Barrier()                                  the work-group waits; shared and global memory become visible
             | Assert(condition, message, index, axis, extent)
                                                          false: the first fault is recorded, the thread goes on
             | Alloc(name, dtype, shape, space)           space is shared (one a work-group) or private (one a thread)

    expr   ::= Const(value, dtype) | Var(name, dtype)
             | Load(buffer, indices, dtype, checked)
             | Op(name, args, dtype)                      a row of the table in ops.py
             | Cast(arg, dtype)                           value conversion as docs/numerics.md says
             | Index(kind, axis, buffer, dtype)           thread, group, extent and stride numbers
             | Collective(op, arg, dtype)                 over the work-group; only as the whole value of Let or Assign

Meaning.  Integers wrap.  Floats are IEEE, rounded to nearest even after every `Op`; f16 and bf16 operations compute in
f32 and round once.  Where a program allows contraction, a product directly below a sum or difference (`contracted`) is
not rounded by itself.  `checked` accesses outside the extent of any axis yield 0 (a load), store nothing, and record a
fault; negative indices are outside.  Locals are function-scoped by unique name: a name is declared by exactly one Let,
For, Alloc or Atomic result.  `threads` bounds the grid: lanes at or past it never run the body; None means that the
launch names whole work-groups.  Every node may carry the user's source location; equality ignores it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeGuard

from typing_extensions import override

from poot.dtypes import DType, bool_, i32
from poot.errors import SourceLocation
from poot.records import record

Access = Literal["read", "write", "readwrite"]
Space = Literal["shared", "private"]
IndexKind = Literal["thread", "local", "group", "group_size", "num_groups", "threads", "extent", "stride"]
AtomicOp = Literal["add", "min", "max", "and", "or", "xor", "exchange", "compare_exchange"]
CollectiveOp = Literal["sum", "max", "min", "any", "all", "scan"]

_NOWHERE = field(default=None, compare=False, repr=False)


# --- expressions ----------------------------------------------------------------------------------------------------


@record(eq=False)
class Const:
    """A literal; two are equal only with the same bits, so that -0.0 and NaN keep their identity."""

    value: bool | int | float
    dtype: DType
    where: SourceLocation | None = field(default=None, repr=False)

    @property
    def key(self) -> tuple[str, bytes | int]:
        if self.dtype.is_float:
            return self.dtype.name, struct.pack("<d", self.value)
        return self.dtype.name, int(self.value)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and self.key == other.key

    @override
    def __hash__(self) -> int:
        return hash(self.key)


@record
class Var:
    """The value of a local or of a scalar parameter."""

    name: str
    dtype: DType
    where: SourceLocation | None = _NOWHERE


@record
class Load:
    """One element of a buffer parameter or allocated array, one index an axis."""

    buffer: str
    indices: tuple[Expr, ...]
    dtype: DType
    checked: bool = True
    where: SourceLocation | None = _NOWHERE


@record
class Op:
    """A scalar operation of the table in `ops.py`; operands have the dtypes that its row demands."""

    name: str
    args: tuple[Expr, ...]
    dtype: DType
    where: SourceLocation | None = _NOWHERE


@record
class Cast:
    """Value conversion: floats to integers saturate with NaN to 0, integers wrap, floats round to nearest even."""

    arg: Expr
    dtype: DType
    where: SourceLocation | None = _NOWHERE


@record
class Index:
    """A number of the launch (axis 0 is x) or of a buffer (its extent or element stride on an axis)."""

    kind: IndexKind
    axis: int
    buffer: str = ""
    dtype: DType = i32
    where: SourceLocation | None = _NOWHERE


@record
class Collective:
    """A reduction or inclusive sum scan (by linear local index) over the work-group, in uniform flow."""

    op: CollectiveOp
    arg: Expr
    dtype: DType
    where: SourceLocation | None = _NOWHERE


Expr: TypeAlias = Const | Var | Load | Op | Cast | Index | Collective


# --- statements -----------------------------------------------------------------------------------------------------


@record
class Let:
    """Declare a local of the value's dtype."""

    name: str
    value: Expr
    where: SourceLocation | None = _NOWHERE


@record
class Assign:
    """Give a declared local a new value of its dtype."""

    name: str
    value: Expr
    where: SourceLocation | None = _NOWHERE


@record
class Store:
    """Write one element."""

    buffer: str
    indices: tuple[Expr, ...]
    value: Expr
    checked: bool = True
    where: SourceLocation | None = _NOWHERE


@record
class Atomic:
    """A relaxed read-modify-write of one element; `result` names a local that receives the old value."""

    op: AtomicOp
    buffer: str
    indices: tuple[Expr, ...]
    value: Expr
    compare: Expr | None = None
    result: str | None = None
    checked: bool = True
    where: SourceLocation | None = _NOWHERE


@record
class If:
    condition: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()
    where: SourceLocation | None = _NOWHERE


@record
class For:
    """`for var in range(start, stop, step)`; bounds are read once; `unroll` writes every turn out (constant bounds)."""

    var: str
    start: Expr
    stop: Expr
    step: int
    body: tuple[Stmt, ...]
    unroll: bool = False
    where: SourceLocation | None = _NOWHERE


@dataclass(frozen=True, slots=True)
class While:
    """The condition is evaluated anew before every turn."""

    condition: Expr
    body: tuple[Stmt, ...]
    where: SourceLocation | None = _NOWHERE


@dataclass(frozen=True, slots=True)
class Break:
    where: SourceLocation | None = _NOWHERE


@dataclass(frozen=True, slots=True)
class Continue:
    where: SourceLocation | None = _NOWHERE


@dataclass(frozen=True, slots=True)
class Return:
    where: SourceLocation | None = _NOWHERE


@dataclass(frozen=True, slots=True)
class Barrier:
    where: SourceLocation | None = _NOWHERE


@dataclass(frozen=True, slots=True)
class Assert:
    """`index`, `axis` and `extent` are what the record keeps, where the condition is about an index."""

    condition: Expr
    message: str
    index: Expr | None = None
    axis: int = 0
    extent: int = 0
    where: SourceLocation | None = _NOWHERE


@dataclass(frozen=True, slots=True)
class Alloc:
    """An array of constant shape; private arrays start undefined, and so do shared ones."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    space: Space
    where: SourceLocation | None = _NOWHERE


Stmt: TypeAlias = (
    Let | Assign | Store | Atomic | If | For | While | Break | Continue | Return | Barrier | Assert | Alloc
)


# --- kernels --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BufferParam:
    """A buffer: element dtype, access, and per axis an extent and an element stride, None where given at launch.

    `align` is a promise about the byte alignment of the first element.
    """

    name: str
    dtype: DType
    access: Access
    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    align: int = 1

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, slots=True)
class ScalarParam:
    name: str
    dtype: DType


Param: TypeAlias = BufferParam | ScalarParam


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel, specialised: dtypes, ranks, baked extents and the work-group are fixed."""

    name: str
    params: tuple[Param, ...]
    body: tuple[Stmt, ...]
    workgroup: tuple[int, int, int]
    threads: tuple[int | None, int | None, int | None] | None = None
    index_dtype: DType = i32
    where: SourceLocation | None = _NOWHERE

    @override
    def __str__(self) -> str:
        from poot.kernel.text import dump  # it writes these classes

        return dump(self)

    @property
    def buffers(self) -> tuple[BufferParam, ...]:
        return tuple(param for param in self.params if isinstance(param, BufferParam))

    @property
    def group_invocations(self) -> int:
        x, y, z = self.workgroup
        return x * y * z

    def param(self, name: str) -> Param:
        return next(param for param in self.params if param.name == name)


SlotKind = Literal["buffer", "scalar", "extent", "stride", "threads", "num_groups", "launch", "fault"]


@record
class Slot:
    """One argument of a compiled kernel, in order; every renderer and device follows `argument_slots`."""

    kind: SlotKind
    dtype: DType
    param: str = ""
    axis: int = 0


def argument_slots(kernel: Kernel) -> tuple[Slot, ...]:
    """The argument schema: each parameter with its run-time extents and strides, then the launch's own numbers.

    `threads` slots stand only for run-time axes of `kernel.threads`; `num_groups` always has three; `launch` is the
    number that a fault record keeps to name this launch; `fault` is the pointer to the record.
    """
    slots: list[Slot] = []
    for param in kernel.params:
        if isinstance(param, ScalarParam):
            slots.append(Slot("scalar", param.dtype, param.name))
            continue
        slots.append(Slot("buffer", param.dtype, param.name))
        slots += [Slot("extent", kernel.index_dtype, param.name, a) for a, e in enumerate(param.shape) if e is None]
        slots += [Slot("stride", kernel.index_dtype, param.name, a) for a, s in enumerate(param.strides) if s is None]
    if kernel.threads is not None:
        slots += [Slot("threads", kernel.index_dtype, axis=a) for a, t in enumerate(kernel.threads) if t is None]
    slots += [Slot("num_groups", kernel.index_dtype, axis=axis) for axis in range(3)]
    slots += [Slot("launch", i32), Slot("fault", i32)]
    return tuple(slots)


# --- faults ---------------------------------------------------------------------------------------------------------

#: Words (i32) of a fault record: claimed flag, launch number, site, axis, index (low, high), extent (low, high).
FAULT_WORDS = 8


@dataclass(frozen=True, slots=True)
class FaultSite:
    """What a site number of a fault record means: a checked access (`buffer`) or an assertion (`message`)."""

    buffer: str
    message: str
    where: SourceLocation | None
    indices: tuple[Expr, ...] = ()


def fault_sites(kernel: Kernel) -> tuple[FaultSite, ...]:
    """The sites of a kernel, numbered in the order of `walk`; renderers number them by `site_numbers`."""
    return tuple(
        FaultSite("", node.message, node.where)
        if isinstance(node, Assert)
        else FaultSite(node.buffer, "", node.where, node.indices)
        for node in _faulting(kernel)
    )


def site_numbers(kernel: Kernel) -> dict[int, int]:
    """Site number by `id` of the Load, Store, Atomic or Assert node (nodes shared by two places share a number)."""
    numbers: dict[int, int] = {}
    for number, node in enumerate(_faulting(kernel)):
        numbers.setdefault(id(node), number)
    return numbers


def _faulting(kernel: Kernel) -> list[Load | Store | Atomic | Assert]:
    return [node for node in walk(kernel.body) if may_fault(node)]


def may_fault(node: Node) -> TypeGuard[Load | Store | Atomic | Assert]:
    """Whether a node reports faults."""
    return isinstance(node, Assert) or (isinstance(node, (Load, Store, Atomic)) and node.checked)


# --- traversal ------------------------------------------------------------------------------------------------------

Node: TypeAlias = Expr | Stmt


def operands(node: Node) -> tuple[Expr, ...]:
    """The expressions directly below a node, in evaluation order."""
    match node:
        case Op():
            return node.args
        case Var() | Const() | Index():
            return ()
        case Load():
            return node.indices
        case Cast() | Collective():
            return (node.arg,)
        case Let() | Assign():
            return (node.value,)
        case Store():
            return (*node.indices, node.value)
        case Atomic():
            compare = () if node.compare is None else (node.compare,)
            return (*node.indices, *compare, node.value)
        case If() | While():
            return (node.condition,)
        case Assert():
            return (node.condition,) if node.index is None else (node.condition, node.index)
        case For():
            return (node.start, node.stop)
        case _:
            return ()


def blocks(stmt: Node) -> tuple[tuple[Stmt, ...], ...]:
    """The statement lists directly below a node."""
    match stmt:
        case If():
            return (stmt.then, stmt.orelse)
        case For() | While():
            return (stmt.body,)
        case _:
            return ()


def walk(body: tuple[Stmt, ...]) -> list[Node]:
    """Every statement and expression, parents before children, in program order."""
    found: list[Node] = []
    waiting: list[Node] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        found.append(node)
        if isinstance(node, Op):
            waiting += node.args[::-1]
        elif not isinstance(node, (Var, Const, Index)):
            for block in blocks(node)[::-1]:
                waiting += block[::-1]
            waiting += operands(node)[::-1]
    return found


def statements(body: tuple[Stmt, ...]) -> list[Stmt]:
    """Every statement, parents before children, in program order."""
    found: list[Stmt] = []
    waiting = list(reversed(body))
    while waiting:
        stmt = waiting.pop()
        found.append(stmt)
        if isinstance(stmt, (If, For, While)):
            for block in blocks(stmt)[::-1]:
                waiting += block[::-1]
    return found


def contracted(expr: Op) -> int | None:
    """Which operand of a sum or difference is a product that may be rounded together with it; None if neither is.

    Only a product that stands directly below is: one that has a name is a value of its own, rounded once, so that it is
    the same wherever it is read or computed again.
    """
    if expr.name not in ("add", "sub") or not expr.dtype.is_float:
        return None
    return next((n for n, arg in enumerate(expr.args) if isinstance(arg, Op) and arg.name == "mul"), None)


def jumps(body: tuple[Stmt, ...]) -> bool:
    """Whether a loop's body has a break or continue of that loop."""
    return any(
        isinstance(stmt, (Break, Continue)) or (isinstance(stmt, If) and (jumps(stmt.then) or jumps(stmt.orelse)))
        for stmt in body
    )


def is_const(expr: Expr, value: bool | int | float) -> bool:
    """Whether an expression is the literal `value`, bit for bit."""
    return isinstance(expr, Const) and expr == Const(value, expr.dtype)


TRUE = Const(True, bool_)
