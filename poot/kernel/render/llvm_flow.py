"""Statements: branches and loops that are real where all lanes go the same way, and masks where they do not.

A statement runs under a mask of active lanes, of which at least one is set: code that no lane wants is branched
around, unless it is short and harmless.  What follows a statement that lanes may have left, by a masked `break`,
`continue` or `return`, runs under what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from typing_extensions import override

from poot.dtypes import i64
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
from poot.kernel.render.llvm_emit import Emitter, Value, constant
from poot.kernel.render.llvm_expr import Cell, Expressions
from poot.kernel.render.llvm_loops import Loop, LoopFlow
from poot.kernel.render.llvm_memory import address
from poot.kernel.render.llvm_shared import Block
from poot.kernel.render.llvm_strides import access, fixed, load_run, run_length, store_run
from poot.kernel.uniform import Uniformity

#: Expression nodes up to which a branch under a mask is simply run, harmlessly for the lanes that are not active.
_SHORT = 24


class Flow(LoopFlow):
    """Writes the statements of one body; `end` is the label behind it, `assigned` the locals that change."""

    def __init__(
        self, e: Emitter, values: Expressions, uniformity: Uniformity, assigned: frozenset[str], end: str
    ) -> None:
        super().__init__(e, values, uniformity, end)
        self._assigned = assigned
        self._definitions: dict[str, Expr] = {}
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

    @override
    def block(self, stmts: Sequence[Stmt]) -> None:
        """Statements in order; after one that lanes may have left, the rest runs for those that are left."""
        e = self.e
        mask, after, depth, done = e.mask, "", 0, 0
        known = dict(self._definitions)  # what a block declares may be old where the block was not entered again
        for number, stmt in enumerate(stmts):
            done = max(done, number + self._strided(stmts, number)) if number >= done else done
            if number < done:
                continue
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
        self._definitions = known

    def statement(self, stmt: Stmt) -> None:
        self.e.note(stmt.where)
        self._dispatch[type(stmt)](stmt)

    def _strided(self, stmts: Sequence[Stmt], start: int) -> int:
        """Write accesses of neighbours far apart from lane to lane together; how many statements that were."""
        e, first = self.e, access(stmts[start])
        if first is None or e.lanes == 1 or e.mask is not None:
            return 0
        array = self.values.arrays[first.buffer]
        length = run_length(stmts, start, array, self.uniformity, self._definitions)
        if not length:
            return 0
        where = address(e, array, [self.values(index) for index in first.indices])
        run = stmts[start : start + length]
        e.note(run[0].where)
        if isinstance(first, Load):
            for stmt, value in zip(run, load_run(e, array, where, length), strict=True):
                assert isinstance(stmt, Let)
                self._give(stmt.name, value)
        else:
            store_run(e, array, where, [self.values(stmt.value) for stmt in run if isinstance(stmt, Store)])
        return length

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
        self._give(stmt.name, self._value(stmt.value))
        if stmt.value.dtype.is_integer and stmt.name not in self._assigned and fixed(stmt.value, self._assigned):
            self._definitions[stmt.name] = stmt.value

    def _give(self, name: str, value: Value) -> None:
        """Let a local that is declared have its first value."""
        slot = self.values.locals.get(name)
        if isinstance(slot, Cell):
            self.values.write(slot, value)
        elif name in self._assigned:
            form = self.uniformity.local_form(name)
            self.values.write(self.values.declare(name, value.dtype, form), value)
        else:
            self.values.locals[name] = value

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
            index = [] if stmt.index is None else [self.values(stmt.index)]
            faults.report(stmt, failed, index, [constant(stmt.extent, i64)], stmt.axis)
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
                    if not self._call(body, mask):
                        self.block(body)
                e.label(after)
            e.mask = outer

    def _call(self, body: tuple[Stmt, ...], mask: str) -> bool:
        """Call the function of a block that the kernel has several times; False where there is none."""
        e = self.e
        block = None if e.shared is None else e.shared.find(body)
        if block is None or e.shared is None:
            return False
        locals_ = [self.values.locals[var.name] for var in block.inputs]
        if any(local.form is not None for local in locals_):
            return False
        name = e.shared.names.get(block.key)
        if name is None:
            name = e.shared.names[block.key] = f"@shared.{len(e.shared.names)}"
            e.shared.functions.append(self._function(name, block, body))
        given = ", ".join(f"{e.register[var.dtype]} {e.vector(self.values(var))}" for var in block.inputs)
        types = "{" + ", ".join(e.register[var.dtype] for var in block.results) + "}"
        made = e.emit(f"call fastcc {types} {name}({e.mask_type} {mask}, {given})")
        for number, var in enumerate(block.results):
            cell, t = self.values.locals[var.name], e.register[var.dtype]
            assert isinstance(cell, Cell)
            e.do(f"store {t} {e.emit(f'extractvalue {types} {made}, {number}')}, ptr {cell.pointer}")
        return True

    def _function(self, name: str, block: Block, body: tuple[Stmt, ...]) -> str:
        """The text of a block as a function of a mask and its inputs, which gives its results."""
        e = Emitter(self.e.lanes, contract=self.e.contract)
        values = Expressions(e, self.values.faults, {}, {}, {})
        results = {var.name for var in block.results}
        for number, var in enumerate(block.inputs):
            value = Value(f"%a{number}", var.dtype, None)
            if var.name in results:
                values.write(values.declare(var.name, var.dtype, None), value)
            else:
                values.locals[var.name] = value
        e.mask = "%mask"
        Flow(e, values, self.uniformity, self._assigned, "").block(body)
        types = "{" + ", ".join(e.register[var.dtype] for var in block.results) + "}"
        made = "poison"
        for number, var in enumerate(block.results):
            t = e.register[var.dtype]
            made = e.emit(f"insertvalue {types} {made}, {t} {e.vector(values(var))}, {number}")
        taken = ", ".join(f"{e.register[var.dtype]} %a{number}" for number, var in enumerate(block.inputs))
        head = f"define internal fastcc {types} {name}({e.mask_type} %mask, {taken}) #2 {{"
        return "\n".join([head, "entry:", *e.entry, *e.lines, f"  ret {types} {made}", "}"])

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
