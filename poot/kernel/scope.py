"""What is known of the locals of a kernel at one point of it."""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

from poot.dtypes import DType
from poot.kernel.ir import Const, Expr, Var, operands
from poot.kernel.ranges import Facts, Interval, Linear, Term
from poot.records import record

Implied: TypeAlias = "tuple[tuple[Linear, ...], tuple[Linear, ...]]"

_NOTHING: frozenset[tuple[str, int]] = frozenset()


@record
class Known:
    """A simplified expression; of an integer, its interval and linear form as well.

    `implied` holds, for a condition, the forms that are at least 0 where it is false, and where it is true.
    """

    expr: Expr
    low: int = 0
    high: int = 1
    form: Linear | None = None
    implied: Implied = ((), ())


@cache
def bounds(dtype: DType) -> Interval:
    """The interval of a dtype; 0 and 1 for those that are no integers."""
    return (int(dtype.min), int(dtype.max)) if dtype.is_integer else (0, 1)


def made(name: str) -> str:
    """The key of a local of the new kernel, apart from those of the old one."""
    return f"%{name}"


class Scope:
    """The locals in force: `env` says what each holds, `versions` counts the assignments to those in `mutable`.

    A local of the kernel that is being made may have another name than the one that it came from, where a loop has been
    unrolled: `env` has it under `made(name)` as well, for expressions that are simplified again.
    """

    def __init__(self, mutable: set[str]) -> None:
        self.mutable = mutable
        self.facts = Facts()
        self.env: dict[str, Known] = {}
        self.versions: dict[str, int] = {}

    # --- values ---

    def const(self, const: Const) -> Known:
        """What is known of a literal."""
        if const.dtype.is_float:
            return Known(const)
        value = int(const.value)
        return Known(const, value, value, Linear((), value))

    def opaque(self, expr: Expr, key: object = None, interval: Interval | None = None, *, anew: bool = True) -> Known:
        """What is known of an expression that is not linear: an interval, if it is an integer.

        Expressions of one key are one term, and a local that holds it stands for them; `anew` says that the expression
        may be computed again in place of the term.
        """
        if not expr.dtype.is_integer:
            return Known(expr)
        least, greatest = bounds(expr.dtype)
        low, high = (least, greatest) if interval is None else interval
        number = self.facts.fresh(least, greatest) if key is None else self.facts.term(key, least, greatest)
        term = self.facts.terms[number]
        if isinstance(term.expr, Var) and term.expr.dtype is expr.dtype and self.holds(term):
            expr = term.expr
        elif anew and term.expr is None:
            self.facts.name(number, expr, self.reads(expr))
        self.facts.narrow(number, low, high)
        return Known(expr, low, high, Linear(((number, 1),), 0))

    def reads(self, expr: Expr) -> frozenset[tuple[str, int]]:
        """The locals that an expression reads and that may change, with their versions."""
        if not self.mutable:
            return _NOTHING
        if isinstance(expr, Var):
            name = expr.name
            return frozenset({(name, self.versions.get(name, 0))}) if name in self.mutable else _NOTHING
        return _NOTHING.union(*map(self.reads, operands(expr)))

    def holds(self, term: Term) -> bool:
        """Whether a term's expression still computes it."""
        return all(self.versions.get(name, 0) == version for name, version in term.reads)

    def rebuild(self, form: Linear, dtype: DType) -> Expr | None:
        """An expression for a form, or None where one of its terms cannot be computed any more."""
        return self.facts.rebuild(form, dtype, self.holds)

    # --- locals ---

    def current(self, name: str) -> Known:
        """What a local holds, by the facts in force now."""
        known = self.env[name]
        if known.form is None or isinstance(known.expr, Const):
            return known
        low, high = self.facts.interval(known.form)
        low, high = max(low, known.low), min(high, known.high)
        if low == high:
            return self.const(Const(low, known.expr.dtype, known.expr.where))
        return Known(known.expr, low, high, known.form, known.implied)

    def hold(self, name: str, var: Var, known: Known) -> None:
        """A local, called `var` in the new kernel, holds a value from here on."""
        form = known.form
        held = known if isinstance(known.expr, Const) else Known(var, known.low, known.high, form, known.implied)
        self._set(name, var, held)
        self.versions.setdefault(var.name, 0)
        if form is not None and not form.constant and len(form.terms) == 1 and form.terms[0][1] == 1:
            self.facts.name(form.terms[0][0], var, self.reads(var))

    def renew(self, target: str) -> None:
        """Count an assignment to a local of the new kernel."""
        self.versions[target] = self.versions.get(target, 0) + 1

    def forget(self, name: str, var: Var, interval: Interval | None) -> None:
        """A local holds a value of which nothing is known but an interval."""
        self.renew(var.name)
        self._set(name, var, self.opaque(var, None, interval))

    def _set(self, name: str, var: Var, known: Known) -> None:
        self.env[name] = self.env[made(var.name)] = known

    def adopt(self, name: str, var: Var, env: dict[str, Known]) -> None:
        """A local holds what it does in another environment."""
        self._set(name, var, env[name])
