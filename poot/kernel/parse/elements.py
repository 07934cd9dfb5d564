"""Attributes of arrays and Python objects, and the elements that a subscript names."""

from __future__ import annotations

import ast

from poot.dtypes import DType
from poot.kernel.ir import Expr, Index
from poot.kernel.parse.conditions import Conditions
from poot.kernel.parse.values import Array, Static, Tuple, Typed, Value, describe


class Elements(Conditions):
    """What stands after a dot or in brackets."""

    def attribute(self, node: ast.Attribute) -> Value:
        owner = self.value(node.value)
        match owner:
            case Array():
                return self.array_attribute(owner, node)
            case Static() if not owner.weak and not isinstance(owner.value, (str, DType)):
                return self.member(node, owner.value)
            case _:
                text = ast.unparse(node.value)
                self.unknown(
                    node,
                    f"`{text}` is {describe(owner)}, which has no `.{node.attr}` in a kernel",
                    "write functions and casts in front: `f32(x)`, `math.exp(x)`.",
                )

    def array_attribute(self, array: Array, node: ast.Attribute) -> Value:
        match node.attr:
            case "shape":
                return Tuple(tuple(self.extent(array, axis) for axis in range(array.rank)))
            case "dtype":
                return Static(array.dtype)
            case "ndim":
                return Static(array.rank)
            case "size":
                size: Value = self.extent(array, 0)
                for axis in range(1, array.rank):
                    size = self.binary(ast.Mult(), size, self.extent(array, axis), node, (node, node))
                return size
            case _:
                hint = self.near(node.attr, {"shape", "dtype", "ndim", "size"})
                self.unknown(
                    node,
                    f"the array `{array.name}` has no `.{node.attr}` in a kernel",
                    hint or "it has .shape, .dtype, .ndim and .size.",
                )

    def extent(self, array: Array, axis: int) -> Value:
        """The length of an array along an axis."""
        if array.space is not None:
            return Static(array.shape[axis])
        return Typed(Index("extent", axis, array.name, self.index, self.k.where))

    def subscript(self, node: ast.Subscript) -> Value:
        base = self.value(node.value)
        match base:
            case Array():
                place = self.place(base, node)
                return Typed(self.k.load(base.name, place, checked=self.checked))
            case Tuple() | Static(value=tuple()):
                items = base.items if isinstance(base, Tuple) else tuple(self.constant(node, v) for v in base.value)
                number = self.value(node.slice)
                if not isinstance(number, Static) or not isinstance(number.value, int):
                    self.mismatch(
                        node, f"`{ast.unparse(node)}` indexes a tuple by a value of run time", "use a constant."
                    )
                if not -len(items) <= number.value < len(items):
                    remedy = f"use 0 to {len(items) - 1}." if len(items) > 1 else "use 0." if items else "it is empty."
                    if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
                        remedy = f"{remedy[:-1]}, or declare the array with more axes."
                    self.mismatch(node, f"index {number.value} of a tuple of {len(items)}", remedy)
                return items[number.value]
            case _:
                text = ast.unparse(node.value)
                remedy = f"write all indices together: `{_joined(node)}`." if _joined(node) else "index an array."
                self.mismatch(node, f"`{text}` is {describe(base)}, which cannot be indexed", remedy)

    def place(self, array: Array, node: ast.Subscript) -> list[Expr]:
        """The indices of an element."""
        written = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        found = self.sequence([self.later(item) for item in written])
        if len(found) == 1 and isinstance(found[0], Tuple):
            found, written = list(found[0].items), written * len(found[0].items)
        if len(found) != array.rank:
            example = ", ".join("ijkl"[: array.rank])
            self.mismatch(
                node,
                f"`{array.name}` has rank {array.rank}, indexed with {len(found)}",
                f"write `{array.name}[{example}]`.",
            )
        return [self.as_index(v, n, array, axis) for axis, (v, n) in enumerate(zip(found, written, strict=True))]

    def as_index(self, value: Value, node: ast.AST, array: Array, axis: int) -> Expr:
        """A value as an index: integers of any dtype, where no wide one wraps into range."""
        text = ast.unparse(node)
        if isinstance(value, Static) and value.weak and isinstance(value.value, int):
            if isinstance(value.value, bool):
                self.mismatch(node, f"`{text}` is a bool, used as an index", "write 0 or 1.")
            if value.value < 0:
                length = f"len({array.name})" if axis == 0 else f"{array.name}.shape[{axis}]"
                self.mismatch(
                    node, f"index {value.value} of `{array.name}` is negative", f"write `{length} - {-value.value}`."
                )
            return self.number(value, node, self.index)
        expr = self.number(value, node)
        dtype, index = expr.dtype, self.index
        if not dtype.is_integer:
            remedy = f"write `int({text})`." if dtype.is_float else "choose with `if`."
            self.mismatch(node, f"`{text}` is {dtype}, used as an index", remedy)
        if dtype is index:
            return expr
        if dtype.max > index.max:
            # Clamped to one past every extent, so that an index too large for the index dtype is still out of range;
            # bound, so that a fault can name it as it was.
            expr = self.bind(expr, "at")
            expr = self.k.op("min", expr, self.k.const(int(index.max), dtype))
            if dtype.min < index.min:
                expr = self.k.op("max", expr, self.k.const(-1, dtype))
        return self.k.cast(expr, index)


def _joined(node: ast.Subscript) -> str:
    """`a[i][j]` written as `a[i, j]`, or ""."""
    parts: list[str] = []
    base: ast.expr = node
    while isinstance(base, ast.Subscript):
        parts.insert(0, ast.unparse(base.slice))
        base = base.value
    return f"{ast.unparse(base)}[{', '.join(parts)}]" if len(parts) > 1 else ""
