"""Scalar operations and conversions as Triton expressions, for scalars and blocks alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from poot.dtypes import DType, bf16, bool_, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from poot.errors import Unsupported
from poot.kernel.ir import Op

TYPES: dict[DType, str] = {
    bool_: "tl.int1",
    i8: "tl.int8",
    u8: "tl.uint8",
    i16: "tl.int16",
    u16: "tl.uint16",
    i32: "tl.int32",
    u32: "tl.uint32",
    i64: "tl.int64",
    u64: "tl.uint64",
    f16: "tl.float16",
    bf16: "tl.bfloat16",
    f32: "tl.float32",
    f64: "tl.float64",
}
_HALVES = (f16, bf16)
_INFIX = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


@dataclass(frozen=True, slots=True)
class Term:
    """An expression: its text, whether it is a block of all lanes or one scalar, and its value if it is a literal."""

    text: str
    dtype: DType
    vector: bool = False
    value: bool | int | float | None = None


def literal(value: bool | int | float, dtype: DType) -> Term:
    """A constant, with its dtype."""
    if dtype.is_float:
        number = float(value)
        past_f16 = dtype is bf16 and number != 0 and not 2.0**-14 <= abs(number) < 65504  # and some bf16 go through f16
        if _is_negative_zero(number) or (past_f16 and math.isfinite(number)):
            pattern = int(np.asarray(number).astype(dtype.dtype).view(f"i{dtype.itemsize}"))
            bits = f"tl.full((), {pattern}, tl.int{dtype.bits})"
            return Term(f"{bits}.to({TYPES[dtype]}, bitcast=True)", dtype, False, value)
        text = repr(number) if math.isfinite(number) else f'float("{number}")'
    else:
        text = repr(bool(value)) if dtype is bool_ else repr(int(value))
    return Term(f"tl.full((), {text}, {TYPES[dtype]})", dtype, False, value)


def _is_negative_zero(number: float) -> bool:
    """Whether a literal has to be given as bits: Triton 3.6 takes every zero for the positive one."""
    return number == 0 and math.copysign(1.0, number) < 0


def _is_f32(number: float) -> bool:
    with np.errstate(over="ignore"):
        return float(np.float32(number)) == number


@dataclass(slots=True)
class Spelling:
    """Spells operations; `used` collects the helpers that they call, `contract` rounds a sum over a product once."""

    target: str
    contract: bool = False
    used: set[str] = field(default_factory=set[str])

    def call(self, helper: str, *arguments: str) -> str:
        """A call of one of `triton_helpers`."""
        self.used.add(helper)
        return f"{helper}({', '.join(map(plain, arguments))})"

    # --- operations ---

    def op(self, op: Op, args: list[Term]) -> Term:
        """The value of a native row."""
        dtype = args[-1].dtype
        vector = any(arg.vector for arg in args)
        name = op.name
        if name == "bitcast":
            return Term(self.bitcast(args[0], op.dtype), op.dtype, vector)
        if name == "select":
            return Term(f"tl.where({', '.join(plain(arg.text) for arg in args)})", dtype, vector)
        if dtype in _HALVES:
            raise Unsupported(what=f"{name} on {dtype}", target=self.target, message="the kernel has not been prepared")
        if name in _COMPARE:
            return Term(f"({self._pair(args, _COMPARE[name])})", bool_, vector)
        if name in _INFIX:
            return Term(f"({self._pair(args, _INFIX[name])})", dtype, vector)
        return Term(_ROWS[name](self, dtype, args), op.dtype, vector)

    def multiply_add(self, op: Op, product: list[Term], other: Term, side: int) -> Term:
        """A sum or difference whose operand `side` is the product of two values, rounded once."""
        a, b = (term.text for term in product)
        c = other.text
        if op.name == "sub" and side == 0:
            c = self.call("negated", c)
        elif op.name == "sub":
            a = self.call("negated", a)
        vector = any(term.vector for term in (*product, other))
        return Term(f"tl.fma({plain(a)}, {plain(b)}, {plain(c)})", op.dtype, vector)

    def _pair(self, args: list[Term], sign: str) -> str:
        left, right = args
        return f"{_beside(left, right)} {sign} {_beside(right, left)}"

    def bitcast(self, arg: Term, to: DType) -> str:
        """The same bits as another dtype."""
        if arg.dtype is bool_:
            return self.bitcast(Term(f"{arg.text}.to(tl.uint8)", u8), to)
        if to is bool_:
            return f"({arg.text} != 0)"
        return arg.text if arg.dtype is to else f"{arg.text}.to({TYPES[to]}, bitcast=True)"

    # --- conversions ---

    def cast(self, arg: Term, to: DType) -> Term:
        """A value converted as docs/numerics.md says."""
        return Term(self._convert(arg.text, arg.dtype, to), to, arg.vector)

    def _convert(self, x: str, source: DType, to: DType) -> str:
        if source is to:
            return x
        if to is bool_:
            return f"({x}.to(tl.float32) != 0.0)" if source in _HALVES else f"({x} != 0)"
        if source in _HALVES and to is not f32:
            return self._convert(f"{x}.to(tl.float32)", f32, to)
        if to in _HALVES:
            return f"{self._odd(x, source)}.to({TYPES[to]})"
        if source.is_float and to.is_integer:
            return self._whole(x, source, to)
        return f"{x}.to({TYPES[to]})"

    def _odd(self, x: str, source: DType) -> str:
        """A wider number as an f32 that rounds on to 16 bits as the number itself would."""
        if source is f32:
            return x
        if source in (i64, u64):
            return self.call("rounded_to_odd", self.call(f"sticky_{_kind(source)}", x))
        if source in (i32, u32):
            return self.call("rounded_to_odd", f"{x}.to(tl.float64)")
        return self.call("rounded_to_odd", x) if source is f64 else f"{x}.to(tl.float32)"

    def _whole(self, x: str, source: DType, to: DType) -> str:
        """f32 or f64 to an integer, saturating."""
        low, high = int(to.min), int(to.max)
        if to.bits < (32 if source is f32 else 64):
            wide = to if to.bits >= 32 else i32
            inside = self.call("clamped", x, repr(float(low)), repr(float(high)))
            text = f"{inside}.to({TYPES[wide]})"
            return text if wide is to else f"{text}.to({TYPES[to]})"
        past, below = 2.0 ** (to.bits - (to.kind == "int")), float(low) if to.kind == "int" else -1.0
        whole = f"{x}.to({TYPES[to]})"
        return self.call("saturated", x, whole, repr(below), repr(past), repr(low), repr(high))


def plain(text: str) -> str:
    """An expression without the parentheses around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if position == len(text) - 1 else text
    return text


def _beside(term: Term, other: Term) -> str:
    """An operand: a literal beside a typed value takes its dtype, and can be written plainly."""
    value = term.value
    if value is None or other.value is not None or term.dtype is bool_:
        return term.text
    if term.dtype.is_float:
        number = float(value)
        if not math.isfinite(number) or term.dtype in _HALVES or _is_negative_zero(number):
            return term.text
        if term.dtype is f64 and not _is_f32(number):  # comparisons of Triton 3.6 make it one
            return term.text
        return repr(number) if number >= 0 else f"({number!r})"
    return repr(int(value)) if value >= 0 else f"({int(value)!r})"


def _kind(dtype: DType) -> str:
    return "signed" if dtype.kind == "int" else "unsigned"


# --- rows -----------------------------------------------------------------------------------------------------------

_Row = Callable[[Spelling, DType, list[Term]], str]


def _neg(s: Spelling, dtype: DType, args: list[Term]) -> str:
    return s.call("negated", args[0].text) if dtype.is_float else f"(0 - {args[0].text})"


def _abs(s: Spelling, dtype: DType, args: list[Term]) -> str:
    return args[0].text if dtype.kind == "uint" else f"tl.abs({plain(args[0].text)})"


def _sqrt(s: Spelling, dtype: DType, args: list[Term]) -> str:
    return f"tl.{'sqrt_rn' if dtype is f32 else 'sqrt'}({plain(args[0].text)})"


def _function(name: str) -> _Row:
    return lambda s, dtype, args: f"tl.{name}({plain(args[0].text)})"


def _trunc(s: Spelling, dtype: DType, args: list[Term]) -> str:
    return s.call("truncated", args[0].text)


def _round(s: Spelling, dtype: DType, args: list[Term]) -> str:
    return s.call(f"rounded_{dtype}", args[0].text)


def _not(s: Spelling, dtype: DType, args: list[Term]) -> str:
    return f"(~{args[0].text})"


def _bits(name: str) -> _Row:
    def spell(s: Spelling, dtype: DType, args: list[Term]) -> str:
        x = args[0].text
        unsigned = {8: u8, 16: u16, 32: u32, 64: u64}[dtype.bits]
        if dtype is not unsigned:
            x = f"{x}.to({TYPES[unsigned]}, bitcast=True)"
        width = max(dtype.bits, 32)
        if dtype.bits < 32:
            x = f"{x}.to(tl.uint32)"
        count = s.call(f"{name}_{width}", x)
        if name == "clz" and dtype.bits < 32:
            count = f"({count} - {32 - dtype.bits})"
        return f"{count}.to({TYPES[dtype]})"

    return spell


def _div(s: Spelling, dtype: DType, args: list[Term]) -> str:
    a, b = (arg.text for arg in args)
    return f"tl.div_rn({plain(a)}, {plain(b)})" if dtype is f32 else f"({a} / {b})"


def _divide(name: str) -> _Row:
    def spell(s: Spelling, dtype: DType, args: list[Term]) -> str:
        a, b = args
        divisor = b.value
        if divisor and divisor > 0 and a.value is None:
            number = int(divisor)
            if number & (number - 1) == 0:
                return f"({a.text} & {number - 1})" if name == "rem" else f"({a.text} >> {number.bit_length() - 1})"
            if dtype.kind == "uint":
                return f"({a.text} {'%' if name == 'rem' else '//'} {number})"
        return s.call(f"{name}_{_kind(dtype)}", a.text, b.text)

    return spell


def _extreme(name: str) -> _Row:
    def spell(s: Spelling, dtype: DType, args: list[Term]) -> str:
        a, b = (arg.text for arg in args)
        if dtype is bool_:
            return f"({a} {'|' if name == 'max' else '&'} {b})"
        if dtype.is_float:
            return s.call("greater" if name == "max" else "lesser", a, b)
        return f"tl.{name}imum({plain(a)}, {plain(b)})"

    return spell


def _shift(name: str) -> _Row:
    def spell(s: Spelling, dtype: DType, args: list[Term]) -> str:
        a, count = args
        if count.value is not None and a.value is None and 0 <= count.value < dtype.bits:
            return f"({a.text} {'<<' if name == 'shift_left' else '>>'} {int(count.value)})"
        helper = name if name == "shift_left" else f"{name}_{_kind(dtype)}"
        if dtype.bits == 64 and helper != "shift_right_signed":
            # By halves: LLVM's own form for NVIDIA may look at the low 32 bits of the count alone.
            return s.call(f"{helper}_64", a.text, count.text)
        return s.call(helper, a.text, count.text, str(dtype.bits))

    return spell


_ROWS: dict[str, _Row] = {
    "neg": _neg,
    "abs": _abs,
    "sqrt": _sqrt,
    "floor": _function("floor"),
    "ceil": _function("ceil"),
    "trunc": _trunc,
    "round": _round,
    "not": _not,
    "popcount": _bits("popcount"),
    "clz": _bits("clz"),
    "div": _div,
    "floor_div": _divide("floor_div"),
    "rem": _divide("rem"),
    "min": _extreme("min"),
    "max": _extreme("max"),
    "shift_left": _shift("shift_left"),
    "shift_right": _shift("shift_right"),
}
