"""Statements and expressions of one thread as LLVM IR: real branches, locals in registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from poot.dtypes import DType, bool_, i64
from poot.kernel.faults import given
from poot.kernel.ir import (
    Alloc,
    Assert,
    Assign,
    Atomic,
    Barrier,
    Break,
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
    Return,
    Stmt,
    Store,
    Var,
    While,
    site_numbers,
)
from poot.kernel.render.gpu_collectives import Collectives
from poot.kernel.render.gpu_faults import Faults
from poot.kernel.render.gpu_memory import Memory, address, atomic, load, store
from poot.kernel.render.llvm_casts import cast
from poot.kernel.render.llvm_emit import REGISTER, Emitter, Value, constant, zero
from poot.kernel.render.llvm_ops import operation


@dataclass(frozen=True, slots=True)
class Cell:
    """A local that changes: a stack slot that LLVM turns into registers."""

    pointer: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class _Loop:
    """Where the innermost loop's exits go."""

    again: str
    done: str


class Body:
    """Writes the statements of a kernel; `end` is the label behind it, `assigned` the locals that change."""

    def __init__(
        self,
        e: Emitter,
        kernel: Kernel,
        collectives: Collectives,
        arrays: Mapping[str, Memory],
        numbers: Mapping[tuple[str, int], Value],
        scalars: Mapping[str, Value],
        assigned: frozenset[str],
        end: str,
    ) -> None:
        self.e = e
        self.arrays = arrays
        self.numbers = numbers
        self.locals: dict[str, Value | Cell] = dict(scalars)
        self.faults = Faults(e, numbers["fault", 0].text, numbers["launch", 0].text, site_numbers(kernel))
        self.collectives = collectives
        self._assigned = assigned
        self._end = end
        self._loops: list[_Loop] = []
        self._statements: dict[type, Callable[..., None]] = {
            Let: self._let,
            Assign: self._assign,
            Store: self._store,
            Atomic: self._atomic,
            If: self._if,
            For: self._for,
            While: self._while,
            Break: self._leave,
            Continue: self._leave,
            Return: self._leave,
            Barrier: self._barrier,
            Assert: self._assert,
            Alloc: self._alloc,
        }
        self._expressions: dict[type, Callable[..., Value]] = {
            Const: self._const,
            Var: self._var,
            Op: self._op,
            Load: self._load,
            Cast: self._cast,
            Index: self._index,
            Collective: self._collective,
        }

    @property
    def globals(self) -> list[str]:
        """Shared memory that collectives need, as definitions."""
        return self.collectives.globals

    # --- statements ---

    def block(self, stmts: tuple[Stmt, ...]) -> None:
        """Write statements in turn; nothing after a jump can be reached."""
        with self.e.scope():
            for stmt in stmts:
                self.e.note(stmt.where)
                self._statements[type(stmt)](stmt)
                if not self.e.open:
                    return

    def _leave(self, stmt: Break | Continue | Return) -> None:
        match stmt:
            case Break():
                self.e.jump(self._loops[-1].done)
            case Continue():
                self.e.jump(self._loops[-1].again)
            case Return():
                self.e.jump(self._end)

    def _barrier(self, stmt: Barrier) -> None:
        self.collectives.barrier()

    def _alloc(self, stmt: Alloc) -> None:
        """Arrays are laid out before the body begins."""

    def _let(self, stmt: Let) -> None:
        value = self.expr(stmt.value)
        if stmt.name in self._assigned:
            cell = Cell(self.e.cell(REGISTER[value.dtype]), value.dtype)
            self.locals[stmt.name] = cell
            self._write(cell, value)
        else:
            self.locals[stmt.name] = value

    def _assign(self, stmt: Assign) -> None:
        cell = self.locals[stmt.name]
        assert isinstance(cell, Cell)
        self._write(cell, self.expr(stmt.value))

    def _write(self, cell: Cell, value: Value) -> None:
        self.e.do(f"store {REGISTER[cell.dtype]} {value.text}, {self.e.stack_pointer} {cell.pointer}")

    def _assert(self, stmt: Assert) -> None:
        condition = self.expr(stmt.condition)
        failed, held = self.e.name("failed"), self.e.name("held")
        self.e.branch(self.e.emit(f"xor i1 {condition.text}, true"), failed, held, rare=True)
        self.e.label(failed)
        with self.e.scope():
            index = [] if stmt.index is None else [self.expr(stmt.index)]
            self.faults.report(stmt, index, [constant(stmt.extent, i64)], stmt.axis)
        self.e.label(held)

    def _if(self, stmt: If) -> None:
        e = self.e
        condition = self.expr(stmt.condition)
        then, orelse, joined = e.name("then"), e.name("else"), e.name("joined")
        e.branch(condition.text, then, orelse if stmt.orelse else joined)
        e.label(then)
        self.block(stmt.then)
        e.jump(joined)
        if stmt.orelse:
            e.label(orelse)
            self.block(stmt.orelse)
        e.label(joined)

    def _while(self, stmt: While) -> None:
        e = self.e
        loop = _Loop(e.name("while"), e.name("done"))
        body = e.name("turn")
        e.label(loop.again)
        with e.scope():
            condition = self.expr(stmt.condition)
            e.branch(condition.text, body, loop.done)
            e.label(body)
            self._turn(stmt.body, loop)
            e.jump(loop.again)
        e.label(loop.done)

    def _turn(self, body: tuple[Stmt, ...], loop: _Loop) -> None:
        self._loops.append(loop)
        self.block(body)
        self._loops.pop()

    def _for(self, stmt: For) -> None:
        """Counts in the range's own dtype; the distance left says whether there is a next turn, so nothing wraps."""
        e, dtype, step = self.e, stmt.start.dtype, stmt.step
        start, stop = self.expr(stmt.start), self.expr(stmt.stop)
        t, sign = REGISTER[dtype], "s" if dtype.kind == "int" else "u"
        loop = _Loop(e.name("next"), e.name("done"))
        turn, count = e.name("turn"), f"%{e.name('count')}"
        some = e.emit(f"icmp {sign}{'lt' if step > 0 else 'gt'} {t} {start.text}, {stop.text}")
        before, after = e.block, f"%{e.name('after')}"
        e.branch(some, turn, loop.done)
        e.label(turn)
        with e.scope():
            e.do(f"{count} = phi {t} [ {start.text}, %{before} ], [ {after}, %{loop.again} ]")
            self.locals[stmt.var] = Value(count, dtype, low=_low(start, stop, step), high=_high(start, stop, step))
            self._turn(stmt.body, loop)
            e.label(loop.again)
            distance = f"{stop.text}, {count}" if step > 0 else f"{count}, {stop.text}"
            more, fits = self._more(stop, step, distance)
            e.do(f"{after} = add {'nsw ' if fits and sign == 's' else ''}{t} {count}, {step}")
            again = more or e.emit(f"icmp {sign}{'lt' if step > 0 else 'gt'} {t} {after}, {stop.text}")
            e.branch(again, turn, loop.done)
        e.label(loop.done)

    def _more(self, stop: Value, step: int, distance: str) -> tuple[str, bool]:
        """Whether a turn follows, as an i1, or "" where the next number itself says it; and whether it cannot wrap."""
        dtype, end, t = stop.dtype, stop.constant, REGISTER[stop.dtype]
        if step in (1, -1) or (end is not None and dtype.min <= end + step <= dtype.max):
            return "", True
        left = self.e.emit(f"sub {t} {distance}")
        return self.e.emit(f"icmp ugt {t} {left}, {abs(step)}"), False

    def _store(self, stmt: Store) -> None:
        array = self.arrays[stmt.buffer]
        indices = [self.expr(index) for index in stmt.indices]
        value = self.expr(stmt.value)
        self._guarded(stmt, array, indices, lambda: store(self.e, array, address(self.e, array, indices), value))

    def _named(self, node: Load | Store | Atomic, indices: list[Value]) -> list[Value]:
        """The indices of an access as they were before they were held to the range of the index dtype."""
        written = zip(map(given, node.indices), indices, strict=True)
        return [index if wide is None else self.expr(wide) for wide, index in written]

    def _guarded(self, stmt: Store, array: Memory, indices: list[Value], write: Callable[[], None]) -> None:
        e = self.e
        inside = self.faults.inside(array, indices) if stmt.checked else ""
        if not inside:
            write()
            return
        usual, rare, joined = e.name("inside"), e.name("outside"), e.name("stored")
        e.branch(inside, usual, rare)
        e.label(usual)
        with e.scope():
            write()
        e.jump(joined)
        e.label(rare)
        with e.scope():
            self.faults.report(stmt, self._named(stmt, indices), array.extents)
        e.label(joined)

    def _atomic(self, stmt: Atomic) -> None:
        array = self.arrays[stmt.buffer]
        indices = [self.expr(index) for index in stmt.indices]
        expected = None if stmt.compare is None else self.expr(stmt.compare)
        value = self.expr(stmt.value)

        def update() -> Value:
            return atomic(self.e, stmt, array, address(self.e, array, indices), value, expected)

        old = self._read(stmt, array, indices, update)
        if stmt.result is None:
            return
        if stmt.result in self._assigned:
            cell = self.locals[stmt.result] = Cell(self.e.cell(REGISTER[old.dtype]), old.dtype)
            self._write(cell, old)
        else:
            self.locals[stmt.result] = old

    # --- expressions ---

    def expr(self, expr: Expr) -> Value:
        """The operand that holds an expression's value."""
        return self._expressions[type(expr)](expr)

    def _const(self, expr: Const) -> Value:
        return constant(expr.value, expr.dtype)

    def _op(self, expr: Op) -> Value:
        return operation(self.e, expr, self.expr)

    def _cast(self, expr: Cast) -> Value:
        return cast(self.e, self.expr(expr.arg), expr.dtype)

    def _collective(self, expr: Collective) -> Value:
        return self.collectives(expr, self.expr(expr.arg), looping=bool(self._loops))

    def _var(self, expr: Var) -> Value:
        local = self.locals[expr.name]
        if isinstance(local, Value):
            return local
        t = REGISTER[local.dtype]
        return Value(self.e.emit(f"load {t}, {self.e.stack_pointer} {local.pointer}"), local.dtype)

    def _index(self, expr: Index) -> Value:
        if expr.kind == "extent":
            return self.arrays[expr.buffer].extents[expr.axis]
        if expr.kind == "stride":
            stride = self.arrays[expr.buffer].strides[expr.axis]
            return constant(stride, expr.dtype) if isinstance(stride, int) else Value(stride, expr.dtype)
        return self.numbers[expr.kind, expr.axis]

    def _load(self, expr: Load) -> Value:
        array = self.arrays[expr.buffer]
        indices = [self.expr(index) for index in expr.indices]
        return self._read(expr, array, indices, lambda: load(self.e, array, address(self.e, array, indices)))

    def _read(self, node: Load | Atomic, array: Memory, indices: list[Value], get: Callable[[], Value]) -> Value:
        """What an access gives, 0 where its check fails."""
        e = self.e
        inside = self.faults.inside(array, indices) if node.checked else ""
        if not inside:
            return get()
        usual, rare, joined = e.name("inside"), e.name("outside"), e.name("loaded")
        e.branch(inside, usual, rare)
        e.label(usual)
        with e.scope():
            value = get()
        usual_end = e.block
        e.jump(joined)
        e.label(rare)
        with e.scope():
            self.faults.report(node, self._named(node, indices), array.extents)
        rare_end = e.block
        e.label(joined)
        t = REGISTER[array.dtype]
        none = "false" if array.dtype is bool_ else zero(t)
        text = e.emit(f"phi {t} [ {value.text}, %{usual_end} ], [ {none}, %{rare_end} ]")
        return Value(text, array.dtype)


def _low(start: Value, stop: Value, step: int) -> int | None:
    """The least number of a range, where both ends are bounded."""
    return _bound(start.low if step > 0 else stop.low, _either(start, stop), 0 if step > 0 else 1)


def _high(start: Value, stop: Value, step: int) -> int | None:
    return _bound(stop.high if step > 0 else start.high, _either(start, stop), -1 if step > 0 else 0)


def _either(start: Value, stop: Value) -> bool:
    return None not in (start.low, start.high, stop.low, stop.high)


def _bound(end: int | None, known: bool, move: int) -> int | None:
    return end + move if known and end is not None else None
