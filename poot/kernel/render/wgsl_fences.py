"""What compilers of WGSL must not see through.

They simplify floats as if sums were associative and NaN did not occur, and contract products into sums where they like.
An operand of a sum that was rounded itself, or that a comparison and a selection share, is fenced.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from typing_extensions import override

from poot.dtypes import DType, bf16, bool_, f16, f32, f64, u64
from poot.kernel.ir import Alloc, Assign, Cast, Const, Expr, Kernel, Let, Load, Op, Store, Var, contracted, operands
from poot.kernel.render import wgsl_helpers as helpers
from poot.kernel.render.threads import ThreadsRenderer
from poot.kernel.render.threads_text import ATOM, UNARY, Code
from poot.target import Target

NARROW_FLOATS = (f16, bf16)

#: What is a product, or what a compiler may write as one: it can leave out the rounding before a sum.
_PRODUCTS = ("mul", "div", "sqrt")
_SUMS = ("add", "sub")


class WgslFences(ThreadsRenderer):
    """The part of the renderer that keeps floats as they are."""

    def __init__(self, kernel: Kernel, target: Target, *, contract: bool) -> None:
        super().__init__(kernel, target, contract=contract)
        self.uses_zero = False
        self._values = {n.name: n.value for n in self.nodes if isinstance(n, Let) and n.name not in self.changing}
        self._given: dict[str, list[Expr]] = {}
        for node in self.nodes:
            if isinstance(node, (Let, Assign)) and node.name in self.changing:
                self._given.setdefault(node.name, []).append(node.value)
        self._keeping = {
            node.buffer
            for node in self.nodes
            if isinstance(node, Store)
            and isinstance(self.arrays[node.buffer], Alloc)
            and self.made_by(node.value, *_PRODUCTS)
        }

    def needs_int64(self, dtype: DType) -> None:
        if u64 not in self.target.dtypes:
            raise self.unsupported(f"{dtype} operation", "it needs 64-bit integers, which the adapter lacks")

    def resolved(self, expr: Expr) -> Expr:
        """What a local that never changes stands for."""
        while isinstance(expr, Var) and expr.name in self._values:
            expr = self._values[expr.name]
        return expr

    def made_by(self, expr: Expr, *names: str) -> bool:
        """Whether a float is the result of one of some operations, but for its sign."""
        expr = self.resolved(expr)
        while isinstance(expr, Op) and expr.name in ("neg", "abs"):
            expr = self.resolved(expr.args[0])
        return isinstance(expr, Op) and expr.name in names and expr.dtype.is_float

    def _may_be(self, expr: Expr, test: Callable[[Expr], bool]) -> bool:
        """Whether a test holds of a float, or of what a selection or a local that changes may be, but for its sign."""
        seen, left = set[str](), [expr]
        while left:
            expr = self.resolved(left.pop())
            if test(expr):
                return True
            if isinstance(expr, Op) and expr.name in ("neg", "abs", "select"):
                left += expr.args[-2:]
            elif isinstance(expr, Var) and expr.name not in seen:
                seen.add(expr.name)
                left += self._given.get(expr.name, ())
        return False

    def _may_hold(self, expr: Expr, *names: str) -> bool:
        """Whether it may be the result of one of some operations."""
        return self._may_be(expr, lambda found: self.made_by(found, *names))

    def _kept(self, expr: Expr) -> bool:
        """Whether a float comes from an array of the kernel that keeps products, which a compiler sees through."""
        expr = self.resolved(expr)
        return isinstance(expr, Load) and expr.buffer in self._keeping

    def fence(self, code: Code, dtype: DType) -> Code:
        if dtype is f64:
            self.needs_int64(f64)
        return Code(f"{self.helper(f'fence_{dtype.name}', helpers.FENCE[dtype])}({code.text})")

    def _apart(self, code: Code, dtype: DType) -> Code:
        """The value itself, in a form that differs from the one that `fence` gives of the same value."""
        if dtype is f64:
            self.needs_int64(f64)
        return Code(f"{self.helper(f'apart_{dtype.name}', helpers.APART[dtype])}({code.text})")

    def _may_be_one(self, a: Expr, b: Expr) -> bool:
        """Whether two operands are one value, or are variables, which a compiler may know to be."""
        a, b = self.resolved(a), self.resolved(b)
        return a == b or (isinstance(a, Var) and isinstance(b, Var))

    def is_nan(self, dtype: DType) -> str:
        """The function that tests for NaN."""
        if dtype is f64:
            self.needs_int64(f64)
        return self.helper(f"is_nan_{dtype.name}", helpers.IS_NAN[dtype])

    @override
    def expr(self, expr: Expr) -> Code:
        """An expression; 0.0 in a form that a compiler cannot drop from a sum or product."""
        if not isinstance(expr, Const) or expr.value != 0.0 or expr.dtype not in (f32, f64):
            return super().expr(expr)
        self.uses_zero = True
        text = "zero" if expr.dtype is f32 else "f64(zero)"
        return Code(text) if math.copysign(1.0, expr.value) > 0 else Code(f"-{text}", UNARY)

    @override
    def zero(self, dtype: DType) -> str:
        """What a load that faults yields; known at run time, as it may get into a sum."""
        if dtype in (f32, f64):
            return self.expr(Const(0.0, dtype)).text
        if dtype in NARROW_FLOATS:
            return "params.zero"
        return super().zero(dtype)

    def _from_number(self, expr: Expr) -> bool:
        """Whether a float is made from a number that a compiler may know to be 0, or from a bool, which selects."""
        if not isinstance(expr, Cast) or expr.arg.dtype.is_float:
            return False
        return expr.arg.dtype is bool_ or not isinstance(expr.arg, Load)

    def negated(self, expr: Op, code: Code) -> Code:
        """The operand of a change of sign; one made from a number is fenced, whose own sign may change."""
        return self.fence(code, expr.dtype) if self._may_be(expr.args[0], self._from_number) else code

    def operand(self, expr: Op, side: int, code: Code) -> Code:
        """An operand of a float sum, difference, product or quotient."""
        name, arg = expr.name, expr.args[side]
        other = self.resolved(expr.args[1 - side])
        if name in ("sub", "div") and side == 1 and self._may_be_one(arg, other):
            return self._apart(code, arg.dtype)
        if (
            (name in _SUMS and (self.made_by(arg, *_SUMS) or self._may_hold(arg, *_PRODUCTS) or self._kept(arg)))
            or (name == "sub" and self._may_hold(arg, *_SUMS))
            or (name == "mul" and self._may_hold(arg, "mul", "div"))
            or (not _counts(other) and self._may_be(arg, self._from_number))
        ):
            return self.fence(code, arg.dtype)
        return code

    @override
    def operation(self, expr: Op) -> Code:
        """With contraction, a sum over a product is said outright, so that it is the same wherever it stands."""
        side = contracted(expr) if self.contract and expr.dtype is f32 else None
        product = expr if side is None else expr.args[side]
        if side is None or not isinstance(product, Op):
            return super().operation(expr)
        parts = [[self.expr(part) for part in (operands(arg) if arg is product else (arg,))] for arg in expr.args]
        a, b = (self.operand(product, n, code) for n, code in enumerate(parts[side]))
        c = self.operand(expr, 1 - side, parts[1 - side][0])
        if expr.name == "sub" and side == 0:
            c = Code(f"-{c.at(ATOM)}", UNARY)
        elif expr.name == "sub":
            a = Code(f"-{a.at(ATOM)}", UNARY)
        return Code(f"fma({a.text}, {b.text}, {c.text})")


def _counts(expr: Expr) -> bool:
    """Whether a compiler that knows the other operand to be 0 gets the same with this one."""
    return isinstance(expr, Const) and expr.value != 0 and math.isfinite(expr.value)
