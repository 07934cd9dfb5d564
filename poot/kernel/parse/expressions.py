"""Arithmetic and comparisons: two or more values and the operation of the table that joins them.

Constants are computed while parsing, as Python computes them.
"""

from __future__ import annotations

import ast
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from poot.dtypes import DType, bool_
from poot.kernel import expand as expand  # the table is complete with its expansions
from poot.kernel import ops
from poot.kernel.ir import Expr
from poot.kernel.parse.scope import Scope
from poot.kernel.parse.values import Chosen, Static, Tuple, Typed, Value, is_weak

_Compute = Callable[[Any, Any], Any]
_BINARY: dict[type[ast.operator], tuple[str, str, _Compute]] = {
    ast.Add: ("add", "+", lambda a, b: a + b),
    ast.Sub: ("sub", "-", lambda a, b: a - b),
    ast.Mult: ("mul", "*", lambda a, b: a * b),
    ast.Div: ("div", "/", lambda a, b: a / b),
    ast.FloorDiv: ("floor_div", "//", lambda a, b: a // b),
    ast.Mod: ("rem", "%", lambda a, b: a % b),
    ast.Pow: ("pow", "**", lambda a, b: a**b),
    ast.LShift: ("shift_left", "<<", lambda a, b: a << b),
    ast.RShift: ("shift_right", ">>", lambda a, b: a >> b),
    ast.BitOr: ("or", "|", lambda a, b: a | b),
    ast.BitXor: ("xor", "^", lambda a, b: a ^ b),
    ast.BitAnd: ("and", "&", lambda a, b: a & b),
}
_COMPARE: dict[type[ast.cmpop], tuple[str, _Compute]] = {
    ast.Eq: ("eq", operator.eq),
    ast.NotEq: ("ne", operator.ne),
    ast.Lt: ("lt", operator.lt),
    ast.LtE: ("le", operator.le),
    ast.Gt: ("gt", operator.gt),
    ast.GtE: ("ge", operator.ge),
    ast.Is: ("", operator.is_),
    ast.IsNot: ("", operator.is_not),
    ast.In: ("", lambda a, b: a in b),
    ast.NotIn: ("", lambda a, b: a not in b),
}
_IDENTITY = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
#: Bits of an integer that constants are computed to.
_BITS = 1 << 13
#: Operations that stand inside one another before the value so far becomes a local.
CUT = 24
_BITWISE = ("|", "^", "&", "<<", ">>", "~")


class Expressions(Scope, ABC):
    """Operators on values."""

    @abstractmethod
    def value(self, node: ast.expr) -> Value:
        """Evaluate a node."""

    @abstractmethod
    def test(self, node: ast.expr, what: str) -> Expr | bool:
        """The truth of a condition."""

    def later(self, node: ast.expr) -> Callable[[], Value]:
        """The evaluation of a node, to be done in its turn."""
        return lambda: self.value(node)

    # --- arithmetic ---

    def spine(self, node: ast.BinOp) -> Value:
        """`a + b + c …`, from the left; of a long one the parts so far are kept in locals, so that nothing nests deep.

        A product below a sum stays there, where the two may be one operation with one rounding.
        """
        links: list[ast.BinOp] = []
        first: ast.expr = node
        while isinstance(first, ast.BinOp):
            links.insert(0, first)
            first = first.left
        value, since = self.value(first), 0
        for link, after in zip(links, (*links[1:], None), strict=True):
            with self.at(link):
                left, right = self.sequence([lambda left=value: left, self.later(link.right)])
                value = self.binary(link.op, left, right, link, (link.left, link.right))
                since += 1
                summed = isinstance(link.op, ast.Mult) and after is not None and isinstance(after.op, ast.Add | ast.Sub)
                if since >= CUT and after is not None and not summed and isinstance(value, Typed):
                    value, since = Typed(self.bind(value.expr)), 0
        return value

    def operate(self, name: str, sign: str, args: Sequence[Expr], node: ast.AST) -> Typed:
        """An operation of the table on operands of one dtype, if it takes that dtype."""
        dtype = args[-1].dtype
        allowed = ops.lookup(name).dtypes
        if dtype not in allowed:
            wanted = "i32" if dtype.kind == "bool" or "f32" not in [d.name for d in allowed] else "f32"
            text = ast.unparse(node)
            if dtype.is_float and sign in _BITWISE:
                self.mismatch(node, f"`{sign}` on {dtype} in `{text}`", "cast to an integer, or use poot.bitcast.")
            self.mismatch(node, f"`{sign}` on {dtype} in `{text}`", f"cast to a number first: `{wanted}(…)`.")
        return Typed(self.k.op(name, *args))

    def binary(
        self, op: ast.operator, left: Value, right: Value, node: ast.AST, nodes: tuple[ast.AST, ast.AST]
    ) -> Value:
        """`left op right`; `nodes` are the operands as written."""
        name, sign, compute = _BINARY[type(op)]
        if isinstance(left, Static) and isinstance(right, Static) and left.weak and right.weak:
            return Static(self.computed(sign, compute, left.value, right.value, node))
        if is_weak(left) and is_weak(right):
            return self.of_choices(lambda a, b: self.binary(op, a, b, node, nodes), left, right, nodes)
        if isinstance(left, Tuple) and isinstance(right, Tuple) and sign == "+":
            return Tuple(left.items + right.items)
        if sign == "**" and isinstance(left, Typed) and isinstance(right, Static) and _is_two(right.value, left.dtype):
            base = self.bind(left.expr)
            return self.operate("mul", sign, (base, base), node)
        for value, part in zip((left, right), nodes, strict=True):
            if sign in _BITWISE and isinstance(value, Static) and isinstance(value.value, float):
                remedy = f"write `{value.value:.0f}`." if value.value.is_integer() else "use an integer."
                self.mismatch(part, f"`{sign}` takes integers, and is given {value.value}", remedy)
        a, b = self.pair(left, right, node, nodes)
        if sign == "/" and not a.dtype.is_float:
            self._no_division(node, nodes, a.dtype)
        return self.operate(name, sign, (a, b), node)

    def chosen(
        self, condition: Expr, first: Static | Chosen, second: Static | Chosen, nodes: tuple[ast.AST, ast.AST]
    ) -> Chosen:
        """One of two weak numbers, with the dtype that they have alone."""
        numbers = self.pair(first, second, nodes[0], nodes)
        return Chosen(self.k.op("select", condition, *numbers), condition, first, second)

    def of_choices(
        self, compute: Callable[[Value, Value], Value], left: Value, right: Value, nodes: tuple[ast.AST, ast.AST]
    ) -> Value:
        """What becomes of two weak values, one of them chosen: a choice of what becomes of its numbers."""
        choice = left if isinstance(left, Chosen) else right
        assert isinstance(choice, Chosen)
        ways = [
            compute(part, right) if choice is left else compute(left, part) for part in (choice.first, choice.second)
        ]
        if is_weak(ways[0]) and is_weak(ways[1]):
            return self.chosen(choice.condition, ways[0], ways[1], nodes)
        a, b = self.pair(ways[0], ways[1], nodes[0], nodes)
        return Typed(self.k.op("select", choice.condition, a, b))

    def computed(self, sign: str, compute: Callable[[Any, Any], Any], left: Any, right: Any, node: ast.AST) -> Any:
        """Two constants, computed as Python computes them."""
        if sign == "/" and isinstance(left, int) and isinstance(right, int):
            self.mismatch(node, f"`/` on integers in `{ast.unparse(node)}`", "write `//`, or make one of them a float.")
        if (
            sign in ("**", "<<")
            and isinstance(left, int)
            and isinstance(right, int)
            and _bits(sign, left, right) > _BITS
        ):
            self.mismatch(node, f"`{ast.unparse(node)}` is too large", "use a smaller number.")
        try:
            result = compute(left, right)
        except ZeroDivisionError:
            self.mismatch(node, f"`{ast.unparse(node)}` divides by zero", "correct the constants.")
        except Exception as error:  # whatever an object's own operator raises
            self.mismatch(node, f"`{ast.unparse(node)}`: {error or type(error).__name__}", "correct the constants.")
        if isinstance(result, complex):
            self.mismatch(node, f"`{ast.unparse(node)}` is a complex number", "correct the constants.")
        return result

    def _no_division(self, node: ast.AST, nodes: tuple[ast.AST, ast.AST], dtype: DType) -> None:
        a, b = (ast.unparse(part) for part in nodes)
        self.mismatch(
            node,
            f"`/` on {dtype} in `{ast.unparse(node)}`",
            f"write `{a} // {b}` to round down, or `f32({a}) / f32({b})`.",
        )

    def unary(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            truth = self.test(node, "`not`")
            return Static(truth) if isinstance(truth, bool) else Typed(truth)
        return self.signed(node, self.value(node.operand))

    def signed(self, node: ast.UnaryOp, value: Value) -> Value:
        """`-value`, `+value` or `~value`."""
        if isinstance(value, Chosen):
            nodes = (node.operand, node.operand)
            return self.of_choices(lambda a, _: self.signed(node, a), value, Static(0), nodes)
        if isinstance(value, Static) and value.weak:
            if isinstance(node.op, ast.Invert):
                if isinstance(value.value, float):
                    self.mismatch(node, f"`~` on the number {value.value}", "use an integer.")
                return Static(not value.value if isinstance(value.value, bool) else ~value.value)
            return Static(-value.value if isinstance(node.op, ast.USub) else +value.value)
        expr = self.number(value, node.operand)
        match node.op:
            case ast.USub():
                return self.operate("neg", "-", (expr,), node)
            case ast.UAdd():
                return self.operate("add", "+", (expr,), node) if expr.dtype is bool_ else Typed(expr)
            case _:
                return self.operate("not", "~", (expr,), node)

    def compared(
        self, op: ast.cmpop, left: Value, right: Value, node: ast.AST, nodes: tuple[ast.AST, ast.AST]
    ) -> Value:
        name, compute = _COMPARE[type(op)]
        a, b = constant_of(left), constant_of(right)
        if a is not None and b is not None:
            return Static(bool(self.computed("", compute, a[0], b[0], node)))
        if isinstance(op, _IDENTITY):
            self.refuse(
                node,
                f"`{ast.unparse(node)}` compares objects, not numbers",
                "write `==` or `!=`; only constants can be compared with `is` and `in`.",
            )
        x, y = self.pair(left, right, node, nodes)
        return self.operate(name, "comparison", (x, y), node)


def _bits(sign: str, left: int, right: int) -> int:
    """About how many bits a power or shift of constants has."""
    return abs(left).bit_length() * right if sign == "**" and abs(left) > 1 else right if sign == "<<" else 0


def _is_two(exponent: object, base: DType) -> bool:
    """Whether a power is a square: one product, rounded once, as no higher power is."""
    return (type(exponent) is int or (type(exponent) is float and base.is_float)) and exponent == 2


def constant_of(value: Value) -> tuple[Any] | None:
    """The Python value of something known while parsing."""
    if isinstance(value, Static):
        return (value.value,)
    if isinstance(value, Tuple):
        items = [constant_of(item) for item in value.items]
        if all(item is not None for item in items):
            return (tuple(item[0] for item in items if item is not None),)
    return None
