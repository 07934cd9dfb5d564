"""Statements: branches and loops that are real where all lanes go the same way, and masks where they do not.

A statement runs under a mask of active lanes, of which at least one is set: code that no lane wants is branched
around, unless it is short and harmless.  A loop that lanes may leave one by one keeps the lanes still inside in a cell,
and those still in this turn in another; a masked `break`, `continue` or `return` takes lanes out, and what follows it
in the same block runs under what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd

from poot.kernel.ir import (
    Alloc,
    Assert,
    Assign,
    Atomic,
    Barrier,
    Break,
    Collective,
    Continue,
    Expr,
    For,
    If,
    Let,
    Load,
    Return,
    Stmt,
    Store,
    While,
    operands,
)
from poot.kernel.render.llvm_collectives import collective
from poot.kernel.render.llvm_emit import REGISTER, Emitter, Value, every
from poot.kernel.render.llvm_expr import Cell, Expressions
from poot.kernel.uniform import Affine, LaneForm, Uniformity

#: Expression nodes up to which a branch under a mask is simply run, harmlessly for the lanes that are not active.
_SHORT = 24


@dataclass(slots=True)
class Loop:
    """A loop being written: its labels, and the cells of the lanes still in the loop and in this turn.

    The cells of an `outer` loop outlive the code being written, which is one run of its body.
    """

    exit: str
    latch: str
    live: str | None
    turn: str | None
    outer: bool = False


class Flow:
    """Writes the statements of one body; `end` is the label behind it, `assigned` the locals that change."""

    def __init__(
        self, e: Emitter, values: Expressions, uniformity: Uniformity, assigned: frozenset[str], end: str
    ) -> None:
        self.e = e
        self.values = values
        self.uniformity = uniformity
        self._assigned = assigned
        self._end = end
        self._loops: list[Loop] = []
        self._live: str | None = None
        self._outlives = False
        self._exits = 0
        self._returns = 0
        self._line = -1
        self._dispatch: dict[type, Callable[..., None]] = {
            Let: self._let,
            Assign: self._assign,
            Store: values.store,
            Atomic: self._atomic,
            If: self._if,
            For: self._for,
            While: self._while,
            Break: self._break,
            Continue: self._continue,
            Return: self._return,
            Barrier: self._nothing,
            Assert: self._assert,
            Alloc: self._nothing,
        }

    def body(self, stmts: Sequence[Stmt]) -> None:
        """All statements of a body that lanes may leave by a masked return."""
        if self.uniformity.masked_exit(stmts, Return):
            self._live = self.e.cell(self.e.mask_type)
            self.e.do(f"store {self.e.mask_type} {self.e.active()}, ptr {self._live}")
        self.block(stmts)

    def inherit(self, live: str | None, loop: Loop | None) -> None:
        """Stand inside of a body, and a loop, whose masks live on after this code."""
        self._live = live
        self._outlives = live is not None
        self._loops += [] if loop is None else [loop]

    def block(self, stmts: Sequence[Stmt]) -> None:
        """Statements in order; after one that lanes may have left, the rest runs for those that are left."""
        e = self.e
        mask, after, depth = e.mask, "", 0
        for number, stmt in enumerate(stmts):
            exits = self._exits
            self.statement(stmt)
            if not e.open or isinstance(stmt, (Break, Continue, Return)):
                break
            if self._exits != exits and number + 1 < len(stmts):
                after = after or e.name("rest")
                e.mask = self._remaining()
                go = e.name("go")
                e.branch(e.any(e.mask), go, after)
                e.label(go)
                e.push()
                depth += 1
        for _ in range(depth):
            e.pop()
        if after:
            e.label(after)
        e.mask = mask

    def statement(self, stmt: Stmt) -> None:
        where = stmt.where
        if where is not None and where.line != self._line:
            self._line = where.line
            self.e.lines.append(f"  ; line {where.line}: {where.text.strip()}")
        self._dispatch[type(stmt)](stmt)

    def _nothing(self, stmt: Stmt) -> None:
        """A work-group that is one vector is always in step, and arrays are there from the start."""

    def _remaining(self) -> str:
        """The active lanes that have not left."""
        e = self.e
        cell = self._loops[-1].turn if self._loops else self._live
        left = e.emit(f"load {e.mask_type}, ptr {cell}")
        return e.both(e.mask, left) or left

    # --- locals ---

    def _value(self, expr: Expr) -> Value:
        if isinstance(expr, Collective):
            return collective(self.e, expr, self.values(expr.arg))
        return self.values(expr)

    def _let(self, stmt: Let) -> None:
        value = self._value(stmt.value)
        slot = self.values.locals.get(stmt.name)
        if isinstance(slot, Cell):
            self.values.write(slot, value)
        elif stmt.name in self._assigned:
            form = self.uniformity.local_form(stmt.name)
            self.values.write(self.values.declare(stmt.name, value.dtype, form), value)
        else:
            self.values.locals[stmt.name] = value

    def _assign(self, stmt: Assign) -> None:
        value = self._value(stmt.value)
        cell = self.values.locals[stmt.name]
        assert isinstance(cell, Cell)
        self.values.write(cell, value)

    def _atomic(self, stmt: Atomic) -> None:
        form = None if stmt.result is None else self.uniformity.local_form(stmt.result)
        self.values.atomic(stmt, form)

    def _assert(self, stmt: Assert) -> None:
        e, faults = self.e, self.values.faults
        condition = self.values(stmt.condition)
        if condition.uniform:
            failed, bad = "", e.emit(f"xor i1 {condition.text}, true")
        else:
            failed = e.without(e.vector(condition))
            bad = e.any(failed)
        rare, usual = e.name("failed"), e.name("held")
        e.branch(bad, rare, usual, rare=True)
        e.label(rare)
        with e.scope():
            faults.report(stmt, failed)
        e.label(usual)

    # --- branches ---

    def _if(self, stmt: If) -> None:
        if self.uniformity.is_uniform(stmt.condition):
            self._branch(stmt)
            return
        e = self.e
        outer = e.mask
        condition = e.vector(self.values(stmt.condition))
        sides = [(stmt.then, e.both(outer, condition)), (stmt.orelse, e.without(condition) if stmt.orelse else None)]
        for body, mask in sides:
            if not body:
                continue
            assert mask is not None
            e.mask = mask
            if self._size(body) < _SHORT:
                self.block(body)
            else:
                go, after = e.name("then"), e.name("after")
                e.branch(e.any(mask), go, after)
                e.label(go)
                with e.scope():
                    self.block(body)
                e.label(after)
            e.mask = outer

    def _size(self, stmts: Sequence[Stmt]) -> int:
        """The number of expression nodes, _SHORT or more where the statements need an active lane."""
        total = 0
        for stmt in stmts:
            if isinstance(stmt, If) and not self.uniformity.is_uniform(stmt.condition):
                total += self._size(stmt.then) + self._size(stmt.orelse)
            elif isinstance(stmt, Store):
                if stmt.checked or self._at_one_address(stmt):
                    return _SHORT
            elif not isinstance(stmt, (Let, Assign)):
                return _SHORT
            total += sum(map(self._expression_size, operands(stmt)))
            if total >= _SHORT:
                break
        return total

    def _expression_size(self, expr: Expr) -> int:
        if isinstance(expr, Load) and (expr.checked or self._at_one_address(expr)):
            return _SHORT
        return 1 + sum(map(self._expression_size, operands(expr)))

    def _at_one_address(self, access: Load | Store) -> bool:
        """A scalar access of memory that may not be there if no lane wants it."""
        if self.values.arrays[access.buffer].space == "private":
            return False
        return all(map(self.uniformity.is_uniform, access.indices))

    def _branch(self, stmt: If) -> None:
        e = self.e
        then, after = e.name("then"), e.name("after")
        orelse = e.name("else") if stmt.orelse else after
        e.branch(self.values.condition(stmt.condition), then, orelse)
        for label, body in ((then, stmt.then), (orelse, stmt.orelse)):
            if label != after:
                e.label(label)
                with e.scope():
                    self.block(body)
                e.jump(after)
        e.label(after)

    # --- loops ---

    def _enter(self, stmt: For | While) -> Loop:
        e = self.e
        masked = self.uniformity.masked_exit(stmt.body, Break, Continue, Return)
        live = e.cell(e.mask_type) if masked or self.uniformity.divergent_loop(stmt) else None
        loop = Loop(e.name("exit"), e.name("latch"), live, e.cell(e.mask_type) if masked else None)
        if live is not None:
            e.do(f"store {e.mask_type} {e.active()}, ptr {live}")
        return loop

    def _turn(self, loop: Loop, body: Sequence[Stmt]) -> None:
        """One turn under the current mask, up to the latch."""
        e = self.e
        if loop.turn is not None:
            e.do(f"store {e.mask_type} {e.active()}, ptr {loop.turn}")
        self._loops.append(loop)
        with e.scope():
            self.block(body)
        self._loops.pop()
        e.label(loop.latch)

    def _leave(self, loop: Loop, mask: str | None, exits: int, returns: int) -> None:
        """After a loop all lanes that came to it go on, but for those that have returned."""
        self.e.label(loop.exit)
        self.e.mask = mask
        self._exits = exits + (self._returns != returns)

    def _while(self, stmt: While) -> None:
        e, mask, exits, returns = self.e, self.e.mask, self._exits, self._returns
        loop = self._enter(stmt)
        head, body = e.name("head"), e.name("body")
        e.label(head)
        with e.scope():
            if loop.live is not None:
                e.mask = e.emit(f"load {e.mask_type}, ptr {loop.live}")
            if self.uniformity.is_uniform(stmt.condition):
                e.branch(self.values.condition(stmt.condition), body, loop.exit)
            else:
                e.mask = e.both(e.mask, e.vector(self.values(stmt.condition)))
                e.do(f"store {e.mask_type} {e.active()}, ptr {loop.live}")
                e.branch(e.any(e.active()), body, loop.exit)
            e.label(body)
            self._turn(loop, stmt.body)
            if loop.turn is None or loop.live is None:
                e.jump(head)
            else:
                left = e.emit(f"load {e.mask_type}, ptr {loop.live}")
                e.branch(e.any(left), head, loop.exit)
        self._leave(loop, mask, exits, returns)

    def _for(self, stmt: For) -> None:
        start, stop = self.values(stmt.start), self.values(stmt.stop)
        divergent = start.form is None or stop.form is None or start.form.stride != stop.form.stride
        mask, exits, returns = self.e.mask, self._exits, self._returns
        loop = self._enter(stmt)
        if divergent and loop.live is not None:
            self._masked_for(stmt, loop, start, stop)
        else:
            self._counted_for(stmt, loop, start, stop)
        self._leave(loop, mask, exits, returns)

    def _counted_for(self, stmt: For, loop: Loop, start: Value, stop: Value) -> None:
        """All lanes make the same number of turns, unless they leave by an exit of their own."""
        e = self.e
        t, signed = REGISTER[start.dtype], start.dtype.kind == "int"
        inside = ("s" if signed else "u") + ("lt" if stmt.step > 0 else "gt")
        body, counter, following = e.name("body"), f"%{e.name('i')}", f"%{e.name('n')}"
        first, last = self.values.scalar(start), self.values.scalar(stop)
        limit = _limit(e, t, last, stmt.step, signed)
        e.branch(e.emit(f"icmp {inside} {t} {first}, {last}"), body, loop.exit)
        entered = e.block
        e.label(body)
        with e.scope():
            e.do(f"{counter} = phi {t} [ {first}, %{entered} ], [ {following}, %{loop.latch} ]")
            self.values.locals[stmt.var] = _counter(stmt, counter, start, stop)
            if loop.live is not None:
                e.mask = e.emit(f"load {e.mask_type}, ptr {loop.live}")
            self._turn(loop, stmt.body)
            more = e.emit(f"icmp {inside} {t} {counter}, {limit}")
            if loop.live is not None:
                left = e.any(e.emit(f"load {e.mask_type}, ptr {loop.live}"))
                more = e.emit(f"and i1 {more}, {left}")
            e.do(f"{following} = add {'nsw ' if signed else ''}{t} {counter}, {stmt.step}")
            e.branch(more, body, loop.exit)

    def _masked_for(self, stmt: For, loop: Loop, start: Value, stop: Value) -> None:
        """Lanes go on while their own counter is inside."""
        e = self.e
        dtype, signed = start.dtype, start.dtype.kind == "int"
        t = e.register[dtype]
        inside = ("s" if signed else "u") + ("lt" if stmt.step > 0 else "gt")
        form = _counter_form(stmt, start)
        own = t if form is None else REGISTER[dtype]
        body, counter, following = e.name("body"), f"%{e.name('i')}", f"%{e.name('n')}"
        limit = _limit(e, t, e.vector(stop), stmt.step, signed)
        entering = e.both(e.mask, e.emit(f"icmp {inside} {t} {e.vector(start)}, {e.vector(stop)}")) or ""
        e.do(f"store {e.mask_type} {entering}, ptr {loop.live}")
        e.branch(e.any(entering), body, loop.exit)
        entered = e.block
        e.label(body)
        with e.scope():
            e.do(f"{counter} = phi {own} [ {start.text}, %{entered} ], [ {following}, %{loop.latch} ]")
            value = Value(counter, dtype, form)
            self.values.locals[stmt.var] = value
            e.mask = e.emit(f"load {e.mask_type}, ptr {loop.live}")
            self._turn(loop, stmt.body)
            left = e.emit(f"load {e.mask_type}, ptr {loop.live}")
            going = e.emit(f"icmp {inside} {t} {e.vector(value)}, {limit}")
            left = e.emit(f"and {e.mask_type} {left}, {going}")
            e.do(f"store {e.mask_type} {left}, ptr {loop.live}")
            e.do(f"{following} = add {own} {counter}, {every(own, stmt.step)}")
            e.branch(e.any(left), body, loop.exit)

    # --- exits ---

    def _break(self, stmt: Break) -> None:
        loop = self._loops[-1]
        if self.uniformity.is_masked(stmt):
            self._take_out(loop.live, loop.turn)
            self._exits += 1
        else:
            self.e.jump(loop.exit)

    def _continue(self, stmt: Continue) -> None:
        loop = self._loops[-1]
        if self.uniformity.is_masked(stmt):
            self._take_out(loop.turn)
            self._exits += 1
            return
        if loop.outer:
            self._take_out(loop.turn)
        self.e.jump(loop.latch)

    def _return(self, stmt: Return) -> None:
        if self.uniformity.is_masked(stmt):
            self._take_out(self._live, *(cell for loop in self._loops for cell in (loop.live, loop.turn)))
            self._exits += 1
            self._returns += 1
            return
        if self._outlives:
            self._take_out(self._live)
        self.e.jump(self._end)

    def _take_out(self, *cells: str | None) -> None:
        """The active lanes leave."""
        e = self.e
        gone = e.emit(f"xor {e.mask_type} {e.active()}, {e.all_lanes}")
        for cell in cells:
            if cell is not None:
                left = e.emit(f"load {e.mask_type}, ptr {cell}")
                left = e.emit(f"and {e.mask_type} {left}, {gone}")
                e.do(f"store {e.mask_type} {left}, ptr {cell}")


def _limit(e: Emitter, t: str, stop: str, step: int, signed: bool) -> str:
    """The bound that a counter must be inside for one more step to stay below `stop`: computed without wrapping."""
    name = ("s" if signed else "u") + ("sub" if step > 0 else "add") + ".sat"
    return e.intrinsic(name, t, stop, every(t, abs(step)))


def _counter(stmt: For, text: str, start: Value, stop: Value) -> Value:
    """The loop variable, with the bounds that its range gives it."""
    low, high = (start.low, stop.high) if stmt.step > 0 else (stop.low, start.high)
    form = _counter_form(stmt, start)
    if low is None or high is None:
        return Value(text, start.dtype, form)
    return Value(text, start.dtype, form, low + (stmt.step < 0), high - (stmt.step > 0))


def _counter_form(stmt: For, start: Value) -> LaneForm:
    return start.form and Affine(start.form.stride, gcd(start.form.multiple, stmt.step))
