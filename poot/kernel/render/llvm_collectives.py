"""Reductions and scans over the lanes of a vector, by halves and by shifts."""

from __future__ import annotations

import math

from poot.dtypes import DType, bool_
from poot.kernel.ir import Collective, CollectiveOp
from poot.kernel.render.llvm_emit import REGISTER, Emitter, Value, literal
from poot.kernel.render.llvm_ops import extreme
from poot.kernel.uniform import UNIFORM


def identity(op: CollectiveOp, dtype: DType) -> str:
    """The operand that changes nothing, as text; -0 for sums, so that a sum of -0 stays -0."""
    if op in ("sum", "scan"):
        return literal(-0.0 if dtype.is_float else 0, dtype)
    if op in ("any", "all"):
        return literal(op == "all", bool_)
    if dtype.is_float:
        return literal(-math.inf if op == "max" else math.inf, dtype)
    return literal(dtype.min if op == "max" else dtype.max, dtype)


def combine(e: Emitter, op: CollectiveOp, dtype: DType, t: str, a: str, b: str) -> str:
    """Two partial results, scalars or vectors of the type `t`, as one."""
    match op:
        case "sum" | "scan":
            return e.emit(f"{'fadd' if dtype.is_float else 'add'} {t} {a}, {b}")
        case "any":
            return e.emit(f"or {t} {a}, {b}")
        case "all":
            return e.emit(f"and {t} {a}, {b}")
        case _:
            return extreme(e, op, dtype, t, a, b)


def contribution(e: Emitter, op: CollectiveOp, value: Value) -> str:
    """What each lane adds to a collective: its value, or the identity where it is not active."""
    text = e.vector(value)
    if e.mask is None:
        return text
    t = e.register[value.dtype]
    neutral = e.splat(identity(op, value.dtype), REGISTER[value.dtype])
    return e.emit(f"select {e.mask_type} {e.mask}, {t} {text}, {t} {neutral}")


def reduce(e: Emitter, op: CollectiveOp, dtype: DType, text: str) -> str:
    """All lanes of a vector combined into a scalar, halving it each time."""
    element, width = REGISTER[dtype], e.lanes
    if dtype is bool_:
        if op == "any":
            return e.any(text)
        return e.emit(f"icmp eq {e.bits_type} {e.bits(text)}, -1")
    while width > 1:
        whole, width = f"<{width} x {element}>", width // 2
        halves = [
            e.emit(f"shufflevector {whole} {text}, {whole} poison, <{width} x i32> <{_numbers(start, width)}>")
            for start in (0, width)
        ]
        text = combine(e, op, dtype, f"<{width} x {element}>", *halves)
    return e.lane(text, f"<1 x {element}>", "0")


def scan(e: Emitter, dtype: DType, text: str) -> str:
    """Inclusive sums from lane 0 on, by shifts of 1, 2, 4 …"""
    t = e.register[dtype]
    neutral = e.splat(identity("scan", dtype), REGISTER[dtype])
    shift = 1
    while shift < e.lanes:
        order = _numbers(e.lanes - shift, e.lanes)
        shifted = e.emit(f"shufflevector {t} {neutral}, {t} {text}, <{e.lanes} x i32> <{order}>")
        text = combine(e, "scan", dtype, t, shifted, text)
        shift *= 2
    return text


def collective(e: Emitter, expr: Collective, value: Value) -> Value:
    """A collective over a work-group that is one vector."""
    lanes = contribution(e, expr.op, value)
    if expr.op == "scan":
        return Value(scan(e, expr.dtype, lanes), expr.dtype, None if e.lanes > 1 else UNIFORM)
    return Value(reduce(e, expr.op, expr.dtype, lanes), expr.dtype)


def _numbers(start: int, count: int) -> str:
    return ", ".join(f"i32 {number}" for number in range(start, start + count))
