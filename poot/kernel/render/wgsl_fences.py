"""What compilers of WGSL must not see through.

They simplify floats as if sums were associative, NaN did not occur and the sign of zero meant nothing, and contract
products into sums where they like.  An operand of a sum that was rounded itself, or that a comparison and a selection
share, is fenced; so is what a sign is taken from: -(a - b) is not b - a where both are one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from typing_extensions import override

from poot.dtypes import DType, bf16, bool_, f16, f32, f64, u64
from poot.kernel.ir import (
    Alloc,
    Assign,
    BufferParam,
    Cast,
    Const,
    Expr,
    Kernel,
    Let,
    Load,
    Op,
    Store,
    Var,
    contracted,
    operands,
)
from poot.kernel.render import wgsl_helpers as helpers
from poot.kernel.render.threads import ThreadsRenderer
from poot.kernel.render.threads_text import ATOM, UNARY, Code
from poot.target import Target

NARROW_FLOATS = (f16, bf16)

#: What is a product, or what a compiler may write as one: it can leave out the rounding before a sum.
_PRODUCTS = ("mul", "div", "sqrt")
_SUMS = ("add", "sub")

#: What a compiler may turn a comparison with into another that is not the same for NaN, or after rounding.
_COMPARED = (*_SUMS, "mul", "sqrt", "abs")
_WIDE_FLOATS = (f32, f64)


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
            elif isinstance(node, Store) and isinstance(self.arrays[node.buffer], Alloc):
                self._given.setdefault(node.buffer, []).append(node.value)

    def needs_int64(self, dtype: DType) -> None:
        if u64 not in self.target.dtypes:
            raise self.unsupported(f"{dtype} operation", "it needs 64-bit integers, which the adapter lacks")

    def resolved(self, expr: Expr) -> Expr:
        """What a local that never changes stands for."""
        while isinstance(expr, Var) and expr.name in self._values:
            expr = self._values[expr.name]
        return expr

    def unsigned(self, expr: Expr) -> Expr:
        """What a float stands for, but for its sign."""
        expr = self.resolved(expr)
        while isinstance(expr, Op) and expr.name in ("neg", "abs"):
            expr = self.resolved(expr.args[0])
        return expr

    def made_by(self, expr: Expr, *names: str) -> bool:
        """Whether a float is the result of one of some operations, but for its sign."""
        expr = self.unsigned(expr)
        return isinstance(expr, Op) and expr.name in names and expr.dtype.is_float

    def _may_be(self, expr: Expr, test: Callable[[Expr], bool]) -> bool:
        """Whether a test holds of a float, or of what it may be but for its sign.

        That is what a selection, a local that changes or an element of an array of the kernel may be, or a float of
        the other width.
        """
        seen, left = set[int | str](), [expr]
        while left:
            expr = self.resolved(left.pop())
            if id(expr) in seen:
                continue
            if test(expr):
                return True
            seen.add(id(expr))
            if isinstance(expr, Op) and expr.name in ("neg", "abs", "select"):
                left += expr.args[-2:]
            elif isinstance(expr, Cast) and expr.dtype in _WIDE_FLOATS and expr.arg.dtype in _WIDE_FLOATS:
                left.append(expr.arg)
            elif isinstance(expr, (Var, Load)):
                name = expr.name if isinstance(expr, Var) else expr.buffer
                left += () if name in seen else self._given.get(name, ())
                seen.add(name)
        return False

    def _may_hold(self, expr: Expr, *names: str) -> bool:
        """Whether it may be the result of one of some operations."""
        return self._may_be(expr, lambda found: self.made_by(found, *names))

    def may_mislead(self, expr: Expr) -> bool:
        """Whether a comparison with a float may become another, one that differs for NaN or after rounding."""
        return self._may_be(expr, lambda found: isinstance(found, Op) and found.name in _COMPARED)

    def opaque(self, expr: Expr) -> bool:
        """Whether a compiler knows nothing of the bits of a float: they come from memory, or are made as bits."""
        expr = self.resolved(expr)
        if isinstance(expr, Load):
            array = self.arrays[expr.buffer]
            return isinstance(array, BufferParam) and array.access == "read"
        return isinstance(expr, Const) or (isinstance(expr, Op) and expr.name in ("bitcast", "min", "max"))

    def fence(self, code: Code, dtype: DType) -> Code:
        if dtype is f64:
            self.needs_int64(f64)
        return Code(f"{self.helper(f'fence_{dtype.name}', helpers.FENCE[dtype])}({code.text})")

    def apart(self, code: Code, dtype: DType) -> Code:
        """The value itself, in a form that differs from the one that `fence` gives of the same value."""
        if dtype is f64:
            self.needs_int64(f64)
        return Code(f"{self.helper(f'apart_{dtype.name}', helpers.APART[dtype])}({code.text})")

    def may_be_one(self, a: Expr, b: Expr) -> bool:
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
        if isinstance(expr, Cast) and expr.arg.dtype in _WIDE_FLOATS and not expr.dtype.is_float:
            code = self.expr(expr.arg)  # it is compared, with 0 or with the ends of a range
            code = self.fence(code, expr.arg.dtype) if self.may_mislead(expr.arg) else code
            return self.cast(code, expr.arg.dtype, expr.dtype)
        if not isinstance(expr, Const) or expr.value != 0.0 or expr.dtype not in _WIDE_FLOATS:
            return super().expr(expr)
        if math.copysign(1.0, expr.value) < 0:
            return self.from_bits(0x8000 << 48 if expr.dtype is f64 else 0x80000000, expr.dtype)
        self.uses_zero = True
        return Code("zero" if expr.dtype is f32 else "f64(zero)")

    def from_bits(self, bits: int, dtype: DType) -> Code:
        """A float by bits that are known at run time."""
        if dtype is f64:
            self.needs_int64(f64)
            return Code(f"bitcast<f64>(0x{bits:x}lu ^ {helpers.ZERO_64})")
        return Code(f"bitcast<f32>(0x{bits:x}u ^ params.zero)")

    @override
    def zero(self, dtype: DType) -> str:
        """What a load that faults yields; known at run time, as it may get into a sum."""
        if dtype in _WIDE_FLOATS:
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
        """The operand of a change of sign; one whose own operands may change signs instead is fenced."""
        arg = expr.args[0]
        inside = self._may_be(arg, self._from_number) or self._may_hold(arg, *_SUMS, "mul", "div")
        return self.fence(code, expr.dtype) if inside else code

    def _signed(self, expr: Expr) -> bool:
        """Whether a float may be a change of sign, which a compiler may move to what it meets."""
        return self._may_be(expr, lambda found: isinstance(found, Op) and found.name == "neg")

    def operand(self, expr: Op, side: int, code: Code) -> Code:
        """An operand of a float sum, difference, product or quotient."""
        name, arg = expr.name, expr.args[side]
        other = self.resolved(expr.args[1 - side])
        if name in ("sub", "div") and side == 1 and self.may_be_one(arg, other):
            return self.apart(code, arg.dtype)
        if (
            (name in _SUMS and (self.made_by(arg, *_SUMS) or self._may_hold(arg, *_PRODUCTS) or self._signed(arg)))
            or (name == "sub" and self._may_hold(arg, *_SUMS))
            or (name not in _SUMS and self._may_hold(arg, *_PRODUCTS))
            or (name not in _SUMS and (_below_zero(other) or self._signed(other)) and self._may_hold(arg, *_SUMS))
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
        if expr.name == "sub":  # its sign may move on to a factor
            a, b = (
                self.fence(code, f32) if self._signed(part) or self._may_hold(part, *_SUMS) else code
                for part, code in zip(product.args, (a, b), strict=True)
            )
        if expr.name == "sub" and side == 0:
            c = Code(f"-{c.at(ATOM)}", UNARY)
        elif expr.name == "sub":
            a = Code(f"-{a.at(ATOM)}", UNARY)
        return Code(f"fma({a.text}, {b.text}, {c.text})")


def _counts(expr: Expr) -> bool:
    """Whether a compiler that knows the other operand to be 0 gets the same with this one."""
    return isinstance(expr, Const) and expr.value != 0 and math.isfinite(expr.value)


def _below_zero(expr: Expr) -> bool:
    return isinstance(expr, Const) and expr.value < 0
