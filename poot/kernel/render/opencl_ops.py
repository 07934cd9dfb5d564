"""Literals, operations and conversions in OpenCL C.

Prepared kernels compute on f32, f64, integers and bools; f16 and bf16 are bits in ushort that are moved and converted.
Signed overflow is undefined in C: what may wrap is computed unsigned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from typing_extensions import override

from poot.dtypes import DType, bf16, bool_, f16, f32, f64, i64
from poot.kernel.ir import Op, contracted, operands
from poot.kernel.render import opencl_helpers as helpers
from poot.kernel.render.opencl_helpers import type_of, unsigned_of
from poot.kernel.render.threads import ThreadsRenderer
from poot.kernel.render.threads_text import ATOM, LOOSE, PRODUCT, SUM, UNARY, Code

_ARITHMETIC = {"add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT), "div": ("/", PRODUCT)}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_BITS = {"and": "&", "or": "|", "xor": "^"}
TRUTH = {"and": "&&", "or": "||", "xor": "!=", "min": "&&", "max": "||"}
_FLOAT = {"abs": "fabs", "sqrt": "sqrt"}
_NARROW = (f16, bf16)


class OpenCLExpressions(ThreadsRenderer):
    """The part of the renderer that spells expressions."""

    # --- expressions ---

    @override
    def constant(self, value: bool | int | float, dtype: DType) -> Code:
        if dtype is bool_:
            return Code("true" if value else "false")
        if dtype.is_integer:
            return _integer(int(value), dtype)
        if dtype in _NARROW:
            bits = int.from_bytes(dtype.dtype.type(value).tobytes(), "little")
            return Code(f"(ushort)0x{bits:04x}", UNARY)
        if math.isnan(value) or math.isinf(value):
            text = "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
            return Code(f"(double){text}" if dtype is f64 else text, UNARY)
        text = repr(float(value)) if dtype is f64 else _shortest(value) + "f"
        return Code(text, UNARY if text.startswith("-") else ATOM)

    @override
    def op(self, expr: Op, args: Sequence[Code]) -> Code:
        name, dtype = expr.name, expr.args[-1].dtype
        if name == "select":
            condition, a, b = args
            return Code(f"{condition.at(UNARY)} ? {a.at(UNARY)} : {b.at(UNARY)}", LOOSE)
        if name == "bitcast":
            return self._bitcast(args[0], dtype, expr.dtype)
        if name in _COMPARE and dtype is not bool_:
            return Code(f"{args[0].at(PRODUCT)} {_COMPARE[name]} {args[1].at(PRODUCT)}", LOOSE)
        if dtype is bool_:
            if name == "not":
                return Code(f"!{args[0].at(UNARY)}", UNARY)
            return Code(f"{args[0].at(UNARY)} {TRUTH.get(name) or _COMPARE[name]} {args[1].at(UNARY)}", LOOSE)
        return self._float(name, dtype, args) if dtype.is_float else self._integer(expr, dtype, args)

    @override
    def operation(self, expr: Op) -> Code:
        """With contraction, a sum over a product is one function, so that it is the same wherever it stands."""
        side = contracted(expr) if self.contract else None
        if side is None:
            return super().operation(expr)
        parts = [
            [self.expr(part) for part in (operands(arg) if n == side else (arg,))] for n, arg in enumerate(expr.args)
        ]
        (a, b), (c,) = parts[side], parts[1 - side]
        if expr.name == "sub" and side == 0:
            c = Code(f"-{c.at(ATOM)}", UNARY)
        elif expr.name == "sub":
            a = Code(f"-{a.at(ATOM)}", UNARY)
        name = f"multiply_add_{expr.dtype.name}"
        return Code(f"{self.helper(name, helpers.multiply_add(expr.dtype))}({a.text}, {b.text}, {c.text})")

    def _float(self, name: str, dtype: DType, args: Sequence[Code]) -> Code:
        if name in _ARITHMETIC:
            sign, level = _ARITHMETIC[name]
            return Code(f"{args[0].at(level)} {sign} {args[1].at(level + 1)}", level)
        if name == "neg":
            return Code(f"-{args[0].at(ATOM)}", UNARY)
        if name in _FLOAT:
            return Code(f"{_FLOAT[name]}({args[0].text})")
        if name not in ("min", "max"):
            return Code(f"{self.helper(f'{name}_{dtype.name}', helpers.rounded(name, dtype))}({args[0].text})")
        function = self.helper(f"{name}_{dtype.name}", helpers.ordered(dtype, name == "max"))
        return Code(f"{function}({args[0].text}, {args[1].text})")

    def _integer(self, expr: Op, dtype: DType, args: Sequence[Code]) -> Code:
        name = expr.name
        t = type_of(dtype)
        if dtype.bits < 32 and name in ("min", "max", "popcount", "clz"):
            # Selections are ints by themselves, and the built-in functions go by the types of operands.
            args = [arg if arg.text.isidentifier() else Code(f"({t}){arg.at(UNARY)}", UNARY) for arg in args]
        match name:
            case "add" | "sub" | "mul" | "neg":
                return self._wrapping(expr, dtype, args)
            case "abs":
                if dtype.kind == "uint":
                    return args[0]
                return Code(f"{self.helper(f'abs_{dtype.name}', helpers.absolute(dtype))}({args[0].text})")
            case "not":
                return Code(f"({t})~{args[0].at(UNARY)}" if dtype.bits < 32 else f"~{args[0].at(UNARY)}", UNARY)
            case "popcount" | "clz":
                return Code(f"{name}({args[0].text})")
            case "and" | "or" | "xor":
                text = f"{args[0].at(UNARY)} {_BITS[name]} {args[1].at(UNARY)}"
                return Code(f"({t})({text})", UNARY) if dtype.bits < 32 else Code(text, LOOSE)
            case "min" | "max":
                return Code(f"{name}({args[0].text}, {args[1].text})")
            case "floor_div" | "rem":
                return self._division(expr, dtype, args)
            case _:
                return self._shift(expr, dtype, args)

    def _wrapping(self, expr: Op, dtype: DType, args: Sequence[Code]) -> Code:
        """Sums, differences and products: plain where they cannot wrap, else computed unsigned."""
        t, u = type_of(dtype), unsigned_of(dtype)
        low, high = self.intervals.exact(expr)
        fits = dtype.min <= low and high <= dtype.max
        sign, level = ("-", SUM) if expr.name == "neg" else _ARITHMETIC[expr.name]
        operands = [self.constant(0, dtype), *args] if expr.name == "neg" else args
        plain = f"{operands[0].at(level)} {sign} {operands[1].at(level + 1)}"
        if fits and dtype.bits >= 32:
            return Code(f"-{args[0].at(ATOM)}", UNARY) if expr.name == "neg" else Code(plain, level)
        if dtype.kind == "uint" and dtype.bits >= 32:
            return Code(plain, level)
        if dtype.bits < 16 or (dtype.bits == 16 and expr.name != "mul"):
            return Code(f"({t})({plain})", UNARY)
        a, b = (unsigned(operand, u) for operand in operands)
        text = f"{at(a, level)} {sign} {at(b, level + 1)}"
        return Code(f"({t})({text})", UNARY, (text, level) if dtype.bits >= 32 else None)

    def _division(self, expr: Op, dtype: DType, args: Sequence[Code]) -> Code:
        a, b = (self.intervals.of(arg) for arg in expr.args)
        sign = "/" if expr.name == "floor_div" else "%"
        if a[0] >= 0 and b[0] > 0:
            text = f"{args[0].at(PRODUCT)} {sign} {args[1].at(UNARY)}"
            return Code(text, PRODUCT) if dtype.bits >= 32 else Code(f"({type_of(dtype)})({text})", UNARY)
        make = helpers.floor_div if expr.name == "floor_div" else helpers.rem
        function = self.helper(f"{expr.name}_{dtype.name}", make(dtype))
        return Code(f"{function}({args[0].text}, {args[1].text})")

    def _shift(self, expr: Op, dtype: DType, args: Sequence[Code]) -> Code:
        left = expr.name == "shift_left"
        low, high = self.intervals.of(expr.args[1])
        t = type_of(dtype)
        if low >= 0 and high < dtype.bits:
            if not left:
                text = f"{args[0].at(UNARY)} >> {args[1].at(UNARY)}"
            else:
                text = f"{at(unsigned(args[0], unsigned_of(dtype)), UNARY)} << {args[1].at(UNARY)}"
            if dtype.bits >= 32 and not (left and dtype.kind == "int"):
                return Code(text, LOOSE)
            return Code(f"({t})({text})", UNARY, (text, LOOSE) if dtype.bits >= 32 else None)
        function = self.helper(f"{expr.name}_{dtype.name}", helpers.shift(dtype, left))
        return Code(f"{function}({args[0].text}, {args[1].text})")

    def _bitcast(self, arg: Code, source: DType, to: DType) -> Code:
        if type_of(source) == type_of(to):
            return arg
        if source is bool_:
            return Code(f"({type_of(to)}){arg.at(UNARY)}", UNARY)
        if source.is_integer and to.is_integer:
            wrapping = arg.wrapping if to.kind == "uint" and to.bits >= 32 else None
            return Code(*wrapping) if wrapping else Code(f"({type_of(to)}){arg.at(UNARY)}", UNARY)
        return Code(f"as_{type_of(to)}({arg.text})")

    # --- conversions ---

    @override
    def cast(self, arg: Code, source: DType, to: DType) -> Code:
        if source is to:
            return arg
        if to is bool_:
            if source in _NARROW:
                return Code(f"({arg.at(UNARY)} & 0x7fff) != 0", LOOSE)
            return Code(f"{arg.at(PRODUCT)} != {self.constant(0, source).text}", LOOSE)
        if source in _NARROW:
            wide = self._widen(arg, source)
            return self.cast(wide, f32, to)
        if to in _NARROW:
            return self._narrow(arg, source, to)
        if source.is_float and to.is_integer:
            function = self.helper(f"{source.name}_to_{to.name}", helpers.saturate(source, to))
            return Code(f"{function}({arg.text})")
        return Code(f"({type_of(to)}){arg.at(UNARY)}", UNARY)

    def _widen(self, arg: Code, source: DType) -> Code:
        text = helpers.F16_TO_F32 if source is f16 else helpers.BF16_TO_F32
        return Code(f"{self.helper(f'{source.name}_to_f32', text)}({arg.text})")

    def _narrow(self, arg: Code, source: DType, to: DType) -> Code:
        """To f16 or bf16, rounded once: through an f32 that holds the value exactly, or is rounded to odd."""
        if source is f64:
            arg = Code(f"{self.helper('f64_to_odd', helpers.F64_TO_ODD)}({arg.text})")
        elif source.is_integer and source.bits > 16:
            function = self.helper("integer_to_odd", helpers.INTEGER_TO_ODD)
            if source.kind == "uint":
                arg = Code(f"{function}({arg.text}, false)")
            else:
                magnitude = self.helper("abs_i64", helpers.absolute(i64))
                arg = Code(f"{function}({magnitude}({arg.text}), {arg.at(PRODUCT)} < 0)")
        elif source is not f32:
            arg = Code(f"(float){arg.at(UNARY)}", UNARY)
        text = helpers.F32_TO_F16 if to is f16 else helpers.F32_TO_BF16
        return Code(f"{self.helper(f'f32_to_{to.name}', text)}({arg.text})")


def _integer(value: int, dtype: DType) -> Code:
    if dtype.bits < 32:
        return Code(f"({type_of(dtype)}){value}", UNARY)
    suffix = {"int": "", "uint": "u"}[dtype.kind] + ("L" if dtype.bits == 64 else "")
    if value == dtype.min and dtype.kind == "int":
        return Code("LONG_MIN" if dtype.bits == 64 else "INT_MIN", ATOM)
    unsigned = "u" + ("L" if dtype.bits == 64 else "")
    wrapping = (f"{value}{unsigned}", ATOM) if value >= 0 else None
    return Code(f"{value}{suffix}", ATOM if value >= 0 else UNARY, wrapping)


def unsigned(code: Code, u: str) -> tuple[str, int]:
    """A value as the unsigned type has it: its text, and how tightly that binds."""
    return code.wrapping or (f"({u}){code.at(UNARY)}", UNARY)


def at(text: tuple[str, int], level: int) -> str:
    """The text, in parentheses where it binds less tightly than `level`."""
    return text[0] if text[1] >= level else f"({text[0]})"


def _shortest(value: float) -> str:
    """The shortest decimal that reads back as the same f32."""
    text = str(f32.dtype.type(value))
    return text if any(mark in text for mark in ".e") else f"{text}.0"
