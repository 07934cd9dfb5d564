"""Expressions and memory statements of one body: locals, numbers of the launch, checked loads, stores and atomics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from poot.dtypes import DType
from poot.kernel.faults import given
from poot.kernel.ir import Atomic, Cast, Const, Expr, Index, Load, Op, Store, Var
from poot.kernel.render.llvm_atomics import atomic
from poot.kernel.render.llvm_casts import cast
from poot.kernel.render.llvm_emit import REGISTER, Emitter, Value, constant, zero
from poot.kernel.render.llvm_faults import Bounds, Faults
from poot.kernel.render.llvm_memory import Array, address, load, store
from poot.kernel.render.llvm_ops import operation
from poot.kernel.uniform import LaneForm


@dataclass(frozen=True, slots=True)
class Cell:
    """A local that changes: a stack slot that LLVM turns into registers.  `home` is the mask at its declaration."""

    pointer: str
    dtype: DType
    form: LaneForm
    home: str | None


Local = Value | Cell


class Expressions:
    """Evaluates expressions; `numbers` are the launch's by kind and axis, `arrays` and `locals` by name."""

    def __init__(
        self,
        e: Emitter,
        faults: Faults,
        arrays: Mapping[str, Array],
        numbers: Mapping[tuple[str, int], Value],
        scalars: Mapping[str, Value],
    ) -> None:
        self.e = e
        self.faults = faults
        self.arrays: dict[str, Array] = dict(arrays)
        self.numbers = dict(numbers)
        self.locals: dict[str, Local] = dict(scalars)
        self._dispatch: dict[type, Callable[..., Value]] = {
            Const: self._const,
            Var: self._var,
            Op: self._op,
            Load: self._load,
            Cast: self._cast,
            Index: self._index,
        }

    def __call__(self, expr: Expr) -> Value:
        return self._dispatch[type(expr)](expr)

    def _const(self, expr: Const) -> Value:
        return constant(expr.value, expr.dtype)

    def _op(self, expr: Op) -> Value:
        return operation(self.e, expr, self)

    def _cast(self, expr: Cast) -> Value:
        return cast(self.e, self(expr.arg), expr.dtype)

    def _index(self, expr: Index) -> Value:
        if expr.kind == "extent":
            return self.arrays[expr.buffer].extents[expr.axis]
        if expr.kind == "stride":
            return self._stride(expr)
        return self.numbers[expr.kind, expr.axis]

    def _stride(self, expr: Index) -> Value:
        stride = self.arrays[expr.buffer].strides[expr.axis]
        if isinstance(stride, int):
            return constant(stride, expr.dtype)
        t = REGISTER[expr.dtype]
        return Value(stride if t == "i64" else self.e.emit(f"trunc i64 {stride} to {t}"), expr.dtype)

    # --- locals ---

    def _var(self, expr: Var) -> Value:
        local = self.locals[expr.name]
        return self.read(local) if isinstance(local, Cell) else local

    def read(self, cell: Cell) -> Value:
        t = (self.e.register if cell.form is None else REGISTER)[cell.dtype]
        return Value(self.e.emit(f"load {t}, ptr {cell.pointer}"), cell.dtype, cell.form)

    def declare(self, name: str, dtype: DType, form: LaneForm) -> Cell:
        """A cell for a local, not yet given a value."""
        t = (self.e.register if form is None else REGISTER)[dtype]
        cell = Cell(self.e.cell(t), dtype, form, self.e.mask)
        self.locals[name] = cell
        return cell

    def _result(self, name: str, dtype: DType, form: LaneForm) -> Cell:
        slot = self.locals.get(name)
        return slot if isinstance(slot, Cell) else self.declare(name, dtype, form)

    def write(self, cell: Cell, value: Value) -> None:
        """Give a cell a new value where lanes are active; the others keep theirs if they still may read it."""
        e = self.e
        if cell.form is not None:
            e.do(f"store {REGISTER[cell.dtype]} {self.scalar(value)}, ptr {cell.pointer}")
            return
        t, text = e.register[cell.dtype], e.vector(value)
        if e.mask is not None and e.mask != cell.home:
            old = e.emit(f"load {t}, ptr {cell.pointer}")
            text = e.emit(f"select {e.mask_type} {e.mask}, {t} {text}, {t} {old}")
        e.do(f"store {t} {text}, ptr {cell.pointer}")

    def scalar(self, value: Value) -> str:
        """The operand of a value that is known to be the same for all active lanes, or affine."""
        if value.form is not None:
            return value.text
        lane = self.e.first_lane(self.e.mask) if self.e.mask is not None else "0"
        return self.e.lane(value.text, self.e.register[value.dtype], lane)

    def condition(self, expr: Expr) -> str:
        """A uniform condition as an i1."""
        return self.scalar(self(expr))

    # --- memory ---

    def _load(self, expr: Load) -> Value:
        e, array = self.e, self.arrays[expr.buffer]
        indices = [self(index) for index in expr.indices]
        bounds = self.faults.bounds(array, indices) if expr.checked else None
        if bounds is None:
            return load(e, array, address(e, array, indices), e.mask)
        if bounds.vector and not bounds.whole:
            self._report(expr, bounds, array, indices)
            return load(e, array, address(e, array, indices, spread=True), e.both(e.mask, self.faults.inside(bounds)))
        rare, usual, joined = e.name("outside"), e.name("inside"), e.name("loaded")
        e.branch(bounds.bad, rare, usual, rare=True)
        e.label(usual)
        with e.scope():
            value = load(e, array, address(e, array, indices, spread=bounds.vector), e.mask)
            t, usual_end = e.type(value), e.block
            e.jump(joined)
        e.label(rare)
        with e.scope():
            self._note(expr, bounds, array, indices)
            rest = zero(t)
            if bounds.vector:
                rest = load(e, array, address(e, array, indices, spread=True), self.faults.inside(bounds)).text
            rare_end = e.block
        e.label(joined)
        return Value(e.emit(f"phi {t} [ {value.text}, %{usual_end} ], [ {rest}, %{rare_end} ]"), expr.dtype, value.form)

    def _note(self, node: Load | Store | Atomic, bounds: Bounds, array: Array, indices: list[Value]) -> None:
        """Record a fault, of the indices as they were before they were held to the range of the index dtype."""
        written = zip(map(given, node.indices), indices, strict=True)
        named = [index if wide is None else self(wide) for wide, index in written]
        self.faults.report(node, self.faults.failed(bounds), named, array.extents)

    def _report(self, node: Load | Store | Atomic, bounds: Bounds, array: Array, indices: list[Value]) -> None:
        """Record a fault if a lane is outside, and go on."""
        e = self.e
        rare, usual = e.name("outside"), e.name("inside")
        e.branch(bounds.bad, rare, usual, rare=True)
        e.label(rare)
        with e.scope():
            self._note(node, bounds, array, indices)
        e.label(usual)

    def store(self, stmt: Store) -> None:
        e, array = self.e, self.arrays[stmt.buffer]
        indices = [self(index) for index in stmt.indices]
        value = self(stmt.value)
        bounds = self.faults.bounds(array, indices) if stmt.checked else None
        if bounds is None:
            store(e, array, address(e, array, indices), value, e.mask)
            return
        if bounds.vector and not bounds.whole:
            self._report(stmt, bounds, array, indices)
            mask = e.both(e.mask, self.faults.inside(bounds))
            store(e, array, address(e, array, indices, spread=True), value, mask)
            return
        rare, usual, joined = e.name("outside"), e.name("inside"), e.name("stored")
        e.branch(bounds.bad, rare, usual, rare=True)
        e.label(usual)
        with e.scope():
            store(e, array, address(e, array, indices, spread=bounds.vector), value, e.mask)
            e.jump(joined)
        e.label(rare)
        with e.scope():
            self._note(stmt, bounds, array, indices)
            if bounds.vector:
                where = address(e, array, indices, spread=True)
                store(e, array, where, value, self.faults.inside(bounds))
        e.label(joined)

    def atomic(self, stmt: Atomic, form: LaneForm) -> None:
        e, array = self.e, self.arrays[stmt.buffer]
        indices = [self(index) for index in stmt.indices]
        expected = None if stmt.compare is None else self(stmt.compare)
        value = self(stmt.value)
        cell = None if stmt.result is None else self._result(stmt.result, array.dtype, form)
        bounds = self.faults.bounds(array, indices) if stmt.checked else None
        mask, joined = e.mask, ""
        if bounds is not None:
            if cell is not None:
                self.write(cell, constant(0 if array.dtype.is_integer else 0.0, array.dtype))
            if bounds.vector:
                mask = e.both(mask, self.faults.inside(bounds))
            rare, usual, joined = e.name("outside"), e.name("inside"), e.name("done")
            e.branch(bounds.bad, rare, usual, rare=True)
            e.label(rare)
            with e.scope():
                self._note(stmt, bounds, array, indices)
            e.jump(usual if bounds.vector else joined)
            e.label(usual)
        with e.scope():
            old = atomic(e, stmt, array, address(e, array, indices), value, expected, mask)
            if cell is not None:
                self.write(cell, old)
        if joined:
            e.label(joined)
