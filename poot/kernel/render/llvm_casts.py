"""Value conversions: integers wrap, floats to integers saturate with NaN to 0, floats round once to nearest even.

LLVM's own saturating conversions fall apart into scalars on vectors, and its conversions to bfloat flush subnormals on
some CPUs, so both are spelled out here.  f64 reaches f16 and bf16 through an f32 that is rounded *to odd*, which keeps
enough of the lost bits for the second rounding to be right (Boldo and Melquiond, "Emulation of FMA and correctly
rounded sums: proved algorithms using rounding to odd", 2008).
"""

from __future__ import annotations

from poot.dtypes import DType, bf16, bool_, f16, f32, f64, i32, i64, u32, u64
from poot.kernel.render.llvm_emit import REGISTER, Emitter, Value, boolean, every, literal, zero
from poot.kernel.uniform import LaneForm, cast_form


def cast(e: Emitter, arg: Value, to: DType) -> Value:
    """A value converted to another dtype."""
    source = arg.dtype
    form = cast_form(source, to, arg.form)
    low, high = arg.low, arg.high
    fits = low is not None and high is not None and to.is_integer and to.min <= low and high <= to.max
    if form is None and fits and source.is_integer:
        form = _widened_form(e, arg)
    types = e.register if form is None else REGISTER
    operand = e.vector(arg) if form is None else arg.text
    bounds = (low, high) if fits and source.is_integer else (None, None)
    return Value(_convert(e, types, operand, source, to), to, form, *bounds)


def _widened_form(e: Emitter, arg: Value) -> LaneForm:
    """A wider integer still steps evenly if no active lane can have wrapped in the narrower one."""
    if arg.form is None or arg.low is None or arg.high is None:
        return None
    reach, span = arg.form.stride * (e.lanes - 1), 1 << arg.dtype.bits
    apart = arg.high + max(reach, 0) - span < arg.low and arg.low + min(reach, 0) + span > arg.high
    return arg.form if apart else None


def _convert(e: Emitter, types: dict[DType, str], x: str, source: DType, to: DType) -> str:
    if source is to:
        return x
    if to is bool_:
        return _truth(e, types, x, source)
    if source in (f16, bf16) and to not in (f32,):
        return _convert(e, types, _widen(e, types, x, source), f32, to)
    if to in (f16, bf16):
        return _narrow(e, types, x, source, to)
    if source.is_float and to.is_float:
        if source in (f16, bf16):
            return _widen(e, types, x, source)
        return e.emit(f"{'fpext' if to is f64 else 'fptrunc'} {types[source]} {x} to {types[to]}")
    if source.is_float:
        return _saturate(e, types, x, source, to)
    if to.is_float:
        return e.emit(f"{'sitofp' if source.kind == 'int' else 'uitofp'} {types[source]} {x} to {types[to]}")
    return _resize(e, types, x, source, to)


def _truth(e: Emitter, types: dict[DType, str], x: str, source: DType) -> str:
    """Whether a value is not zero; NaN is not."""
    t = types[source]
    if source in (f32, f64):
        return e.emit(f"fcmp une {t} {x}, {zero(t)}")
    if source.is_float:
        x = e.emit(f"and {t} {x}, {every(t, 32767)}")
    return e.emit(f"icmp ne {t} {x}, {zero(t)}")


def _resize(e: Emitter, types: dict[DType, str], x: str, source: DType, to: DType) -> str:
    old, new = types[source], types[to]
    if old == new:
        return x
    if source is bool_ or to.bits > source.bits:
        return e.emit(f"{'sext' if source.kind == 'int' else 'zext'} {old} {x} to {new}")
    return e.emit(f"trunc {old} {x} to {new}")


# --- floats to integers ---------------------------------------------------------------------------------------------


def _saturate(e: Emitter, types: dict[DType, str], x: str, source: DType, to: DType) -> str:
    """f32 or f64 to an integer: clamped where the bounds are floats, else corrected afterwards."""
    t = types[source]
    number = e.emit(f"fcmp ord {t} {x}, {x}")
    low = float(to.min)
    exact = to.bits < (32 if source is f32 else 64)
    if exact:
        wide, high = to if to.bits >= 32 else i32, float(to.max)
        x = _pick(e, t, e.emit(f"fcmp olt {t} {x}, {_float(t, high)}"), x, _float(t, high))
        x = _pick(e, t, e.emit(f"fcmp ogt {t} {x}, {_float(t, low)}"), x, _float(t, low))
        x = _pick(e, t, number, x, zero(t))
        whole = e.emit(f"{'fptoui' if wide is u32 else 'fptosi'} {t} {x} to {types[wide]}")
        return _resize(e, types, whole, wide, to)
    signed = to.kind == "int"
    result = types[to]
    whole = e.emit(f"{'fptosi' if signed else 'fptoui'} {t} {x} to {result}")
    whole = e.emit(f"freeze {result} {whole}")
    past = e.emit(f"fcmp oge {t} {x}, {_float(t, 2.0 ** (to.bits - signed))}")
    below = e.emit(f"fcmp ole {t} {x}, {_float(t, low if signed else -1.0)}")
    whole = e.emit(f"select {boolean(t)} {past}, {result} {every(result, int(to.max))}, {result} {whole}")
    whole = e.emit(f"select {boolean(t)} {below}, {result} {every(result, int(to.min))}, {result} {whole}")
    return e.emit(f"select {boolean(t)} {number}, {result} {whole}, {result} {zero(result)}")


def _float(t: str, value: float) -> str:
    return every(t, literal(value, f64))


def _pick(e: Emitter, t: str, condition: str, a: str, b: str) -> str:
    return e.emit(f"select {boolean(t)} {condition}, {t} {a}, {t} {b}")


# --- the 16-bit floats ----------------------------------------------------------------------------------------------


def _widen(e: Emitter, types: dict[DType, str], x: str, source: DType) -> str:
    """f16 or bf16 bits to f32, exactly."""
    t, f = types[source], types[f32]
    if source is bf16:
        wide = e.emit(f"zext {t} {x} to {types[u32]}")
        shifted = e.emit(f"shl {types[u32]} {wide}, {every(types[u32], 16)}")
        return e.emit(f"bitcast {types[u32]} {shifted} to {f}")
    half = t.replace("i16", "half")
    return e.emit(f"fpext {half} {e.emit(f'bitcast {t} {x} to {half}')} to {f}")


def _narrow(e: Emitter, types: dict[DType, str], x: str, source: DType, to: DType) -> str:
    """Any wider number to f16 or bf16 bits, rounded once."""
    if source is f64:
        x = _to_odd(e, types, x)
    elif source in (i64, u64):
        x = _to_odd(e, types, _sticky(e, types, x, source))
    elif source in (i32, u32):
        x = _to_odd(e, types, _convert(e, types, x, source, f64))
    elif source is not f32:
        x = _convert(e, types, x, source, f32)
    t, f = types[to], types[f32]
    if to is f16:
        half = t.replace("i16", "half")
        return e.emit(f"bitcast {half} {e.emit(f'fptrunc {f} {x} to {half}')} to {t}")
    return _to_bf16(e, types, x)


def _to_bf16(e: Emitter, types: dict[DType, str], x: str) -> str:
    """Add just under half a unit, or half for an odd number, and drop the low bits; NaN becomes a quiet one."""
    f, word, t = types[f32], types[u32], types[bf16]
    if e.direct:
        return e.emit(f"bitcast bfloat {e.emit(f'fptrunc {f} {x} to bfloat')} to {t}")
    bits = e.emit(f"bitcast {f} {x} to {word}")
    upper = e.emit(f"lshr {word} {bits}, {every(word, 16)}")
    odd = e.emit(f"and {word} {upper}, {every(word, 1)}")
    nearly_half = e.emit(f"add {word} {odd}, {every(word, 32767)}")
    rounded = e.emit(f"add {word} {bits}, {nearly_half}")
    rounded = e.emit(f"lshr {word} {rounded}, {every(word, 16)}")
    quiet = e.emit(f"or {word} {upper}, {every(word, 64)}")
    number = e.emit(f"fcmp ord {f} {x}, {x}")
    chosen = e.emit(f"select {boolean(f)} {number}, {word} {rounded}, {word} {quiet}")
    return e.emit(f"trunc {word} {chosen} to {t}")


def _to_odd(e: Emitter, types: dict[DType, str], x: str) -> str:
    """f64 to f32 rounded to odd: an inexact result whose last bit is 0 moves by one unit towards the exact one."""
    d, f, word = types[f64], types[f32], types[u32]
    near = e.emit(f"fptrunc {d} {x} to {f}")
    back = e.emit(f"fpext {f} {near} to {d}")
    bits = e.emit(f"bitcast {f} {near} to {word}")
    last = e.emit(f"and {word} {bits}, {every(word, 1)}")
    even = e.emit(f"icmp eq {word} {last}, {zero(word)}")
    inexact = e.emit(f"fcmp one {d} {back}, {x}")
    moved = e.emit(f"and {boolean(d)} {even}, {inexact}")
    beyond = e.emit(f"fcmp olt {d} {e.intrinsic('fabs', d, back)}, {e.intrinsic('fabs', d, x)}")
    step = e.emit(f"select {boolean(d)} {beyond}, {word} {every(word, 1)}, {word} {every(word, -1)}")
    adjusted = e.emit(f"add {word} {bits}, {step}")
    chosen = e.emit(f"select {boolean(d)} {moved}, {word} {adjusted}, {word} {bits}")
    return e.emit(f"bitcast {word} {chosen} to {f}")


def _sticky(e: Emitter, types: dict[DType, str], x: str, source: DType) -> str:
    """A 64-bit integer to f64; past 2^53 it is rounded to odd, with 11 bits less."""
    t, d = types[source], types[f64]
    lost = e.emit(f"and {t} {x}, {every(t, 2047)}")
    some = e.emit(f"icmp ne {t} {lost}, {zero(t)}")
    mark = e.emit(f"select {boolean(t)} {some}, {t} {every(t, 2048)}, {t} {zero(t)}")
    kept = e.emit(f"and {t} {x}, {every(t, -2048)}")
    whole = e.emit(f"or {t} {kept}, {mark}")
    if source is i64:
        shifted = e.emit(f"add {t} {x}, {every(t, 1 << 53)}")
        large = e.emit(f"icmp ugt {t} {shifted}, {every(t, 1 << 54)}")
    else:
        large = e.emit(f"icmp ugt {t} {x}, {every(t, 1 << 53)}")
    chosen = e.emit(f"select {boolean(t)} {large}, {t} {whole}, {t} {x}")
    return e.emit(f"{'sitofp' if source is i64 else 'uitofp'} {t} {chosen} to {d}")
