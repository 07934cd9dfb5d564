"""The threads family: one lane is one thread, real branches.  WGSL and OpenCL C share this walk over a prepared kernel.

A dialect derives from `ThreadsRenderer` and spells types, operations and memory; the order of statements, comments and
loops are written here, in the syntax that both have in common.  Each statement is preceded by the user's line that it
came from.
"""

from __future__ import annotations

from abc import abstractmethod

from poot.dtypes import DType
from poot.kernel.ir import (
    Alloc,
    Assert,
    Assign,
    Atomic,
    Barrier,
    Break,
    BufferParam,
    Collective,
    Const,
    Continue,
    Expr,
    For,
    If,
    Let,
    Return,
    Stmt,
    Store,
    Var,
    While,
)
from poot.kernel.render.threads_text import LOOSE, SUM, UNARY, Code
from poot.kernel.render.threads_values import ThreadsValues


class ThreadsRenderer(ThreadsValues):
    """Writes one kernel: what is common to the languages; `stmt` writes a statement."""

    # --- statements ---

    def block(self, body: tuple[Stmt, ...]) -> None:
        """The statements of a block, one level deeper."""
        self.indent += "    "
        for stmt in body:
            self.stmt(stmt)
        self.indent = self.indent[4:]

    def stmt(self, stmt: Stmt) -> None:
        self.comment(stmt.where)
        match stmt:
            case Let():
                self._let(stmt)
            case Assign():
                self.line(f"{self.name(stmt.name)} = {self._whole(stmt.value)};")
            case Store():
                self._store(stmt)
            case Atomic():
                self._atomic(stmt)
            case If():
                self.branch(stmt)
            case For():
                self._for(stmt)
            case While():
                self._while(stmt)
            case Break():
                self.line("break;")
            case Continue():
                self.line("continue;")
            case Return():
                self.report()
                self.line("return;")
            case Barrier():
                self.barrier()
            case Assert():
                self._assert(stmt)
            case Alloc():
                self.alloc(stmt)

    def report(self) -> None:
        """What a thread says of its faults before it leaves."""

    def _assert(self, stmt: Assert) -> None:
        """Record a fault where a condition does not hold, with the index that it is about."""
        dtype = self.kernel.index_dtype if stmt.index is None else stmt.index.dtype
        index = self.constant(0, dtype) if stmt.index is None else self.expr(stmt.index)
        extent = self.constant(stmt.extent, dtype)
        self.line(f"if (!{self.expr(stmt.condition).at(UNARY)}) {{")
        self.line(f"    {self.fault(self.sites[id(stmt)], stmt.axis, index.text, extent.text, dtype)}")
        self.line("}")

    def _whole(self, value: Expr) -> str:
        return self.collective(value) if isinstance(value, Collective) else self.expr(value).text

    def initial(self, stmt: Let) -> Code:
        """The first value of a local."""
        return Code(self._whole(stmt.value), LOOSE)

    def _let(self, stmt: Let) -> None:
        text = self.initial(stmt).text
        self.intervals.let(stmt)
        mutable = stmt.name in self.changing
        self.line(f"{self.declaration(self.name(stmt.name), stmt.value.dtype, mutable)} = {text};")

    def branch(self, stmt: If) -> None:
        """An `if`, with its other branch where it has one."""
        self.line(f"if ({self.expr(stmt.condition).text}) {{")
        self.block(stmt.then)
        if stmt.orelse:
            self.line("} else {")
            self.block(stmt.orelse)
        self.line("}")

    def _for(self, stmt: For) -> None:
        dtype = stmt.start.dtype
        start, stop = self.expr(stmt.start), self.expr(stmt.stop)
        if not isinstance(stmt.stop, (Const, Var)) or (isinstance(stmt.stop, Var) and stmt.stop.name in self.changing):
            stop = self.bind(stop, dtype, "stop")
        self.intervals.counted(stmt)
        var = self.name(stmt.var)
        first = f"{self.declaration(var, dtype, True)} = {start.text}"
        compare = "<" if stmt.step > 0 else ">"
        self.line(f"for ({first}; {var} {compare} {stop.at(SUM)}; {self._step(stmt, var, stop)}) {{")
        self.block(stmt.body)
        self.line("}")

    def _step(self, stmt: For, var: str, stop: Code) -> str:
        """The next turn's number; past the end where the sum would leave the dtype, so that the loop ends."""
        dtype, size = stmt.start.dtype, abs(stmt.step)
        sign = "+" if stmt.step > 0 else "-"
        low, high = self.intervals.of(stmt.stop)
        if size == 1 or (high <= dtype.max - size + 1 if stmt.step > 0 else low >= dtype.min + size - 1):
            return f"{var} {sign}= {self.constant(size, dtype).text}"
        return f"{var} = {self.bounded_step(var, stop, stmt.step, dtype)}"

    def _while(self, stmt: While) -> None:
        before = len(self.lines)
        self.indent += "    "
        condition = self.expr(stmt.condition)
        self.indent = self.indent[4:]
        hoisted, places = self.lines[before:], self.locations[before:]
        del self.lines[before:], self.locations[before:]
        if not hoisted:
            self.line(f"while ({condition.text}) {{")
        else:
            self.line("while (true) {")
            self.lines += hoisted
            self.locations += places
            self.line(f"    if (!{condition.at(UNARY)}) {{")
            self.line("        break;")
            self.line("    }")
        self.block(stmt.body)
        self.line("}")

    def _store(self, stmt: Store) -> None:
        array, indices = self.place(stmt)
        value = self.expr(stmt.value)
        if stmt.checked:
            self.guarded(stmt, array, indices)
        self.store(array, self.flat(array, indices), value)
        if stmt.checked:
            self.close()

    def _atomic(self, stmt: Atomic) -> None:
        array, indices = self.place(stmt)
        compare = None if stmt.compare is None else self.expr(stmt.compare)
        value = self.expr(stmt.value)
        result = None if stmt.result is None else self.name(stmt.result)
        if stmt.checked:
            if result is not None:
                self.line(f"{self.declaration(result, array.dtype, True)} = {self.zero(array.dtype)};")
            self.guarded(stmt, array, indices)
        old = self.atomic(stmt, array, self.flat(array, indices), value, compare)
        if result is None:
            self.line(f"{old};")
        elif stmt.checked:
            self.line(f"{result} = {old};")
        else:
            self.line(f"{self.declaration(result, array.dtype, result in self.changing)} = {old};")
        if stmt.checked:
            self.close()

    # --- what a dialect spells ---

    @abstractmethod
    def store(self, array: BufferParam | Alloc, flat: Code, value: Code) -> None: ...

    @abstractmethod
    def atomic(self, stmt: Atomic, array: BufferParam | Alloc, flat: Code, value: Code, compare: Code | None) -> str:
        """The call that updates an element; its value is what the element held."""

    @abstractmethod
    def collective(self, expr: Collective) -> str: ...

    @abstractmethod
    def alloc(self, stmt: Alloc) -> None:
        """Declare a private array; shared ones stand elsewhere where the language wants that."""

    @abstractmethod
    def barrier(self) -> None: ...

    @abstractmethod
    def bounded_step(self, var: str, stop: Code, step: int, dtype: DType) -> str:
        """`var + step`, or `stop` where that is at hand or past it."""
