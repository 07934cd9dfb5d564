"""Integer facts about expressions: intervals, linear forms, and what conditions prove.

An integer expression that provably does not wrap is a *linear form*: a sum of terms with coefficients, and a constant.
A term is a local, a launch number, an extent, or an operation that is not linear; each has an interval.  Conditions in
force are facts `form >= 0`.  A form is proven to be at least 0 if its interval says so, alone or less one of the facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from poot.dtypes import DType
from poot.kernel.ir import Const, Expr, Op
from poot.records import record

#: Coefficients by term number, none of them 0, and the constant.
Terms: TypeAlias = "tuple[tuple[int, int], ...]"

#: The least and the greatest value.
Interval: TypeAlias = "tuple[int, int]"


@record
class Linear:
    """An exact integer: the sum of coefficients times terms, plus a constant."""

    terms: Terms
    constant: int

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """The sum with a multiple of another form."""
        if not other.terms:
            return Linear(self.terms, self.constant + factor * other.constant)
        total = dict(self.terms)
        for term, coefficient in other.terms:
            total[term] = total.get(term, 0) + factor * coefficient
        terms = tuple(sorted((term, c) for term, c in total.items() if c))
        return Linear(terms, self.constant + factor * other.constant)

    def times(self, factor: int) -> Linear:
        """The form times a number."""
        if not factor:
            return Linear((), 0)
        return Linear(tuple((term, c * factor) for term, c in self.terms), self.constant * factor)

    def offset(self, by: int) -> Linear:
        """The form plus a number."""
        return Linear(self.terms, self.constant + by)


@dataclass(slots=True)
class Term:
    """What a term stands for, and its interval.

    `expr` computes it anew while the locals in `reads` have the versions given there; None: it cannot be computed anew.
    `divided` is (floor_div or rem, form, divisor) where the term is one.
    """

    low: int
    high: int
    expr: Expr | None
    reads: frozenset[tuple[str, int]] = frozenset()
    divided: tuple[str, Linear, int] | None = None


class Facts:
    """The terms met so far, and the facts in force; `mark` and `release` bracket a scope.

    What is learnt of a term inside a scope, its expression included, is forgotten at the scope's end; its number stays.
    """

    def __init__(self) -> None:
        self.terms: list[Term] = []
        self._numbers: dict[object, int] = {}
        self._facts: list[Linear] = []
        self._trail: list[tuple[int, int, int, Expr | None, frozenset[tuple[str, int]]]] = []

    # --- terms ---

    def term(self, key: object, low: int, high: int) -> int:
        """The number of the term called `key`; `low` and `high` always hold of it."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self.fresh(low, high)
        return number

    def fresh(self, low: int, high: int) -> int:
        """A term that nothing else names."""
        self.terms.append(Term(low, high, None))
        return len(self.terms) - 1

    def name(self, number: int, expr: Expr, reads: frozenset[tuple[str, int]]) -> None:
        """Say how a term is computed anew."""
        term = self.terms[number]
        self._trail.append((number, term.low, term.high, term.expr, term.reads))
        term.expr, term.reads = expr, reads

    def narrow(self, number: int, low: int, high: int) -> None:
        """Intersect a term's interval with one that holds as long as the facts in force."""
        term = self.terms[number]
        low, high = max(low, term.low), min(high, term.high)
        if low <= high and (low, high) != (term.low, term.high):
            self._trail.append((number, term.low, term.high, term.expr, term.reads))
            term.low, term.high = low, high

    def interval(self, form: Linear) -> Interval:
        """The least and greatest value of a form, by the intervals of its terms."""
        low = high = form.constant
        for number, coefficient in form.terms:
            term = self.terms[number]
            if coefficient > 0:
                low += coefficient * term.low
                high += coefficient * term.high
            else:
                low += coefficient * term.high
                high += coefficient * term.low
        return low, high

    # --- facts ---

    def mark(self) -> tuple[int, int]:
        """The state to which `release` returns."""
        return len(self._facts), len(self._trail)

    def release(self, mark: tuple[int, int]) -> None:
        """Forget the facts since a mark."""
        facts, trail = mark
        del self._facts[facts:]
        while len(self._trail) > trail:
            number, low, high, expr, reads = self._trail.pop()
            term = self.terms[number]
            term.low, term.high, term.expr, term.reads = low, high, expr, reads

    def assume(self, form: Linear) -> None:
        """Take `form >= 0` as a fact, and narrow the intervals of its terms."""
        if len(form.terms) > 1 and form not in self._facts:
            self._facts.append(form)
        _, most = self.interval(form)
        for number, coefficient in form.terms:
            term = self.terms[number]
            low, high = term.low, term.high
            if coefficient > 0:  # coefficient * term >= -(everything else at its most)
                rest = most - coefficient * high
                low = max(low, -(rest // coefficient))
            else:
                rest = most - coefficient * low
                high = min(high, rest // -coefficient)
            self.narrow(number, low, high)

    def assume_all(self, forms: Iterable[Linear]) -> None:
        """Take several forms as facts."""
        for form in forms:
            self.assume(form)

    def proves(self, form: Linear) -> bool:
        """Whether `form >= 0` follows from the intervals, or from them and one fact or two."""
        if self.interval(form)[0] >= 0:
            return True
        names = {number for number, _ in form.terms}
        near = [fact for fact in self._facts if any(number in names for number, _ in fact.terms)]
        rests = [form.plus(fact, -1) for fact in near]
        if any(self.interval(rest)[0] >= 0 for rest in rests):
            return True
        return any(
            self.interval(rest.plus(fact, -1))[0] >= 0 for rest in rests for fact in self._facts if _meets(rest, fact)
        )

    # --- quotients and remainders ---

    def divided(self, form: Linear) -> tuple[str, Linear, int] | None:
        """(floor_div or rem, form, divisor), if the form is one such term."""
        if form.constant or len(form.terms) != 1 or form.terms[0][1] != 1:
            return None
        return self.terms[form.terms[0][0]].divided

    def merged(self, form: Linear) -> Linear:
        """The form, with `x // n * n + x % n` written x."""
        for number, coefficient in form.terms:
            divided = self.terms[number].divided
            if divided is None or divided[0] != "rem":
                continue
            _, base, n = divided
            for other, multiple in form.terms:
                if multiple == coefficient * n and self.terms[other].divided == ("floor_div", base, n):
                    left = Linear(tuple(t for t in form.terms if t[0] not in (number, other)), form.constant)
                    return self.merged(left.plus(base, coefficient))
        return form

    # --- back to expressions ---

    def rebuild(self, form: Linear, dtype: DType, holds: Callable[[Term], bool]) -> Expr | None:
        """An expression for a form, or None where a term's expression does not hold any more."""
        positive: list[Expr] = []
        negative: list[Expr] = []
        for number, coefficient in form.terms:
            term = self.terms[number]
            if term.expr is None or not holds(term) or term.expr.dtype is not dtype or abs(coefficient) > dtype.max:
                return None
            size = abs(coefficient)
            part = term.expr if size == 1 else Op("mul", (term.expr, Const(size, dtype)), dtype)
            (positive if coefficient > 0 else negative).append(part)
        if not dtype.min <= form.constant <= dtype.max:
            return None
        return _sum(positive, negative, form.constant, dtype)


def _meets(form: Linear, fact: Linear) -> bool:
    """Whether a fact has a term of the form with the same sign, so that taking it away may help."""
    signs = dict(form.terms)
    return any(signs.get(number, 0) * coefficient > 0 for number, coefficient in fact.terms)


def _sum(positive: list[Expr], negative: list[Expr], constant: int, dtype: DType) -> Expr:
    total: Expr | None = None
    for part in positive:
        total = part if total is None else Op("add", (total, part), dtype)
    if total is None:
        total = Const(constant, dtype)
        constant = 0
    for part in negative:
        total = Op("sub", (total, part), dtype)
    if not constant:
        return total
    if constant < 0 and -constant <= dtype.max:
        return Op("sub", (total, Const(-constant, dtype)), dtype)
    return Op("add", (total, Const(constant, dtype)), dtype)


def hull(intervals: Iterable[Interval]) -> Interval:
    """The least interval around several."""
    pairs = list(intervals)
    return min(low for low, _ in pairs), max(high for _, high in pairs)
