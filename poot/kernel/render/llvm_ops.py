"""The native rows of the scalar operation table as LLVM instructions, for scalars and vectors of lanes alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from poot.dtypes import DType, bool_, f32, f64
from poot.errors import Unsupported
from poot.kernel.ir import Expr, Op, contracted, operands
from poot.kernel.render.llvm_division import divide
from poot.kernel.render.llvm_emit import REGISTER, Emitter, Value, boolean, every, zero
from poot.kernel.uniform import UNIFORM, op_form

_FLOAT_COMPARISONS = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_FLOAT_UNARY = {
    "abs": "fabs",
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "round": "roundeven",
}
_BITWISE = {"and": "and", "or": "or", "xor": "xor"}
_ARITHMETIC = {"add", "sub", "mul"}


def operation(e: Emitter, expr: Op, value: Callable[[Expr], Value]) -> Value:
    """The value of an operation, whose operands `value` gives; with contraction, a sum over a product is one."""
    side = contracted(expr) if e.contract else None
    if side is None:
        return apply(e, expr, [value(arg) for arg in expr.args])
    parts = [[value(part) for part in (operands(arg) if n == side else (arg,))] for n, arg in enumerate(expr.args)]
    return _multiply_add(e, expr, parts[side], parts[1 - side][0], side)


def apply(e: Emitter, op: Op, args: Sequence[Value]) -> Value:
    """The value of a native operation; arithmetic on affine operands stays on their scalars."""
    form = op_form(op, [arg.form for arg in args], e.lanes)
    dtype = args[-1].dtype
    if form is not None:
        operands, types = [arg.text for arg in args], REGISTER
    else:
        operands, types = [e.vector(arg) for arg in args], e.register
    if op.name == "bitcast":
        return Value(bitcast(e, operands[0], dtype, op.dtype, form is None), op.dtype, form)
    if op.name == "select":
        condition = args[0].text if args[0].uniform else operands[0]
        mask = REGISTER[bool_] if args[0].uniform else types[bool_]
        t = types[dtype]
        return Value(
            e.emit(f"select {mask} {condition}, {t} {operands[1]}, {t} {operands[2]}"), dtype, form, *_hull(args[1:])
        )
    if op.name in ("floor_div", "rem"):
        text = divide(e, op.name, dtype, types[dtype], args, operands, vector=form is None)
        return Value(text, dtype, form, *_bounds(op.name, dtype, args))
    bounds = _bounds(op.name, dtype, args) if dtype.is_integer and op.dtype is dtype else (None, None)
    spell = _SPELLINGS[op.name]
    fits = form is not None and bounds[0] is not None
    return Value(spell(e, dtype, types[dtype], operands, fits), op.dtype, form, *bounds)


def _multiply_add(e: Emitter, expr: Op, product: Sequence[Value], other: Value, side: int) -> Value:
    """A sum or difference whose operand `side` is the product of two values.

    LLVM's `fmuladd` rounds once on a target that does so in one instruction, and twice on any other: the same wherever
    the value is computed, which flags that merely allow contraction would not be.
    """
    args = (*product, other)
    uniform = all(arg.uniform for arg in args)
    a, b, c = ((arg.text if uniform else e.vector(arg)) for arg in args)
    t = (REGISTER if uniform else e.register)[expr.dtype]
    if expr.name == "sub" and side == 0:
        c = e.emit(f"fneg {t} {c}")
    elif expr.name == "sub":
        a = e.emit(f"fneg {t} {a}")
    return Value(e.intrinsic("fmuladd", t, a, b, c), expr.dtype, UNIFORM if uniform else None)


# --- spellings: (emitter, operand dtype, operand type, operands, whether the result cannot wrap) --> operand ----------

_Spelling = Callable[[Emitter, DType, str, Sequence[str], bool], str]


def _arithmetic(name: str) -> _Spelling:
    def spell(e: Emitter, dtype: DType, t: str, operands: Sequence[str], fits: bool) -> str:
        if dtype.is_float:
            _require_wide(dtype, name)
            return e.emit(f"f{name} {t} {operands[0]}, {operands[1]}")
        flags = "" if not fits else "nsw " if dtype.kind == "int" else "nuw "
        return e.emit(f"{name} {flags}{t} {operands[0]}, {operands[1]}")

    return spell


def _div(e: Emitter, dtype: DType, t: str, operands: Sequence[str], fits: bool) -> str:
    _require_wide(dtype, "div")
    return e.emit(f"fdiv {t} {operands[0]}, {operands[1]}")


def _bitwise(name: str) -> _Spelling:
    def spell(e: Emitter, dtype: DType, t: str, operands: Sequence[str], fits: bool) -> str:
        return e.emit(f"{name} {t} {operands[0]}, {operands[1]}")

    return spell


def _unary(name: str) -> _Spelling:
    def spell(e: Emitter, dtype: DType, t: str, operands: Sequence[str], fits: bool) -> str:
        if dtype.is_float:
            _require_wide(dtype, name)
            return e.intrinsic(_FLOAT_UNARY[name], t, operands[0])
        if dtype.kind == "uint":
            return operands[0]
        return e.emit(f"call {t} @llvm.abs.{e.suffix(t)}({t} {operands[0]}, i1 false)")

    return spell


def _neg(e: Emitter, dtype: DType, t: str, operands: Sequence[str], fits: bool) -> str:
    if dtype.is_float:
        _require_wide(dtype, "neg")
        return e.emit(f"fneg {t} {operands[0]}")
    return e.emit(f"sub {t} {zero(t)}, {operands[0]}")


def _not(e: Emitter, dtype: DType, t: str, operands: Sequence[str], fits: bool) -> str:
    ones = "true" if dtype is bool_ else "-1"
    return e.emit(f"xor {t} {operands[0]}, {every(t, ones)}")


def _popcount(e: Emitter, dtype: DType, t: str, operands: Sequence[str], fits: bool) -> str:
    return e.intrinsic("ctpop", t, operands[0])


def _clz(e: Emitter, dtype: DType, t: str, operands: Sequence[str], fits: bool) -> str:
    return e.emit(f"call {t} @llvm.ctlz.{e.suffix(t)}({t} {operands[0]}, i1 false)")


def _extreme(name: str) -> _Spelling:
    def spell(e: Emitter, dtype: DType, t: str, operands: Sequence[str], fits: bool) -> str:
        return extreme(e, name, dtype, t, operands[0], operands[1])

    return spell


def extreme(e: Emitter, name: str, dtype: DType, t: str, a: str, b: str) -> str:
    """`min` or `max`; on floats NaN wins and -0 is below +0."""
    if dtype is bool_:
        return e.emit(f"{'and' if name == 'min' else 'or'} {t} {a}, {b}")
    if not dtype.is_float:
        return e.intrinsic(("s" if dtype.kind == "int" else "u") + name, t, a, b)
    _require_wide(dtype, name)
    if (e.direct and dtype is f32) or not (a.startswith("%") and b.startswith("%")):
        return e.intrinsic(f"{name}imum", t, a, b)
    return _extreme_of_floats(e, name, t, a, b)


def _extreme_of_floats(e: Emitter, name: str, t: str, a: str, b: str) -> str:
    """`min` or `max` in fewer instructions than LLVM's on x86, and a shorter chain where one operand is carried along.

    The comparison takes b where an operand is NaN.  Equal operands differ in the sign of zero at most: the greater has
    the sign bits of both, the lesser of either.
    """
    bits = t.replace("float", "i32").replace("double", "i64")
    first = e.emit(f"fcmp {'ogt' if name == 'max' else 'olt'} {t} {a}, {b}")
    chosen = e.emit(f"select {boolean(t)} {first}, {t} {a}, {t} {b}")
    a_bits, b_bits = (e.emit(f"bitcast {t} {x} to {bits}") for x in (a, b))
    signed = e.emit(f"{'and' if name == 'max' else 'or'} {bits} {a_bits}, {b_bits}")
    signed = e.emit(f"bitcast {bits} {signed} to {t}")
    equal = e.emit(f"fcmp oeq {t} {a}, {b}")
    chosen = e.emit(f"select {boolean(t)} {equal}, {t} {signed}, {t} {chosen}")
    nan = e.emit(f"fcmp uno {t} {a}, {zero(t)}")
    return e.emit(f"select {boolean(t)} {nan}, {t} {a}, {t} {chosen}")


def _shift(name: str) -> _Spelling:
    def spell(e: Emitter, dtype: DType, t: str, operands: Sequence[str], fits: bool) -> str:
        value, count = operands
        width = every(t, str(dtype.bits))
        if name == "shift_right" and dtype.kind == "int":
            last = e.intrinsic("umin", t, count, every(t, str(dtype.bits - 1)))
            return e.emit(f"ashr {t} {value}, {last}")
        way = "shl" if name == "shift_left" else "lshr"
        if e.direct and dtype.bits == 64:
            # Twice by halves, each below the width: LLVM's own form for NVIDIA looks at the count's low 32 bits alone.
            most = e.intrinsic("umin", t, count, width)
            half = e.emit(f"lshr {t} {most}, 1")
            return e.emit(f"{way} {t} {e.emit(f'{way} {t} {value}, {half}')}, {e.emit(f'sub {t} {most}, {half}')}")
        inside = e.emit(f"icmp ult {t} {count}, {width}")
        masked = e.emit(f"and {t} {count}, {every(t, str(dtype.bits - 1))}")
        shifted = e.emit(f"{way} {t} {value}, {masked}")
        return e.emit(f"select {boolean(t)} {inside}, {t} {shifted}, {t} {zero(t)}")

    return spell


def _comparison(name: str) -> _Spelling:
    def spell(e: Emitter, dtype: DType, t: str, operands: Sequence[str], fits: bool) -> str:
        return compare(e, name, dtype, t, operands[0], operands[1])

    return spell


def compare(e: Emitter, name: str, dtype: DType, t: str, a: str, b: str) -> str:
    """A comparison by its name in the table."""
    if dtype.is_float:
        _require_wide(dtype, name)
        return e.emit(f"fcmp {_FLOAT_COMPARISONS[name]} {t} {a}, {b}")
    predicate = name if name in ("eq", "ne") else ("s" if dtype.kind == "int" else "u") + name
    return e.emit(f"icmp {predicate} {t} {a}, {b}")


_SPELLINGS: dict[str, _Spelling] = {
    **{name: _arithmetic(name) for name in _ARITHMETIC},
    **{name: _bitwise(name) for name in _BITWISE},
    **{name: _unary(name) for name in _FLOAT_UNARY},
    **{name: _comparison(name) for name in _FLOAT_COMPARISONS},
    **{name: _shift(name) for name in ("shift_left", "shift_right")},
    **{name: _extreme(name) for name in ("min", "max")},
    "div": _div,
    "neg": _neg,
    "not": _not,
    "popcount": _popcount,
    "clz": _clz,
}


def bitcast(e: Emitter, operand: str, source: DType, to: DType, vector: bool) -> str:
    """The same bits as another dtype."""
    types = e.register if vector else REGISTER
    if source is bool_:
        return e.emit(f"zext {types[bool_]} {operand} to {types[to]}")
    if to is bool_:
        return e.emit(f"icmp ne {types[source]} {operand}, {zero(types[source])}")
    if types[source] == types[to]:
        return operand
    return e.emit(f"bitcast {types[source]} {operand} to {types[to]}")


def _require_wide(dtype: DType, name: str) -> None:
    if dtype not in (f32, f64):
        raise Unsupported(what=f"{name} on {dtype}", target="native", message="the kernel has not been prepared")


# --- bounds of integers ---------------------------------------------------------------------------------------------

_Bounds = tuple[int | None, int | None]


def _hull(args: Sequence[Value]) -> _Bounds:
    lows, highs = [arg.low for arg in args], [arg.high for arg in args]
    low = None if None in lows else min(x for x in lows if x is not None)
    high = None if None in highs else max(x for x in highs if x is not None)
    return (low, high) if low is not None and high is not None else (None, None)


def _bounds(name: str, dtype: DType, args: Sequence[Value]) -> _Bounds:
    """Bounds of the result, both or neither; neither where it might wrap."""
    if len(args) != 2:
        return None, None
    (a0, a1), (b0, b1) = ((arg.low, arg.high) for arg in args)
    if a0 is None or a1 is None or b0 is None or b1 is None:
        return None, None
    match name:
        case "add":
            low, high = a0 + b0, a1 + b1
        case "sub":
            low, high = a0 - b1, a1 - b0
        case "mul":
            corners = (a0 * b0, a0 * b1, a1 * b0, a1 * b1)
            low, high = min(corners), max(corners)
        case "floor_div" if b0 > 0:
            corners = (a0 // b0, a0 // b1, a1 // b0, a1 // b1)
            low, high = min(corners), max(corners)
        case "rem" if b0 > 0:
            low, high = 0, (min(a1, b1 - 1) if a0 >= 0 else b1 - 1)
        case "and" if a0 >= 0 and b0 >= 0:
            low, high = 0, min(a1, b1)
        case "min":
            low, high = min(a0, b0), min(a1, b1)
        case "max":
            low, high = max(a0, b0), max(a1, b1)
        case _:
            return None, None
    return (low, high) if dtype.min <= low and high <= dtype.max else (None, None)
