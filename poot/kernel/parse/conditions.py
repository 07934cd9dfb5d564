"""Conditions and choices, which evaluate only what Python would evaluate.

The right side of `and`, `or` and a conditional expression becomes an `if` of its own where it reads memory or needs
statements, else an operation on both sides: `i < n and a[i] > 0` never reads past the end.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from poot.dtypes import bool_
from poot.kernel.ir import Assign, Const, Expr, If, Let, Stmt, Var
from poot.kernel.parse.expressions import CUT, Expressions
from poot.kernel.parse.values import Array, Static, Tuple, Typed, Value, is_atom, is_weak, loads, weak_numbers, zero


@dataclass(frozen=True, slots=True)
class Way:
    """One of two ways: the statements on it, the value at its end, and where that is written."""

    made: list[Stmt]
    value: Value
    node: ast.AST


class Conditions(Expressions):
    """`and`, `or`, chains of comparisons, and conditional expressions."""

    def short_circuit(self, both: bool, nodes: Sequence[ast.expr]) -> Value:
        """`a and b and …` (`both`) or `a or b or …`."""
        word = "`and`" if both else "`or`"
        rest = list(nodes)
        node = rest.pop(0)
        first = self.value(node)
        while isinstance(first, Static):
            if bool(first.value) is not both or not rest:
                return first
            node = rest.pop(0)
            first = self.value(node)

        def condition(value: Value, part: ast.expr) -> Expr | bool:
            return self.boolean(value, part, word)

        parts = [lambda: condition(first, node)]
        parts += [lambda part=part: condition(self.value(part), part) for part in rest]
        return self.chain(both, parts)

    def test(self, node: ast.expr, what: str) -> Expr | bool:
        """The truth of a condition: of a bool, or of a number that is not 0."""
        with self.at(node):
            match node:
                case ast.BoolOp():
                    word = "`and`" if isinstance(node.op, ast.And) else "`or`"
                    parts = [lambda part=part: self.test(part, word) for part in node.values]
                    return self.boolean(self.chain(isinstance(node.op, ast.And), parts), node, what)
                case ast.UnaryOp(op=ast.Not()):
                    truth = self.test(node.operand, "`not`")
                    return not truth if isinstance(truth, bool) else self.k.op("not", truth)
                case _:
                    value = self.value(node)
                    if isinstance(value, Typed) and value.dtype is not bool_:
                        return self.k.op("ne", value.expr, zero(value.dtype))
                    return self.boolean(value, node, what)

    def chain(self, both: bool, parts: Sequence[Callable[[], Expr | bool]]) -> Value:
        """Conditions, each evaluated only where those before it leave the answer open."""
        result = parts[0]()
        for number, part in enumerate(parts[1:], 1):
            if isinstance(result, bool):
                if result is not both:
                    return Static(result)
                result = part()
                continue
            with self.k.block() as made:
                right = part()
            if isinstance(right, bool) and not made:
                result = result if right is both else Const(right, bool_, self.k.where)
            elif made or (isinstance(right, Expr) and loads(right)):
                result = self._guarded(both, result, made, right)
            else:
                result = self.k.op("and" if both else "or", result, cast("Expr", right))
                result = result if number % CUT else self.bind(result, "holds")
        return Static(result) if isinstance(result, bool) else Typed(result)

    def _guarded(self, both: bool, left: Expr, made: list[Stmt], right: Expr | bool) -> Expr:
        answer = self.k.let(left, "holds")
        self.mutable.add(answer.name)
        value = Const(right, bool_, self.k.where) if isinstance(right, bool) else right
        made.append(Assign(answer.name, value, self.k.where))
        condition = answer if both else self.k.op("not", answer)
        self.k.emit(If(condition, tuple(made), (), self.k.where))
        return answer

    def compare(self, node: ast.Compare) -> Value:
        """`a < b`, or a chain of comparisons whose middle operands are evaluated once."""
        nodes = [node.left, *node.comparators]
        if len(nodes) == 2:
            left, right = self.sequence([self.later(nodes[0]), self.later(nodes[1])])
            return self.compared(node.ops[0], left, right, node, (nodes[0], nodes[1]))
        last: list[Value] = [self.value(nodes[0])]
        around = self.k.here

        def link(number: int) -> Expr | bool:
            left, right = self.sequence([lambda: last[0], self.later(nodes[number + 1])])
            if isinstance(right, Typed) and number + 2 < len(nodes):
                right = Typed(self._shared(right.expr, around))
            last[0] = right
            found = self.compared(node.ops[number], left, right, node, (nodes[number], nodes[number + 1]))
            return self.boolean(found, node, "a comparison")

        return self.chain(True, [lambda n=n: link(n) for n in range(len(node.ops))])

    def _shared(self, expr: Expr, around: list[Stmt]) -> Expr:
        """An operand of two links of a chain, each of which may be in a block of its own, inside the one `around`."""
        k = self.k
        if k.here is around or (is_atom(expr) and not self.unstable(expr)):
            return self.bind(expr)
        var = Var(k.fresh("t"), expr.dtype, k.where)
        if not k.here and not loads(expr):
            around.append(Let(var.name, expr, k.where))
            return var
        around.append(Let(var.name, zero(expr.dtype), k.where))
        self.mutable.add(var.name)
        k.emit(Assign(var.name, expr, k.where))
        return var

    def conditional(self, node: ast.IfExp) -> Value:
        """`a if condition else b`."""
        condition = self.test(node.test, "a conditional expression")
        if isinstance(condition, bool):
            return self.value(node.body if condition else node.orelse)
        with self.k.block() as first:
            a = self.value(node.body)
        with self.k.block() as second:
            b = self.value(node.orelse)
        return self.either(condition, Way(first, a, node.body), Way(second, b, node.orelse), node)

    def either(self, condition: Expr, then: Way, orelse: Way, node: ast.AST) -> Value:
        """The value of one of two ways."""
        if is_weak(then.value) and is_weak(orelse.value) and not then.made and not orelse.made:
            numbers = weak_numbers(then.value) + weak_numbers(orelse.value)
            if not any(isinstance(number, bool) for number in numbers):
                condition = self.bind(condition, "holds") if self.unstable(condition) else condition
                return self.chosen(condition, then.value, orelse.value, (then.node, orelse.node))
        pairs: list[tuple[Expr, Expr]] = []
        rebuild = self._pairs(then.value, orelse.value, (then.node, orelse.node), node, pairs)
        if not then.made and not orelse.made and not any(loads(x) or loads(y) for x, y in pairs):
            condition = self.bind(condition, "holds") if len(pairs) > 1 else condition
            return rebuild([self.k.op("select", condition, x, y) for x, y in pairs])
        simple = not orelse.made and all(is_atom(y) for _, y in pairs)
        condition = self.bind(condition, "holds")
        results: list[Expr] = []
        for x, y in pairs:
            var = self.k.let(y if simple else zero(x.dtype), "chosen")
            self.mutable.add(var.name)
            then.made.append(Assign(var.name, x, self.k.where))
            if not simple:
                orelse.made.append(Assign(var.name, y, self.k.where))
            results.append(var)
        if then.made or orelse.made:
            self.k.emit(If(condition, tuple(then.made), tuple(orelse.made), self.k.where))
        return rebuild(results)

    def _pairs(
        self, a: Value, b: Value, nodes: tuple[ast.AST, ast.AST], node: ast.AST, pairs: list[tuple[Expr, Expr]]
    ) -> Callable[[list[Expr]], Value]:
        """Collect the numbers of two values in pairs; returns how to build a value like them from one of each pair."""
        if isinstance(a, Tuple) and isinstance(b, Tuple) and len(a.items) == len(b.items):
            parts = [self._pairs(x, y, nodes, node, pairs) for x, y in zip(a.items, b.items, strict=True)]
            return lambda chosen: Tuple(tuple(part(chosen) for part in parts))
        if isinstance(a, Array) and a == b:
            return lambda chosen: a
        if isinstance(a, Static) and isinstance(b, Static) and not a.weak and a.value is b.value:
            return lambda chosen: a
        place = len(pairs)
        pairs.append(self.pair(a, b, node, nodes))
        return lambda chosen: Typed(chosen[place])
