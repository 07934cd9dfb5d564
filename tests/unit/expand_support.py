"""Runs expansions on NumPy arrays, one lane an element: plainly, or with every product that can be contracted fused.

This stands apart from the interpreter on purpose: a target may contract a product and a sum into one operation with one
rounding, and the bounds have to hold then too.  `contract=True` does so wherever a sum has a product for an operand.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from poot.dtypes import DType, bool_, f32
from poot.kernel import ops
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Assign, Break, Cast, Const, Expr, If, Let, Op, Stmt, Var, While
from tools.check_ulp import ulps as ulps

Array = np.ndarray[Any, Any]


def expanded(name: str, *dtypes: DType) -> tuple[tuple[Stmt, ...], Expr]:
    """The statements and the result of a row's expansion, on parameters called x0, x1 …"""
    k = KernelBuilder("test", workgroup=(1, 1, 1))
    args = [k.scalar(f"x{position}", dtype) for position, dtype in enumerate(dtypes)]
    row = ops.lookup(name)
    assert row.expand is not None
    result = row.expand(k, *args)
    return k.finish().body, result


def run(name: str, *args: Array, dtype: DType = f32, contract: bool = False) -> Array:
    """The value of a row's expansion for operands of `dtype`."""
    body, result = expanded(name, *(dtype for _ in args))
    lanes = Lanes({f"x{position}": arg for position, arg in enumerate(args)}, args[0].size, contract)
    with np.errstate(all="ignore"):
        lanes.statements(body, np.ones(args[0].shape, np.bool_))
        return lanes.value(result)


class Lanes:
    """Locals by name, one array each, and the lanes that left the innermost loop."""

    def __init__(self, values: dict[str, Array], size: int, contract: bool) -> None:
        self.values = values
        self.size = size
        self.contract = contract
        self.definitions: dict[str, Expr] = {}
        self.left = np.zeros(size, np.bool_)

    def statements(self, body: tuple[Stmt, ...], mask: Array) -> None:
        for stmt in body:
            active = mask & ~self.left
            if not active.any():
                return
            self.statement(stmt, active)

    def statement(self, stmt: Stmt, mask: Array) -> None:
        match stmt:
            case Let():
                self.values[stmt.name] = self.value(stmt.value)
                self.definitions[stmt.name] = stmt.value
            case Assign():
                self.values[stmt.name] = np.where(mask, self.value(stmt.value), self.values[stmt.name])
                self.definitions.pop(stmt.name, None)
            case If():
                condition = self.value(stmt.condition)
                self.statements(stmt.then, mask & condition)
                self.statements(stmt.orelse, mask & ~condition)
            case While():
                outer, self.left = self.left, ~mask
                while (turn := ~self.left & self.value(stmt.condition)).any():
                    self.left = ~turn
                    self.statements(stmt.body, turn)
                self.left = outer
            case Break():
                self.left = self.left | mask
            case _:
                raise AssertionError(f"expansions do not emit {stmt}")

    def value(self, expr: Expr) -> Array:
        match expr:
            case Const():
                return np.full(self.size, expr.value, expr.dtype.dtype)
            case Var():
                return self.values[expr.name]
            case Cast():
                return convert(self.value(expr.arg), expr.dtype)
            case Op(name="bitcast"):
                return self.value(expr.args[0]).view(expr.dtype.dtype)
            case Op():
                fused = self.fused(expr) if self.contract and expr.name in ("add", "sub") else None
                if fused is not None:
                    return fused
                row = ops.lookup(expr.name)
                assert not row.expands(expr.args[-1].dtype), f"{expr.name} is left in an expansion"
                assert row.evaluate is not None
                return row.evaluate(*(self.value(arg) for arg in expr.args))
            case _:
                raise AssertionError(f"expansions do not hold {expr}")

    def fused(self, expr: Op) -> Array | None:
        """a b ± c rounded once, where an operand is a product."""
        left, right = (self.definition(arg) for arg in expr.args)
        if not expr.dtype.is_float:
            return None
        negate = -1 if expr.name == "sub" else 1
        if isinstance(right, Op) and right.name == "mul":
            a, b = (self.value(arg) for arg in right.args)
            return fma(negate * a, b, self.value(expr.args[0]))
        if isinstance(left, Op) and left.name == "mul":
            a, b = (self.value(arg) for arg in left.args)
            return fma(a, b, negate * self.value(expr.args[1]))
        return None

    def definition(self, expr: Expr) -> Expr:
        while isinstance(expr, Var) and expr.name in self.definitions:
            expr = self.definitions[expr.name]
        return expr


def fma(a: Array, b: Array, c: Array) -> Array:
    """a b + c rounded once: through f64 for f32 (where the product is exact), by exact arithmetic for f64."""
    if a.dtype == np.float32:
        exact = a.astype(np.float64) * b.astype(np.float64)
        total = exact + c.astype(np.float64)
        # The f64 sum is rounded to odd, so that the second rounding sees which side of a tie the exact sum was on.
        high = total - exact
        error = (exact - (total - high)) + (c.astype(np.float64) - high)
        bits = total.view(np.int64)
        inexact = (error != 0) & (bits & 1 == 0) & np.isfinite(total)
        toward = np.where((error > 0) == (total > 0), 1, -1)
        return np.where(inexact, (bits + toward).view(np.float64), total).astype(np.float32)
    return np.array([_fma64(*operands) for operands in zip(a, b, c, strict=True)])


def _fma64(a: float, b: float, c: float) -> float:
    from fractions import Fraction

    plain = a * b + c
    if not np.isfinite(plain) or not np.isfinite(a * b):
        return plain
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    return plain if exact == 0 else float(exact)


def convert(values: Array, dtype: DType) -> Array:
    """What Cast means, for the pairs of dtypes that expansions use."""
    if dtype.is_integer and values.dtype.kind == "f":
        clipped = np.clip(np.nan_to_num(values, nan=0.0), float(dtype.min), float(dtype.max))
        return np.where(clipped >= float(dtype.max), dtype.max, clipped.astype(np.float64).astype(np.int64)).astype(
            dtype.dtype
        )
    return values != 0 if dtype is bool_ else values.astype(dtype.dtype)
