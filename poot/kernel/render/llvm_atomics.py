"""Atomic read-modify-writes, one lane after another; plain ones on shared arrays, since one thread runs a group."""

from __future__ import annotations

from poot.dtypes import DType
from poot.kernel.ir import Atomic
from poot.kernel.render.llvm_emit import REGISTER, Emitter, Value
from poot.kernel.render.llvm_memory import Address, Array, lane_pointer
from poot.kernel.render.llvm_ops import compare, extreme

_INTEGER = {"add": "add", "and": "and", "or": "or", "xor": "xor", "exchange": "xchg"}
_FLOAT = {"add": "fadd", "min": "fminimum", "max": "fmaximum", "exchange": "xchg"}


def atomic(
    e: Emitter, node: Atomic, array: Array, where: Address, value: Value, expected: Value | None, mask: str | None
) -> Value:
    """Do it for each active lane in order; the lanes' old values, 0 for the others."""
    dtype = array.dtype
    if e.lanes == 1:
        text = _one(e, node, array, where.pointer, value.text, expected.text if expected is not None else "")
        return Value(text, dtype)
    t = e.register[dtype]
    values = e.vector(value)
    compares = e.vector(expected) if expected is not None else ""
    bits = e.bits(mask or e.all_lanes)
    head, body, done, start = e.name("lanes"), e.name("lane"), e.name("done"), e.block
    # Addresses are made once, before the loop over the lanes.
    pointer = where.pointer if not (where.step or where.offsets) else ""
    left, olds, rest, new = (f"%{e.name('a')}" for _ in range(4))
    e.label(head)
    e.do(f"{left} = phi {e.bits_type} [ {bits}, %{start} ], [ {rest}, %{body} ]")
    e.do(f"{olds} = phi {t} [ zeroinitializer, %{start} ], [ {new}, %{body} ]")
    e.branch(e.emit(f"icmp ne {e.bits_type} {left}, 0"), body, done)
    with e.scope():
        e.label(body)
        lane = e.resized(e.emit(f"call {e.bits_type} @llvm.cttz.{e.bits_type}({e.bits_type} {left}, i1 true)"))
        at = pointer or lane_pointer(e, array, where, lane)
        one = e.lane(values, t, lane)
        old = _one(e, node, array, at, one, e.lane(compares, t, lane) if compares else "")
        e.do(f"{new} = insertelement {t} {olds}, {REGISTER[dtype]} {old}, i32 {lane}")
        less = e.emit(f"sub {e.bits_type} {left}, 1")
        e.do(f"{rest} = and {e.bits_type} {left}, {less}")
        e.do(f"br label %{head}")
        e.open = False
    e.label(done)
    return Value(olds, dtype, None)


def _one(e: Emitter, node: Atomic, array: Array, pointer: str, value: str, expected: str) -> str:
    """One lane's operation; the old value."""
    dtype = array.dtype
    if array.space == "shared":
        return _plain(e, node, array, pointer, value, expected)
    t = REGISTER[dtype]
    if node.op == "compare_exchange":
        pair = e.emit(f"cmpxchg ptr {pointer}, {t} {expected}, {t} {value} monotonic monotonic")
        return e.emit(f"extractvalue {{ {t}, i1 }} {pair}, 0")
    return e.emit(f"atomicrmw {_name(node.op, dtype)} ptr {pointer}, {t} {value} monotonic{array.tags}")


def _name(op: str, dtype: DType) -> str:
    if dtype.is_float:
        return _FLOAT[op]
    return _INTEGER.get(op) or (op if dtype.kind == "int" else f"u{op}")


def _plain(e: Emitter, node: Atomic, array: Array, pointer: str, value: str, expected: str) -> str:
    dtype, t = array.dtype, REGISTER[array.dtype]
    old = e.emit(f"load {t}, ptr {pointer}, align {dtype.itemsize}")
    match node.op:
        case "exchange":
            new = value
        case "compare_exchange":
            same = compare(e, "eq", dtype, t, old, expected)
            new = e.emit(f"select i1 {same}, {t} {value}, {t} {old}")
        case "min" | "max":
            new = extreme(e, node.op, dtype, t, old, value)
        case "add":
            new = e.emit(f"{'fadd' if dtype.is_float else 'add'} {t} {old}, {value}")
        case _:
            new = e.emit(f"{node.op} {t} {old}, {value}")
    e.do(f"store {t} {new}, ptr {pointer}, align {dtype.itemsize}")
    return old
