"""Kernels rebuilt with some of their expressions exchanged: the traversal that such changes share."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from poot.kernel.ir import (
    Assert,
    Assign,
    Atomic,
    Cast,
    Collective,
    Expr,
    For,
    If,
    Let,
    Load,
    Op,
    Stmt,
    Store,
    While,
)

_Node = TypeVar("_Node", Load, Store, Atomic)


class Rebuilder:
    """Rebuilds statements; a subclass says in `leaf` what becomes of an expression before those below it."""

    def leaf(self, expr: Expr) -> Expr | None:
        """The expression to put in place of one, or None to keep it and look below."""
        raise AssertionError("a subclass says what is exchanged")

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Statements, each rebuilt."""
        return tuple(map(self.stmt, body))

    def stmt(self, stmt: Stmt) -> Stmt:
        """One statement and all below it."""
        match stmt:
            case Let() | Assign():
                return replace(stmt, value=self.expr(stmt.value))
            case Store():
                return replace(self._indexed(stmt), value=self.expr(stmt.value))
            case Atomic():
                compare = None if stmt.compare is None else self.expr(stmt.compare)
                return replace(self._indexed(stmt), value=self.expr(stmt.value), compare=compare)
            case If():
                condition = self.expr(stmt.condition)
                return replace(stmt, condition=condition, then=self.block(stmt.then), orelse=self.block(stmt.orelse))
            case While():
                return replace(stmt, condition=self.expr(stmt.condition), body=self.block(stmt.body))
            case For():
                start, stop = self.expr(stmt.start), self.expr(stmt.stop)
                return replace(stmt, start=start, stop=stop, body=self.block(stmt.body))
            case Assert():
                index = None if stmt.index is None else self.expr(stmt.index)
                return replace(stmt, condition=self.expr(stmt.condition), index=index)
            case _:
                return stmt

    def _indexed(self, node: _Node) -> _Node:
        return replace(node, indices=tuple(map(self.expr, node.indices)))

    def expr(self, expr: Expr) -> Expr:
        """One expression and all below it."""
        found = self.leaf(expr)
        if found is not None:
            return found
        match expr:
            case Op():
                return replace(expr, args=tuple(map(self.expr, expr.args)))
            case Cast() | Collective():
                return replace(expr, arg=self.expr(expr.arg))
            case Load():
                return self._indexed(expr)
            case _:
                return expr
