"""Addresses, loads, stores and atomics of one thread: global buffers, shared arrays, private arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poot.dtypes import DType, bool_, i32
from poot.kernel.ir import Atomic
from poot.kernel.render.llvm_emit import MEMORY, REGISTER, Emitter, Value

_INTEGER = {"add": "add", "and": "and", "or": "or", "xor": "xor", "exchange": "xchg"}
_FLOAT = {"add": "fadd", "exchange": "xchg"}


@dataclass(frozen=True, slots=True)
class Memory:
    """An array as the code sees it.

    `base` is a pointer of the address space `space` (1 global, 3 shared, else private), `strides` are elements,
    operands where they are only known at launch; `narrow` says that every offset fits 32 bits; `scope` is how far an
    atomic change of an element reaches.
    """

    name: str
    dtype: DType
    base: str
    extents: tuple[Value, ...]
    strides: tuple[int | str, ...]
    index_dtype: DType
    space: int
    narrow: bool
    scope: str

    @property
    def pointer(self) -> str:
        """The type of `base`."""
        return f"ptr addrspace({self.space})" if self.space else "ptr"


def address(e: Emitter, array: Memory, indices: Sequence[Value]) -> str:
    """The address of an element, for indices that are inside."""
    known, terms = 0, list[tuple[str, DType, int | str]]()
    for index, stride in zip(indices, array.strides, strict=True):
        if index.constant is not None and isinstance(stride, int):
            known += index.constant * stride
        elif stride != 0:
            terms.append((index.text, index.dtype, stride))
    alone = len(terms) == 1 and terms[0][2] == 1
    t = "i32" if (array.narrow or alone) and array.index_dtype is i32 else "i64"
    total = ""
    for text, dtype, stride in terms:
        text = _widened(e, text, REGISTER[dtype], t)
        if isinstance(stride, str):
            stride = _widened(e, stride, REGISTER[array.index_dtype], t)
        if stride != 1:
            text = e.known(("mul", t, text, str(stride)), f"mul nsw {t} {text}, {stride}")
        total = e.known(("add", t, total, text), f"add nsw {t} {total}, {text}") if total else text
    element, pointer = MEMORY[array.dtype], array.base
    for offset, kind in ((total, t), (str(known) if known else "", "i64")):
        if offset:
            code = f"getelementptr inbounds {element}, {array.pointer} {pointer}, {kind} {offset}"
            pointer = e.known(("gep", element, pointer, kind, offset), code)
    return pointer


def _widened(e: Emitter, text: str, source: str, to: str) -> str:
    if source == to or not text.startswith("%"):
        return text
    return e.known(("sext", text), f"sext {source} {text} to {to}")


def load(e: Emitter, array: Memory, pointer: str) -> Value:
    """The element at an address."""
    t = MEMORY[array.dtype]
    text = e.emit(f"load {t}, {array.pointer} {pointer}, align {array.dtype.itemsize}")
    if array.dtype is bool_:
        text = e.emit(f"icmp ne i8 {text}, 0")
    return Value(text, array.dtype)


def store(e: Emitter, array: Memory, pointer: str, value: Value) -> None:
    """Write the element at an address."""
    text = e.emit(f"zext i1 {value.text} to i8") if array.dtype is bool_ else value.text
    e.do(f"store {MEMORY[array.dtype]} {text}, {array.pointer} {pointer}, align {array.dtype.itemsize}")


def atomic(e: Emitter, node: Atomic, array: Memory, pointer: str, value: Value, expected: Value | None) -> Value:
    """A relaxed read-modify-write; the old value."""
    dtype, t = array.dtype, REGISTER[array.dtype]
    scope = f'syncscope("{array.scope}")'
    if expected is not None:
        pair = e.emit(
            f"cmpxchg {array.pointer} {pointer}, {t} {expected.text}, {t} {value.text} {scope} monotonic monotonic"
        )
        return Value(e.emit(f"extractvalue {{ {t}, i1 }} {pair}, 0"), dtype)
    if dtype.is_float:
        name = _FLOAT[node.op]
    else:
        name = _INTEGER.get(node.op) or (node.op if dtype.kind == "int" else f"u{node.op}")
    return Value(e.emit(f"atomicrmw {name} {array.pointer} {pointer}, {t} {value.text} {scope} monotonic"), dtype)
