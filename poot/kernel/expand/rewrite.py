"""Replaces operations that no renderer spells by native ones, in one pass over a kernel."""

from __future__ import annotations

from dataclasses import replace

from typing_extensions import override

from poot.dtypes import bf16, bool_, f16, f32
from poot.errors import SourceLocation
from poot.kernel import ops
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import (
    TRUE,
    Alloc,
    Assert,
    Assign,
    Atomic,
    Break,
    Cast,
    Collective,
    Const,
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
    statements,
)

_BITWISE = frozenset({"select", "bitcast"})  # these move bits, and take narrow floats as they are


def expand_kernel(kernel: Kernel) -> Kernel:
    """The kernel with native operations alone, on f32, f64, integers and bools.

    What an operation expands to stands before the statement that holds it, under fresh names and the operation's own
    source location; a While whose condition expands becomes an endless one that tests inside.  f16 and bf16 operations
    are computed in f32 and rounded once; loads, stores, selections and conversions keep the narrow dtypes.
    """
    return replace(kernel, body=_Expander(kernel).statements(kernel.body))


class _Expander(KernelBuilder):
    """A builder whose operations come out expanded, so that what expansions emit is never walked again."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel.name, workgroup=kernel.workgroup, index_dtype=kernel.index_dtype)
        self._statement_where: SourceLocation | None = None
        self._prefix = ""
        for name in _declared(kernel):
            self._names[name] = 1

    @override
    def op(self, name: str, *args: Expr) -> Expr:
        """An operation of a checked kernel or of an expansion: native as it is, others expanded."""
        dtype = args[-1].dtype
        row = ops.lookup(name)
        if (dtype is f16 or dtype is bf16) and name not in _BITWISE:
            result = self.op(name, *(self.cast(arg, f32) for arg in args))
            return self.cast(result, dtype) if row.result == "same" else result
        if row.expand is None or not row.expands(dtype):
            return Op(name, args, bool_ if row.result == "bool" else dtype, self.where)
        outer, self._prefix = self._prefix, f"{name}_"
        result = row.expand(self, *(arg if isinstance(arg, (Const, Var)) else self.let(arg, "of") for arg in args))
        self._prefix = outer
        return result

    @override
    def let(self, value: Expr, hint: str = "t") -> Var:
        """Bind a value to a new local, named after the operation that is being expanded."""
        return super().let(value, self._prefix + hint)

    # --- statements ---

    def statements(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        with self.block() as rewritten:
            for stmt in body:
                self._statement_where = stmt.where
                self.emit(self._statement(stmt))
        return tuple(rewritten)

    def _statement(self, stmt: Stmt) -> Stmt:
        match stmt:
            case Let(name, Collective() as value, where) | Assign(name, Collective() as value, where):
                return type(stmt)(name, self._collective(value), where)
            case Let(name, value, where) | Assign(name, value, where):
                return type(stmt)(name, self._expression(value), where)
            case Store(buffer, indices, value, checked, where):
                indices = self._expressions(indices)
                return Store(buffer, indices, self._expression(value), checked, where)
            case Atomic():
                indices = self._expressions(stmt.indices)
                compare = None if stmt.compare is None else self._expression(stmt.compare)
                return replace(stmt, indices=indices, compare=compare, value=self._expression(stmt.value))
            case If(condition, then, orelse, where):
                condition = self._expression(condition)
                return If(condition, self.statements(then), self.statements(orelse), where)
            case For(var, start, stop, step, body, unroll, where):
                start, stop = self._expression(start), self._expression(stop)
                return For(var, start, stop, step, self.statements(body), unroll, where)
            case While():
                return self._while(stmt)
            case Assert():
                condition = self._expression(stmt.condition)
                index = None if stmt.index is None else self._expression(stmt.index)
                return replace(stmt, condition=condition, index=index)
            case _:
                return stmt

    def _while(self, loop: While) -> Stmt:
        with self.block() as test:
            condition = self._expression(loop.condition)
        body = self.statements(loop.body)
        if not test:
            return While(condition, body, loop.where)
        self.where = loop.where
        leave = If(self.op("not", condition), (Break(loop.where),), (), loop.where)
        return While(TRUE, (*test, leave, *body), loop.where)

    # --- expressions ---

    def _expressions(self, exprs: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(self._expression(expr) for expr in exprs)

    def _expression(self, expr: Expr) -> Expr:
        match expr:
            case Const() | Var() | Index():
                return expr
            case Load(buffer, indices, dtype, checked, where):
                return Load(buffer, self._expressions(indices), dtype, checked, where)
            case Cast(arg, dtype, where):
                return Cast(self._expression(arg), dtype, where)
            case Collective():
                return self._collective(expr)
            case Op(name, args, dtype, where):
                args = self._expressions(args)
                self.where = where or self._statement_where
                return Op(name, args, dtype, where) if name in _BITWISE else self.op(name, *args)

    def _collective(self, expr: Collective) -> Expr:
        arg = self._expression(expr.arg)
        if expr.dtype is not f16 and expr.dtype is not bf16:
            return Collective(expr.op, arg, expr.dtype, expr.where)
        self.where = expr.where or self._statement_where
        return self.cast(self.collective(expr.op, self.cast(arg, f32), expr.op), expr.dtype)


def _declared(kernel: Kernel) -> list[str]:
    """Every name that the kernel uses for a parameter, local or array."""
    names = [param.name for param in kernel.params]
    for node in statements(kernel.body):
        match node:
            case Let(name=name) | Alloc(name=name) | For(var=name):
                names.append(name)
            case Atomic(result=str() as name):
                names.append(name)
            case _:
                pass
    return names
