"""Integer operations whose operands are known: linear forms, quotients and remainders, decided minima."""

from __future__ import annotations

from poot.kernel.conditions import decided
from poot.kernel.fold import drops
from poot.kernel.interval import interval
from poot.kernel.ir import Const, Op
from poot.kernel.ranges import Linear
from poot.kernel.scope import Known, Scope, bounds


def integer(scope: Scope, op: Op, args: list[Known]) -> Known:
    """An operation on integers that gives an integer, simplified; its operands already are."""
    form = _linear(op, args)
    found = None if form is None else _exact(scope, op, form)
    if found is None and op.name in ("floor_div", "rem"):
        found = _division(scope, op, args[0])
    if found is None and op.name in ("min", "max"):
        found = _lesser(scope, op, args)
    if found is not None:
        return found
    if op.name == "abs" and args[0].low >= 0:
        return args[0]
    forms = tuple(known.form for known in args)
    key = None if None in forms or op.name == "select" else (op.name, op.dtype.name, forms)
    known = scope.opaque(op, key, interval(op, [(known.low, known.high) for known in args]))
    _remember(scope, op, args, known)
    return known


def _linear(op: Op, args: list[Known]) -> Linear | None:
    """The linear form of an operation, if it has one; it holds where the result does not wrap."""
    a = args[0].form
    if a is None:
        return None
    if op.name == "neg":
        return a.times(-1)
    b = args[-1].form if len(args) == 2 else None
    if b is None:
        return None
    match op.name:
        case "add":
            return a.plus(b)
        case "sub":
            return a.plus(b, -1)
        case "mul" if not b.terms:
            return a.times(b.constant)
        case "mul" if not a.terms:
            return b.times(a.constant)
        case "shift_left" if not b.terms and 0 <= b.constant < op.dtype.bits:
            return a.times(1 << b.constant)
        case _:
            return None


def _exact(scope: Scope, op: Op, form: Linear) -> Known | None:
    """The result of a linear form, unless it may wrap."""
    merged = scope.facts.merged(form)
    low, high = scope.facts.interval(merged)
    least, greatest = bounds(op.dtype)
    if low < least or high > greatest:
        return None
    if low == high and all(map(drops, op.args)):
        return scope.const(Const(low, op.dtype, op.where))
    rebuilt = scope.rebuild(merged, op.dtype) if merged is not form and all(map(drops, op.args)) else None
    return Known(op if rebuilt is None else rebuilt, low, high, merged)


def _division(scope: Scope, op: Op, dividend: Known) -> Known | None:
    """`(a * n + b) // n` is a and `(a * n + b) % n` is b, where 0 <= b < n; quotients of quotients are one.

    The same with b between two other multiples of n.
    """
    form, divisor = dividend.form, op.args[1]
    if form is None or not isinstance(divisor, Const) or divisor.value <= 0 or not drops(op.args[0]):
        return None
    n = int(divisor.value)
    inner = scope.facts.divided(form)
    if inner is not None and inner[0] == op.name:
        if op.name == "rem" and inner[2] % n == 0:
            form = inner[1]
        elif op.name == "floor_div" and inner[2] * n <= op.dtype.max:
            form, n = inner[1], inner[2] * n
    outer = Linear(tuple((term, c // n) for term, c in form.terms if c % n == 0), 0)
    rest = Linear(tuple((term, c) for term, c in form.terms if c % n), form.constant)
    low, high = scope.facts.interval(rest)
    whole = low // n
    if high // n == whole:
        result = outer.offset(whole) if op.name == "floor_div" else rest.offset(-whole * n)
        expr = scope.rebuild(result, op.dtype)
        return None if expr is None else Known(expr, *scope.facts.interval(result), result)
    base = None if form is dividend.form else scope.rebuild(form, op.dtype)
    if base is None:
        return None
    number = Const(n, op.dtype, divisor.where)
    known = Known(base, *scope.facts.interval(form), form)
    return integer(scope, Op(op.name, (base, number), op.dtype, op.where), [known, scope.const(number)])


def _lesser(scope: Scope, op: Op, args: list[Known]) -> Known | None:
    """A min or max whose outcome is known."""
    a, b = args
    if a.form is None or b.form is None:
        return None
    first = decided(scope.facts, "ge" if op.name == "max" else "le", a.form, b.form)
    if first is None or not drops(op.args[1] if first else op.args[0]):
        return None
    return a if first else b


def _remember(scope: Scope, op: Op, args: list[Known], known: Known) -> None:
    """Keep what an operation says of its result: a quotient's parts, and the bounds that min and max set."""
    assert known.form is not None
    forms = [arg.form for arg in args]
    if op.name in ("floor_div", "rem"):
        divisor = op.args[1]
        if forms[0] is not None and isinstance(divisor, Const) and divisor.value > 0:
            scope.facts.terms[known.form.terms[0][0]].divided = op.name, forms[0], int(divisor.value)
    elif op.name in ("min", "max"):
        for form in forms:
            if form is not None:
                gap = form.plus(known.form, -1)
                scope.facts.assume(gap if op.name == "min" else gap.times(-1))
