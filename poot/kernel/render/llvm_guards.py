"""Guards: early exits as branches, and a guard around a whole kernel as a bound of its grid.

A `return` at the top of a kernel, and a `continue` at the top of a loop's body, mean the same as running what follows
under the opposite condition.  Where all of a kernel stands under `x < n`, or between two bounds, for its thread number
x along the first axis, fewer threads need to run, none of them under a mask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from poot.kernel.ir import Alloc, Cast, Const, Continue, Expr, For, If, Index, Kernel, Let, Op, Return, Stmt, Var, While

_OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


def invert_guards(kernel: Kernel) -> Kernel:
    """The same kernel with such exits turned into branches; arrays stay allocated at its top."""
    arrays = tuple(stmt for stmt in kernel.body if isinstance(stmt, Alloc))
    body = tuple(stmt for stmt in kernel.body if not isinstance(stmt, Alloc))
    inverted = _inverted(body, Return)
    return kernel if inverted is body else replace(kernel, body=(*arrays, *inverted))


def _inverted(body: tuple[Stmt, ...], leave: type[Return | Continue] | None) -> tuple[Stmt, ...]:
    """The statements of a body that `leave` leaves, or of a branch."""
    changed: list[Stmt] = []
    for number, stmt in enumerate(body):
        if leave is not None and isinstance(stmt, If) and not stmt.orelse and _leaves(stmt.then, leave):
            rest = _inverted(body[number + 1 :], leave)
            return (*changed, If(negation(stmt.condition), rest, (), stmt.where))
        if isinstance(stmt, (For, While)):
            inside = _inverted(stmt.body, Continue)
            stmt = stmt if inside is stmt.body else replace(stmt, body=inside)
        elif isinstance(stmt, If):
            then, orelse = _inverted(stmt.then, None), _inverted(stmt.orelse, None)
            stmt = stmt if then is stmt.then and orelse is stmt.orelse else replace(stmt, then=then, orelse=orelse)
        changed.append(stmt)
    same = len(changed) == len(body) and all(a is b for a, b in zip(changed, body, strict=True))
    return body if same else tuple(changed)


def _leaves(then: tuple[Stmt, ...], leave: type[Return | Continue]) -> bool:
    return len(then) == 1 and isinstance(then[0], leave)


def negation(condition: Expr) -> Expr:
    """The opposite of a bool; of a comparison of integers a comparison again."""
    if isinstance(condition, Op):
        if condition.name in _OPPOSITE and not condition.args[0].dtype.is_float:
            return replace(condition, name=_OPPOSITE[condition.name])
        if condition.name == "not":
            return condition.args[0]
        if condition.name in ("or", "and"):
            # Both sides are evaluated either way, so that the two forms fault alike.
            parts = tuple(negation(arg) for arg in condition.args)
            return replace(condition, name="and" if condition.name == "or" else "or", args=parts)
    return Op("not", (condition,), condition.dtype, condition.where)


# --- bounds of the grid ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bound:
    """A value that thread numbers are compared with: x < value, or x > value; or equal to it, where `inclusive`."""

    value: Expr
    upper: bool
    inclusive: bool


def peel(kernel: Kernel) -> tuple[Kernel, tuple[Bound, ...]]:
    """Take the bounds on the x thread number out of a condition that the whole kernel stands under."""
    *before, last = kernel.body or (None,)
    if not isinstance(last, If) or last.orelse or not all(map(_harmless, before)):
        return kernel, ()
    values = {stmt.name: stmt.value for stmt in before if isinstance(stmt, Let)}
    given = {param.name for param in kernel.params}
    bounds: list[Bound] = []
    rest: list[Expr] = []
    for part in _conjuncts(last.condition):
        bound = _bound(part, values, given)
        if bound is None:
            rest.append(part)
        else:
            bounds.append(bound)
    if not bounds:
        return kernel, ()
    inner: tuple[Stmt, ...] = last.then
    for part in reversed(rest):
        inner = (If(part, inner, (), last.where),)
    return replace(kernel, body=(*kernel.body[:-1], *inner)), tuple(bounds)


def _harmless(stmt: Stmt | None) -> bool:
    return isinstance(stmt, Alloc) or (isinstance(stmt, Let) and _scalar(stmt.value))


def _scalar(expr: Expr) -> bool:
    """Whether an expression reads no memory and waits for nobody."""
    match expr:
        case Const() | Var() | Index():
            return True
        case Op():
            return all(map(_scalar, expr.args))
        case Cast():
            return _scalar(expr.arg)
        case _:
            return False


def _conjuncts(expr: Expr) -> list[Expr]:
    """The parts of `a and b and …`.  One that reads memory must be evaluated whatever the others say."""
    if isinstance(expr, Op) and expr.name == "and" and _scalar(expr):
        return [part for arg in expr.args for part in _conjuncts(arg)]
    return [expr]


def _bound(part: Expr, values: Mapping[str, Expr], given: set[str]) -> Bound | None:
    if not isinstance(part, Op) or part.name not in ("lt", "le", "gt", "ge"):
        return None
    left, right = (_resolved(arg, values) for arg in part.args)
    upper = part.name in ("lt", "le")
    if _is_thread(right):
        left, right, upper = right, left, not upper
    if not _is_thread(left) or not _shared(right, given):
        return None
    return Bound(right, upper, part.name in ("le", "ge"))


def _resolved(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """An expression with the locals before it spelled out."""
    match expr:
        case Var() if expr.name in values:
            return _resolved(values[expr.name], values)
        case Op():
            return replace(expr, args=tuple(_resolved(arg, values) for arg in expr.args))
        case Cast():
            return replace(expr, arg=_resolved(expr.arg, values))
        case _:
            return expr


def _is_thread(expr: Expr) -> bool:
    return isinstance(expr, Index) and expr.kind == "thread" and expr.axis == 0


def _shared(expr: Expr, given: set[str]) -> bool:
    """Whether an expression is the same for a whole row of the grid."""
    match expr:
        case Const():
            return True
        case Var():
            return expr.name in given
        case Index():
            return not (expr.kind in ("thread", "local", "group") and expr.axis == 0)
        case Op():
            return all(_shared(arg, given) for arg in expr.args)
        case Cast():
            return _shared(expr.arg, given)
        case _:
            return False
