"""Literals, operations and conversions in WGSL.

Prepared kernels compute on f32, f64, integers and bools; f16 and bf16 are bits in u32 that are moved and converted.
Narrow integers are kept extended to 32 bits, and brought back to their width where an operation may leave it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from typing_extensions import override

from poot.dtypes import DType, bool_, f16, f32, f64, i32, i64, u32, u64
from poot.kernel.ir import Const, Op
from poot.kernel.render import wgsl_helpers as helpers
from poot.kernel.render.threads_text import ATOM, LOOSE, PRODUCT, SUM, UNARY, Code
from poot.kernel.render.wgsl_division import EXACT
from poot.kernel.render.wgsl_fences import NARROW_FLOATS, WgslFences
from poot.kernel.render.wgsl_helpers import type_of

ARITHMETIC = {"add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT), "div": ("/", PRODUCT)}
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_BITS = {"and": "&", "or": "|", "xor": "^"}
_TRUTH = {
    "and": ("&&", ""),
    "or": ("||", ""),
    "xor": ("!=", ""),
    "min": ("&&", ""),
    "max": ("||", ""),
    "eq": ("==", ""),
    "ne": ("!=", ""),
    "lt": ("&&", "left"),
    "le": ("||", "left"),
    "gt": ("&&", "right"),
    "ge": ("||", "right"),
}
"""Operations on bools: the operator, and which side it negates."""


class WgslExpressions(WgslFences):
    """The part of the renderer that spells expressions."""

    # --- literals ---

    @override
    def constant(self, value: bool | int | float, dtype: DType) -> Code:
        if dtype is bool_:
            return Code("true" if value else "false")
        if dtype.is_integer:
            return _integer(int(value), dtype)
        if dtype in NARROW_FLOATS:
            return Code(f"0x{int.from_bytes(dtype.dtype.type(value).tobytes(), 'little'):04x}u")
        if not math.isfinite(value):
            return self._special(value, dtype)
        text = f"{float(value)!r}lf" if dtype is f64 else f"{_shortest(value)}f"
        return Code(text, UNARY if text.startswith("-") else ATOM)

    def _special(self, value: float, dtype: DType) -> Code:
        """NaN or infinity, which are no constants in WGSL: by bits that are known at run time."""
        if dtype is f64:
            bits = 0x7FF8 << 48 if math.isnan(value) else (0x7FF0 if value > 0 else 0xFFF0) << 48
        else:
            bits = 0x7FC00000 if math.isnan(value) else 0x7F800000 if value > 0 else 0xFF800000
        return self.from_bits(bits, dtype)

    # --- operations ---

    @override
    def op(self, expr: Op, args: Sequence[Code]) -> Code:
        name, dtype = expr.name, expr.args[-1].dtype
        if name == "select":
            return self._select(expr, args)
        if name == "bitcast":
            seen_through = dtype in (f32, f64) and not self.opaque(expr.args[0])
            return self.bitcast(self.fence(args[0], dtype) if seen_through else args[0], dtype, expr.dtype)
        if dtype is bool_:
            return _truth(name, args)
        if name in COMPARE:
            return self._compare(expr, dtype, args)
        return self._float(expr, dtype, args) if dtype.is_float else self._integer(expr, dtype, args)

    def _select(self, expr: Op, args: Sequence[Code]) -> Code:
        condition = self.resolved(expr.args[0])
        values = list(args[1:])
        if expr.dtype in (f32, f64) and isinstance(condition, Op) and condition.name in COMPARE:
            compared = [self.unsigned(arg) for arg in condition.args]
            for side, arg in enumerate(expr.args[1:]):
                if not isinstance(arg, Const) and self.unsigned(arg) in compared:
                    values[side] = self.apart(values[side], expr.dtype)
        test = args[0].plain or args[0].text
        return Code(f"select({values[1].text}, {values[0].text}, {test})")

    def _compare(self, expr: Op, dtype: DType, args: Sequence[Code]) -> Code:
        left, right = args
        if dtype.is_float:
            if self.may_mislead(expr.args[0]):
                left = self.fence(left, dtype)
            if self.may_mislead(expr.args[1]) or self.may_be_one(*expr.args):
                right = self.fence(right, dtype)
            if expr.name == "ne":  # the language's own != is false where an operand is NaN
                return Code(f"!({left.at(PRODUCT)} == {right.at(PRODUCT)})", UNARY)
        text = f"{left.at(PRODUCT)} {COMPARE[expr.name]} {right.at(PRODUCT)}"
        if dtype.is_float and expr.name != "eq":
            return Code(f"{self.helper('holds', helpers.HOLDS)}({text})", plain=text)
        return Code(text, LOOSE)

    def _float(self, expr: Op, dtype: DType, args: Sequence[Code]) -> Code:
        name = expr.name
        if (name, dtype) in EXACT and not self.target.has("correct_division"):
            return self._exact(name, dtype, args)
        if name in ARITHMETIC:
            left, right = (self.operand(expr, side, code) for side, code in enumerate(args))
            sign, level = ARITHMETIC[name]
            return Code(f"{left.at(level)} {sign} {right.at(level + 1)}", level)
        if name == "neg":
            return Code(f"-{self.negated(expr, args[0]).at(ATOM)}", UNARY)
        if name in ("min", "max"):
            if dtype is f64:
                self.needs_int64(f64)
            text = helpers.ordered(dtype, name == "max", self.is_nan(dtype))
            return Code(f"{self.helper(f'{name}_{dtype.name}', text)}({args[0].text}, {args[1].text})")
        # No constant expression, and no root of a square.
        fenced = isinstance(expr.args[0], Const) or (name == "sqrt" and self.may_mislead(expr.args[0]))
        argument = self.fence(args[0], dtype) if fenced else args[0]
        return Code(f"{name}({argument.text})")

    def _exact(self, name: str, dtype: DType, args: Sequence[Code]) -> Code:
        """A quotient or a root that is worked out on bits."""
        function, text = EXACT[name, dtype]
        if dtype is f64:
            self.needs_int64(f64)
            text = text.replace("clz_64", self.helper("clz_64", helpers.CLZ_64))
        return Code(f"{self.helper(function, text)}({', '.join(arg.text for arg in args)})")

    def _integer(self, expr: Op, dtype: DType, args: Sequence[Code]) -> Code:
        name = expr.name
        match name:
            case "add" | "sub" | "mul":
                sign, level = ARITHMETIC[name]
                low, high = self.intervals.exact(expr)
                code = Code(f"{args[0].at(level)} {sign} {args[1].at(level + 1)}", level)
                return code if dtype.min <= low and high <= dtype.max else narrowed(code, dtype)
            case "neg":
                zero = self.constant(0, dtype).text
                return narrowed(Code(f"{zero} - {args[0].at(PRODUCT)}", SUM), dtype)
            case "abs":
                return narrowed(Code(f"abs({args[0].text})"), dtype) if dtype.kind == "int" else args[0]
            case "not":
                code = Code(f"~{args[0].at(UNARY)}", UNARY)
                return narrowed(code, dtype) if dtype.kind == "uint" else code
            case "and" | "or" | "xor":
                return Code(f"{args[0].at(UNARY)} {_BITS[name]} {args[1].at(UNARY)}", LOOSE)
            case "min" | "max":
                return Code(f"{name}({args[0].text}, {args[1].text})")
            case "popcount" | "clz":
                return self._counted(name, dtype, args[0])
            case "floor_div" | "rem":
                return self._division(expr, dtype, args)
            case _:
                return self._shift(expr, dtype, args)

    def _counted(self, name: str, dtype: DType, arg: Code) -> Code:
        """Set bits and leading zeros; the built-in ones take 32 bits."""
        t = type_of(dtype)
        if dtype.bits == 64:
            text = helpers.CLZ_64 if name == "clz" else helpers.POPCOUNT_64
            unsigned = arg.text if t == "u64" else f"bitcast<u64>({arg.text})"
            return self.extended(Code(f"{self.helper(f'{name}_64', text)}({unsigned})"), False, t)
        if dtype.bits < 32 and t == "i32":
            arg = Code(f"{arg.at(UNARY)} & 0x{(1 << dtype.bits) - 1:x}", LOOSE)
        if name == "popcount":
            return Code(f"countOneBits({arg.text})")
        code = Code(f"countLeadingZeros({arg.text})")
        return code if dtype.bits == 32 else Code(f"{code.text} - {_integer(32 - dtype.bits, dtype).text}", SUM)

    def _division(self, expr: Op, dtype: DType, args: Sequence[Code]) -> Code:
        a, b = (self.intervals.of(arg) for arg in expr.args)
        if a[0] >= 0 and b[0] > 0:
            return Code(
                f"{args[0].at(PRODUCT)} {'/' if expr.name == 'floor_div' else '%'} {args[1].at(UNARY)}", PRODUCT
            )
        t = type_of(dtype)
        plain = i64 if t == "i64" else u64 if t == "u64" else i32 if t == "i32" else u32
        make = helpers.floor_div if expr.name == "floor_div" else helpers.rem
        text = make(t, self.constant(0, plain).text, self.constant(1, plain).text)
        function = self.helper(f"{expr.name}_{t}", text)
        code = Code(f"{function}({args[0].text}, {args[1].text})")
        return narrowed(code, dtype) if expr.name == "floor_div" and dtype.kind == "int" else code

    def _shift(self, expr: Op, dtype: DType, args: Sequence[Code]) -> Code:
        low, high = self.intervals.of(expr.args[1])
        if low >= 0 and high < dtype.bits:
            count = (
                f"{low}u" if low == high else f"u32({args[1].text})" if type_of(dtype) != "u32" else args[1].at(ATOM)
            )
            code = Code(f"{args[0].at(UNARY)} {'<<' if expr.name == 'shift_left' else '>>'} {count}", LOOSE)
        else:
            text = helpers.shift(expr.name, dtype, type_of(dtype))
            code = Code(f"{self.helper(f'{expr.name}_{dtype.name}', text)}({args[0].text}, {args[1].text})")
        return narrowed(code, dtype) if expr.name == "shift_left" else code

    # --- conversions ---

    def bitcast(self, arg: Code, source: DType, to: DType) -> Code:
        """The same bits as another dtype of the same width."""
        a, b = type_of(source), type_of(to)
        if source is bool_:
            return self.cast(arg, bool_, to)
        if to is bool_:
            return Code(f"{arg.at(PRODUCT)} != {self.constant(0, source).text}", LOOSE)
        if a == b and (source.kind == to.kind or source.bits < 32):
            return arg
        if source.bits < 32:
            return narrowed(Code(f"{b}({arg.text})"), to)
        return Code(f"bitcast<{b}>({arg.text})")

    @override
    def cast(self, arg: Code, source: DType, to: DType) -> Code:
        if source is to:
            return arg
        if to is bool_:
            return self._to_bool(arg, source)
        if source in NARROW_FLOATS:
            text = helpers.F16_TO_F32 if source is f16 else helpers.BF16_TO_F32
            return self.cast(Code(f"{self.helper(f'{source.name}_to_f32', text)}({arg.text})"), f32, to)
        if to in NARROW_FLOATS:
            return self._narrow_float(arg, source, to)
        if source.is_float and to.is_integer:
            return self._saturated(arg, source, to)
        return self._resized(arg, source, to)

    def _to_bool(self, arg: Code, source: DType) -> Code:
        if source in NARROW_FLOATS:
            return Code(f"({arg.at(UNARY)} & 0x7fffu) != 0u", LOOSE)
        zero = self.constant(0, source).text
        if source.is_float:
            return Code(f"!({arg.at(PRODUCT)} == {zero})", UNARY)
        return Code(f"{arg.at(PRODUCT)} != {zero}", LOOSE)

    def _resized(self, arg: Code, source: DType, to: DType) -> Code:
        """Between integers, from them or bools to floats, and between f32 and f64."""
        a, b = type_of(source), type_of(to)
        if source is bool_ and to.bits == 64:
            return Code(f"select({self.constant(0, to).text}, {self.constant(1, to).text}, {arg.text})")
        if to.is_integer and source.bits < to.bits == 64:
            return self.extended(arg, source.kind == "int", b)
        code = arg if a == b else Code(f"{b}({arg.text})")
        widens = source is bool_ or (source.bits < to.bits and source.kind in ("uint", to.kind))
        return code if widens or not to.is_integer else narrowed(code, to)

    def extended(self, arg: Code, signed: bool, t: str) -> Code:
        """An integer of 32 bits in 64, by hand: some drivers compare what WGSL has sign-extended wrongly."""
        if arg.value is not None:
            return converted(arg, t)
        wide = Code(f"{self.helper('i32_to_u64', helpers.I32_TO_U64)}({arg.text})" if signed else f"u64({arg.text})")
        return wide if t == "u64" else Code(f"bitcast<i64>({wide.text})")

    def _saturated(self, arg: Code, source: DType, to: DType) -> Code:
        low, high = float(to.min), float(to.max)
        if high != to.max or source.dtype.type(high) != high:
            high = 2.0 ** (to.bits - (to.kind == "int"))
        held = {"i32": i32, "u32": u32, "i64": i64, "u64": u64}[type_of(to)]
        zero, least, greatest = (self.constant(value, held).text for value in (0, int(to.min), int(to.max)))
        bounds = self.constant(low, source).text, self.constant(high, source).text
        text = helpers.saturate(source, to, (zero, least, greatest), bounds, self.is_nan(source))
        return Code(f"{self.helper(f'{source.name}_to_{to.name}', text)}({arg.text})")

    def _narrow_float(self, arg: Code, source: DType, to: DType) -> Code:
        """To f16 or bf16, rounded once: through an f32 that holds the value exactly, or is rounded to odd."""
        if source is f64:
            self.needs_int64(f64)
            arg = Code(f"{self.helper('f64_to_odd', helpers.F64_TO_ODD)}({arg.text})")
        elif source.is_integer and source.bits > 16:
            t = "u64" if source.bits == 64 else "u32"
            text = helpers.integer_to_odd(t)
            if t == "u64":
                text = text.replace("clz_64", self.helper("clz_64", helpers.CLZ_64))
            function = self.helper(f"{t}_to_odd", text)
            size = arg.text if source.kind == "uint" else f"{t}(abs({arg.text}))"
            negative = "false" if source.kind == "uint" else f"{arg.at(PRODUCT)} < {self.constant(0, source).text}"
            arg = Code(f"{function}({size}, {negative})")
        elif source is not f32:
            arg = Code(f"f32({arg.text})")
        text = helpers.F32_TO_F16 if to is f16 else helpers.F32_TO_BF16
        return Code(f"{self.helper(f'f32_to_{to.name}', text)}({arg.text})")


def narrowed(code: Code, dtype: DType) -> Code:
    """A value of 32 bits brought back to the width of a narrow integer."""
    return Code(f"extractBits({code.text}, 0u, {dtype.bits}u)") if dtype.bits < 32 else code


def _truth(name: str, args: Sequence[Code]) -> Code:
    if name == "not":
        return Code(f"!{args[0].at(UNARY)}", UNARY)
    sign, negated = _TRUTH[name]
    left, right = (
        f"{'!' if side == negated else ''}{arg.at(UNARY)}" for side, arg in zip(("left", "right"), args, strict=True)
    )
    return Code(f"{left} {sign} {right}", LOOSE)


def converted(code: Code, t: str) -> Code:
    """An integer in another type of 32 or 64 bits; literals are converted here, since WGSL refuses some."""
    if code.value is None:
        return Code(f"{t}({code.text})")
    bits = int(t[1:])
    value = code.value & ((1 << bits) - 1)
    return literal(value - (1 << bits) if t[0] == "i" and value >> (bits - 1) else value, t)


def _integer(value: int, dtype: DType) -> Code:
    return literal(value, type_of(dtype))


def literal(value: int, t: str) -> Code:
    """An integer literal of a type of 32 or 64 bits."""
    if t == "i64" and value == -(2**63):
        return Code(f"({value + 1}li - 1li)", value=value)
    if t == "i32" and value == -(2**31):
        return Code(f"i32({value})", value=value)
    suffix = {"i32": "", "u32": "u", "i64": "li", "u64": "lu"}[t]
    return Code(f"{value}{suffix}", ATOM if value >= 0 else UNARY, value=value)


def _shortest(value: float) -> str:
    """The shortest decimal that reads back as the same f32."""
    text = str(f32.dtype.type(value))
    return text if any(mark in text for mark in ".e") else f"{text}.0"
