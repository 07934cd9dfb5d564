"""One walk over a kernel that folds constants, proves accesses in bounds, and unrolls the loops that ask for it.

Every condition in force is a fact: inside its branch, in the rest of a block after a branch that leaves it, inside a
loop.  A fact about locals speaks of the values that they had; an assignment gives a local a new value, and leaves facts
about the old one standing.  What a loop does to integers is found by widening: their intervals at entry, with a bound
that a turn passes moved to the dtype's own, until a turn passes none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from poot.errors import CompileError, KernelCheckError
from poot.kernel.dead import drop_dead
from poot.kernel.ir import (
    Alloc,
    Assert,
    Assign,
    Atomic,
    Break,
    Const,
    Continue,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Let,
    Return,
    Stmt,
    Store,
    Var,
    While,
    jumps,
    statements,
)
from poot.kernel.ranges import Interval, hull
from poot.kernel.scope import Known, Scope, bounds
from poot.kernel.simplify_expr import Expressions

#: Statements that unrolling may bring a kernel to.
UNROLL_LIMIT = 1 << 16

#: Loops inside one another whose effect on integers is found by widening; deeper ones leave any value.
_WIDENED_DEPTH = 2

Loop = TypeVar("Loop", For, While)


def simplify(kernel: Kernel) -> Kernel:
    """The kernel, simplified: it computes the same values and records the same faults.

    CompileError where unrolling passes `UNROLL_LIMIT` statements; KernelCheckError where a loop that is to be unrolled
    has bounds that are not constant.
    """
    body, _ = _Simplifier(kernel).block(kernel.body)
    return replace(kernel, body=drop_dead(body))


class _Simplifier:
    """The walk; a block gives its new statements, and whether control can reach their end."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.mutable = frozenset(node.name for node in statements(kernel.body) if isinstance(node, Assign))
        self.scope = Scope(set(self.mutable))
        self.expr = Expressions(kernel, self.scope)
        self.facts = self.scope.facts
        #: Names taken in the new kernel, and the one that each local has there now.
        self.names = {param.name for param in kernel.params}
        self.targets: dict[str, Var] = {}
        self.count = 0
        #: For each loop being widened, the interval of what its locals have been given.
        self.given: list[dict[str, Interval]] = []

    # --- statements ---

    def block(self, body: tuple[Stmt, ...]) -> tuple[tuple[Stmt, ...], bool]:
        """Simplify statements in the scope that is open."""
        out: list[Stmt] = []
        for stmt in body:
            self.expr.next_statement()
            if not self.stmt(stmt, out):
                return tuple(out), False
        return tuple(out), True

    def stmt(self, stmt: Stmt, out: list[Stmt]) -> bool:
        """Simplify one statement onto `out`; returns whether the next one is reached."""
        self.count += 1
        match stmt:
            case Let():
                self.let(stmt, out)
            case Assign():
                self.assign(stmt, out)
            case Store():
                indices, checked, _ = self.expr.access(stmt)
                out.append(Store(stmt.buffer, indices, self.expr(stmt.value).expr, checked, stmt.where))
            case Atomic():
                self.atomic(stmt, out)
            case If():
                return self.branch(stmt, out)
            case For():
                return self.counted(stmt, out)
            case While():
                self.repeated(stmt, out)
            case Assert():
                condition = self.expr(stmt.condition).expr
                if not (isinstance(condition, Const) and condition.value):
                    index = None if stmt.index is None else self.expr(stmt.index).expr
                    out.append(replace(stmt, condition=condition, index=index))
            case Break() | Continue() | Return():
                out.append(stmt)
                return False
            case _:
                if isinstance(stmt, Alloc):
                    self.expr.arrays[stmt.name] = stmt
                out.append(stmt)
        return True

    # --- locals ---

    def declare(self, name: str, like: Var) -> Var:
        """The local of the new kernel for a declaration: of the same name, or a new one for a further copy."""
        candidate, number = name, 0
        while candidate in self.names:
            number += 1
            candidate = f"{name}_u{number}"
        self.names.add(candidate)
        if name in self.mutable:
            self.scope.mutable.add(candidate)
        self.targets[name] = Var(candidate, like.dtype, like.where)
        return self.targets[name]

    def let(self, stmt: Let, out: list[Stmt]) -> None:
        known = self.expr(stmt.value)
        value = known.expr
        if stmt.name not in self.mutable and (self.steady(value) or (isinstance(value, Index) and value != stmt.value)):
            self.scope.env[stmt.name] = known
            return
        target = self.declare(stmt.name, Var(stmt.name, value.dtype, stmt.where))
        out.append(Let(target.name, value, stmt.where))
        self.scope.hold(stmt.name, target, known)

    def steady(self, value: Expr) -> bool:
        """Whether a value is a literal or a local that never changes."""
        return isinstance(value, Const) or (isinstance(value, Var) and value.name not in self.scope.mutable)

    def assign(self, stmt: Assign, out: list[Stmt]) -> None:
        known = self.expr(stmt.value)
        target = self.targets[stmt.name]
        out.append(Assign(target.name, known.expr, stmt.where))
        self.scope.renew(target.name)
        self.scope.hold(stmt.name, target, known)
        for given in self.given:
            if stmt.name in given:
                given[stmt.name] = hull((given[stmt.name], (known.low, known.high)))

    def atomic(self, stmt: Atomic, out: list[Stmt]) -> None:
        indices, checked, _ = self.expr.access(stmt)
        compare = None if stmt.compare is None else self.expr(stmt.compare).expr
        value = self.expr(stmt.value).expr
        result = None
        if stmt.result is not None:
            old = self.declare(stmt.result, Var(stmt.result, value.dtype, stmt.where))
            result = old.name
            self.scope.hold(stmt.result, old, self.scope.opaque(old))
        out.append(Atomic(stmt.op, stmt.buffer, indices, value, compare, result, checked, stmt.where))

    def changed(self, stmt: Stmt) -> list[str]:
        """The locals declared before a statement that it changes."""
        if not self.mutable:
            return []
        found = dict.fromkeys(node.name for node in statements((stmt,)) if isinstance(node, Assign))
        return [name for name in found if name in self.scope.env]

    def intervals(self, names: list[str]) -> dict[str, Interval]:
        """The intervals of those locals that are integers."""
        known = {name: self.scope.current(name) for name in names}
        return {name: (held.low, held.high) for name, held in known.items() if held.form is not None}

    def forget(self, names: list[str], intervals: dict[str, Interval]) -> None:
        for name in names:
            self.scope.forget(name, self.targets[name], intervals.get(name))

    def adopt(self, names: list[str], env: dict[str, Known]) -> None:
        for name in names:
            self.scope.adopt(name, self.targets[name], env)

    # --- branches ---

    def branch(self, stmt: If, out: list[Stmt]) -> bool:
        condition = self.expr(stmt.condition)
        if isinstance(condition.expr, Const):
            body, reached = self.block(stmt.then if condition.expr.value else stmt.orelse)
            out.extend(body)
            return reached
        changed, before = self.changed(stmt), self.scope.env
        parts: list[tuple[Stmt, ...]] = []
        ends: list[tuple[dict[str, Known], dict[str, Interval]] | None] = []
        for holds, body in ((True, stmt.then), (False, stmt.orelse)):
            self.scope.env = dict(before)
            mark = self.facts.mark()
            self.facts.assume_all(condition.implied[holds])
            part, reached = self.block(body)
            parts.append(part)
            ends.append((self.scope.env, self.intervals(changed)) if reached else None)
            self.facts.release(mark)
        out.append(If(condition.expr, parts[0], parts[1], stmt.where))
        self.scope.env = before
        match ends:
            case [None, None]:
                return False
            case [(_, first), (_, second)]:
                both = {name: hull((first[name], second[name])) for name in first if name in second}
                self.forget(changed, both)
            case [None, (env, _)]:
                self.adopt(changed, env)
                self.facts.assume_all(condition.implied[False])
            case [(env, _), None]:
                self.adopt(changed, env)
                self.facts.assume_all(condition.implied[True])
            case _:
                pass
        return True

    # --- loops ---

    def counted(self, stmt: For, out: list[Stmt]) -> bool:
        start, stop = self.expr(stmt.start), self.expr(stmt.stop)
        if isinstance(start.expr, Const) and isinstance(stop.expr, Const):
            values = range(int(start.expr.value), int(stop.expr.value), stmt.step)
            if stmt.unroll or len(values) == 0 or (len(values) == 1 and not jumps(stmt.body)):
                return self.unrolled(stmt, values, out)
        elif stmt.unroll:
            raise KernelCheckError(
                kernel=self.kernel.name,
                message="a loop that is to be unrolled has bounds that are not constant",
                where=stmt.where,
                remedy="use constants or Const parameters in its range, or do not unroll it.",
            )

        def turn() -> For:
            var = self.declare(stmt.var, Var(stmt.var, start.expr.dtype, stmt.where))
            self.scope.hold(stmt.var, var, self.counter(var, start, stop, stmt.step))
            body, _ = self.block(stmt.body)
            return For(var.name, start.expr, stop.expr, stmt.step, body, False, stmt.where)

        out.append(self.widened(stmt, turn))
        return True

    def counter(self, var: Var, start: Known, stop: Known, step: int) -> Known:
        """What is known of a loop's variable inside the loop."""
        low, high = (start.low, stop.high - 1) if step > 0 else (stop.low + 1, start.high)
        if start.low == start.high and stop.low == stop.high:
            values = range(start.low, stop.low, step)
            low, high = min(values[:1], default=low), max(values[-1:], default=high)
            low, high = min(low, high), max(low, high)
        known = self.scope.opaque(var, None, (low, max(low, high)))
        assert known.form is not None and start.form is not None and stop.form is not None
        first = known.form.plus(start.form, -1)
        last = stop.form.plus(known.form, -1).offset(-1 if step > 0 else 1)
        self.facts.assume_all((first, last) if step > 0 else (first.times(-1), last.times(-1)))
        return known

    def unrolled(self, stmt: For, values: range, out: list[Stmt]) -> bool:
        for value in values:
            self.scope.env[stmt.var] = self.scope.const(Const(value, stmt.start.dtype, stmt.where))
            body, reached = self.block(stmt.body)
            out.extend(body)
            if self.count > UNROLL_LIMIT:
                raise CompileError(
                    what=f"kernel {self.kernel.name}",
                    target="any target",
                    message=f"unrolling gives more than {UNROLL_LIMIT} statements",
                    where=stmt.where,
                    remedy="unroll a shorter loop, or fewer loops inside one another.",
                )
            if not reached:
                return False
        return True

    def repeated(self, stmt: While, out: list[Stmt]) -> None:
        def turn() -> While:
            condition = self.expr(stmt.condition)
            self.facts.assume_all(condition.implied[True])
            body, _ = self.block(stmt.body)
            return While(condition.expr, body, stmt.where)

        loop = self.widened(stmt, turn)
        if not (isinstance(loop.condition, Const) and not loop.condition.value):
            out.append(loop)

    def widened(self, stmt: Loop, turn: Callable[[], Loop]) -> Loop:
        """Simplify a loop by `turn`, which walks its body once, from what holds at the start of any turn."""
        changed, before = self.changed(stmt), self.scope.env
        entry = self.intervals(changed)
        assumed = entry if len(self.given) < _WIDENED_DEPTH else {}
        while True:
            names, count = set(self.names), self.count
            self.given.append(dict(entry))
            self.scope.env = dict(before)
            mark = self.facts.mark()
            self.forget(changed, assumed)
            self.expr.next_statement()
            loop = turn()
            self.facts.release(mark)
            self.scope.env = before
            given = self.given.pop()
            wider = {name: _widened(assumed[name], given[name], self.targets[name]) for name in assumed}
            if wider == assumed:
                self.forget(changed, {name: hull((entry[name], given[name])) for name in entry})
                return loop
            assumed, self.names, self.count = wider, names, count


def _widened(assumed: Interval, given: Interval, var: Var) -> Interval:
    least, greatest = bounds(var.dtype)
    return assumed[0] if given[0] >= assumed[0] else least, assumed[1] if given[1] <= assumed[1] else greatest
