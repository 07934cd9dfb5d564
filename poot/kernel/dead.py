"""Removes locals that nothing reads, and blocks that do nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from poot.kernel.fold import drops
from poot.kernel.ir import Assign, Atomic, Expr, For, If, Let, Load, Stmt, Var, While, blocks, operands


def drop_dead(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements without pure assignments to locals that are never read, and without empty branches and loops.

    Values with a checked access stay, because their fault would vanish with them.
    """
    while True:
        live = _live(body)
        kept = _keep(body, live)
        if _count(kept) == _count(body):
            return kept
        body = kept


def _live(body: tuple[Stmt, ...]) -> set[str]:
    """The locals whose values reach anything but locals that are dead themselves."""
    reads: dict[str, set[str]] = {}
    roots: set[str] = set()
    for stmt in _statements(body):
        names: set[str] = set()
        pure = True
        for expr in operands(stmt):
            pure &= _scan(expr, names)
        if not isinstance(stmt, (Let, Assign)):
            roots |= names
        elif pure:
            reads.setdefault(stmt.name, set()).update(names)
        else:
            roots |= names | {stmt.name}
    live: set[str] = set()
    pending = list(roots)
    while pending:
        name = pending.pop()
        if name not in live:
            live.add(name)
            pending += reads.get(name, ())
    return live


def _scan(expr: Expr, names: set[str]) -> bool:
    """Collect the locals that an expression reads; returns whether it has no checked access."""
    if isinstance(expr, Var):
        names.add(expr.name)
        return True
    pure = not (isinstance(expr, Load) and expr.checked)
    for child in operands(expr):
        pure &= _scan(child, names)
    return pure


def _statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    for stmt in body:
        yield stmt
        for block in blocks(stmt):
            yield from _statements(block)


def _count(body: tuple[Stmt, ...]) -> int:
    return sum(1 for _ in _statements(body))


def _keep(body: tuple[Stmt, ...], live: set[str]) -> tuple[Stmt, ...]:
    kept: list[Stmt] = []
    for stmt in body:
        match stmt:
            case Let() | Assign():
                if stmt.name in live:
                    kept.append(stmt)
            case Atomic():
                unread = stmt.result is not None and stmt.result not in live
                kept.append(replace(stmt, result=None) if unread else stmt)
            case If(condition, then, orelse, where):
                then, orelse = _keep(then, live), _keep(orelse, live)
                if then or orelse or not drops(condition):
                    kept.append(If(condition, then, orelse, where))
            case For():
                inner = _keep(stmt.body, live)
                if inner or not (drops(stmt.start) and drops(stmt.stop)):
                    kept.append(stmt if inner == stmt.body else replace(stmt, body=inner))
            case While(condition, inner, where):
                kept.append(While(condition, _keep(inner, live), where))
            case _:
                kept.append(stmt)
    return tuple(kept)
