"""Addresses, loads and stores of buffers, shared arrays and private arrays.

How an access goes along the lanes decides its instruction: the same address is a scalar access, neighbouring elements
are one vector access (masked where lanes are inactive), all others are gathers and scatters.  A private array holds one
vector of lanes an element, so that an index that is the same for all lanes finds its elements side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from poot.dtypes import DType, bool_, i32
from poot.kernel.render.llvm_emit import MEMORY, REGISTER, Emitter, Value, every
from poot.kernel.uniform import UNIFORM

#: The widest step of elements that are loaded with all that lies between them.
_NEAR = 4


@dataclass(frozen=True, slots=True)
class Array:
    """An array as the code sees it.

    `base` is a pointer operand, `extents` are values of the index dtype, `strides` element strides (i64 operands where
    they are only known at launch), `tags` metadata for its accesses.  `laned` marks a private array with a copy for
    each lane, `narrow` one whose offsets fit 32 bits; `size` is the number of elements of one copy of a private array,
    `home` the mask under which it was made.
    """

    name: str
    dtype: DType
    base: str
    extents: tuple[Value, ...]
    strides: tuple[int | str, ...]
    tags: str = ""
    space: Literal["global", "shared", "private"] = "global"
    laned: bool = False
    narrow: bool = False
    size: int = 0
    home: str | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """Where the lanes of an access point: lane 0's address with a constant step in elements, or a vector of offsets."""

    pointer: str
    step: int = 0
    offsets: str = ""
    offset_type: str = ""


def wide(e: Emitter, value: Value) -> str:
    """An index as an i64 operand; lane 0 of an affine one."""
    if value.constant is not None:
        return str(value.constant)
    if REGISTER[value.dtype] == "i64":
        return value.text
    extend = "sext" if value.dtype.kind == "int" else "zext"
    return e.known(("i64", value.text), f"{extend} {REGISTER[value.dtype]} {value.text} to i64")


def address(e: Emitter, array: Array, indices: Sequence[Value], *, spread: bool = False) -> Address:
    """The address of an element for each lane; with `spread` never one for all, so that a mask may be empty."""
    known, step = 0, int(array.laned)
    scalars: list[str] = []
    vectors: list[tuple[str, DType, int | str]] = []
    for index, stride in zip(indices, array.strides, strict=True):
        if index.form is None:
            vectors.append((index.text, index.dtype, stride))
            continue
        if index.constant is not None and isinstance(stride, int):
            known += index.constant * stride
        elif stride != 0:
            scalars.append(_scaled(e, index, stride))
        if index.form.stride and isinstance(stride, int):
            step += index.form.stride * stride
        elif index.form.stride:
            vectors.append((e.steps(REGISTER[index.dtype], index.form.stride), index.dtype, stride))
    pointer = _pointer(e, array, scalars, known)
    if not vectors:
        alike = spread and step == 0
        return Address(pointer, step, "zeroinitializer", f"<{e.lanes} x i32>") if alike else Address(pointer, step)
    return _spread(e, array, pointer, step, vectors)


def _scaled(e: Emitter, index: Value, stride: int | str) -> str:
    number = wide(e, index)
    if stride == 1:
        return number
    # A product of two 32-bit numbers cannot wrap in 64 bits.
    flags = "nsw " if isinstance(stride, int) and abs(stride) < 1 << 31 and index.dtype.bits <= 32 else ""
    return e.known(("mul", number, str(stride)), f"mul {flags}i64 {number}, {stride}")


def _pointer(e: Emitter, array: Array, scalars: list[str], known: int) -> str:
    pointer, element = array.base, MEMORY[array.dtype]
    if known:
        scalars = [*scalars, str(known)]
    for offset in scalars:
        pointer = e.known(("gep", element, pointer, offset), f"getelementptr {element}, ptr {pointer}, i64 {offset}")
    return pointer


def _spread(e: Emitter, array: Array, pointer: str, step: int, vectors: list[tuple[str, DType, int | str]]) -> Address:
    """Offsets that are no constant step: 32-bit arithmetic where it must suffice, for narrower gathers."""
    plain = len(vectors) == 1 and vectors[0][2] == 1 and step == 0
    narrow = (array.narrow or plain) and all(dtype is i32 for _, dtype, _ in vectors)
    element = "i32" if narrow else "i64"
    t = f"<{e.lanes} x {element}>"
    total = e.steps(element, step) if step else ""
    for text, dtype, stride in vectors:
        if REGISTER[dtype] != element:
            text = e.emit(f"sext {e.register[dtype]} {text} to {t}")
        if stride != 1:
            factor = every(t, stride) if isinstance(stride, int) else e.splat(stride, element)
            text = e.emit(f"mul {t} {text}, {factor}")
        total = e.emit(f"add {t} {total}, {text}") if total else text
    return Address(pointer, 0, total, t)


# --- loads ----------------------------------------------------------------------------------------------------------


def load(e: Emitter, array: Array, where: Address, mask: str | None) -> Value:
    """The elements of the active lanes; lanes that are not give 0."""
    dtype = array.dtype
    scalar, t = MEMORY[dtype], e.memory[dtype]
    align = dtype.itemsize
    if e.lanes == 1 or not (where.step or where.offsets):
        text = e.emit(f"load {scalar}, ptr {where.pointer}, align {align}{array.tags}")
        return Value(_read(e, text, dtype, scalar), dtype, UNIFORM)
    if where.step == 1:
        text = _load_vector(e, where.pointer, t, align, mask, array.tags)
    elif where.step == -1:
        text = _load_vector(
            e, _first(e, where.pointer, scalar), t, align, mask and _reverse(e, mask, e.mask_type), array.tags
        )
        text = _reverse(e, text, t)
    elif 1 < where.step <= _NEAR:
        text = _load_apart(e, where, scalar, t, align, mask, array.tags)
    else:
        pointers = _pointers(e, where, scalar)
        p = f"<{e.lanes} x ptr>"
        text = e.emit(
            f"call {t} @llvm.masked.gather.{e.suffix(t)}.v{e.lanes}p0({p} align {align} {pointers}, "
            f"{e.mask_type} {mask or every(e.mask_type, 'true')}, {t} zeroinitializer){array.tags}"
        )
    return Value(_read(e, text, dtype, t), dtype, None)


def _read(e: Emitter, text: str, dtype: DType, t: str) -> str:
    """From the memory type of a dtype to its register type."""
    return e.emit(f"icmp ne {t} {text}, {every(t, 0)}") if dtype is bool_ else text


def _load_vector(e: Emitter, pointer: str, t: str, align: int, mask: str | None, tags: str) -> str:
    if mask is None:
        return e.emit(f"load {t}, ptr {pointer}, align {align}{tags}")
    return e.emit(
        f"call {t} @llvm.masked.load.{e.suffix(t)}.p0(ptr align {align} {pointer}, "
        f"{e.mask_type} {mask}, {t} zeroinitializer){tags}"
    )


def _load_apart(e: Emitter, where: Address, scalar: str, t: str, align: int, mask: str | None, tags: str) -> str:
    """Elements a few apart: all that lie between the first and the last, as vectors, of which the wanted are kept.

    Without a mask the last vector is moved back to end with the last element; with one no more than that is read.
    """
    lanes, step = e.lanes, where.step
    starts = [lanes * part for part in range(step)]
    if mask is None:
        starts[-1] = step * (lanes - 1) + 1 - lanes
    text, taken = "poison", 0
    for start in starts:
        pointer = e.emit(f"getelementptr {scalar}, ptr {where.pointer}, i64 {start}") if start else where.pointer
        part = _load_vector(e, pointer, t, align, mask and _mask_apart(e, mask, step, start), tags)
        reach = min((start + lanes - 1) // step + 1, lanes)
        order = [lane if lane < taken else lanes + step * lane - start for lane in range(reach)]
        text = _shuffle(e, t, text, part, [*order, *([lanes] * (lanes - reach))])
        taken = reach
    return text


def _mask_apart(e: Emitter, mask: str | None, step: int, start: int) -> str:
    """The mask of elements from `start` on, of which every `step`-th belongs to a lane."""
    places = [divmod(start + place, step) for place in range(e.lanes)]
    if mask is None:
        return "<" + ", ".join("i1 true" if not rest else "i1 false" for _, rest in places) + ">"
    order = [e.lanes if rest else lane for lane, rest in places]
    return _shuffle(e, e.mask_type, mask, "zeroinitializer", order)


def _shuffle(e: Emitter, t: str, a: str, b: str, order: Sequence[int]) -> str:
    numbers = ", ".join(f"i32 {number}" for number in order)
    return e.emit(f"shufflevector {t} {a}, {t} {b}, <{e.lanes} x i32> <{numbers}>")


def _first(e: Emitter, pointer: str, scalar: str) -> str:
    """The lowest address of a vector that runs backwards."""
    return e.emit(f"getelementptr {scalar}, ptr {pointer}, i64 {1 - e.lanes}")


def _reverse(e: Emitter, text: str, t: str) -> str:
    return _shuffle(e, t, text, "poison", range(e.lanes - 1, -1, -1))


def _pointers(e: Emitter, where: Address, scalar: str) -> str:
    """A vector of the lanes' addresses."""
    if where.offsets:
        return e.emit(f"getelementptr {scalar}, ptr {where.pointer}, {where.offset_type} {where.offsets}")
    return e.emit(f"getelementptr {scalar}, ptr {where.pointer}, <{e.lanes} x i64> {e.steps('i64', where.step)}")


def lane_pointer(e: Emitter, array: Array, where: Address, lane: str) -> str:
    """The address of one lane, whose number is an i32 operand."""
    scalar = MEMORY[array.dtype]
    if not (where.step or where.offsets):
        return where.pointer
    pointers = _pointers(e, where, scalar)
    return e.emit(f"extractelement <{e.lanes} x ptr> {pointers}, i32 {lane}")


# --- stores ---------------------------------------------------------------------------------------------------------


def store(e: Emitter, array: Array, where: Address, value: Value, mask: str | None) -> None:
    """Write the active lanes' elements; where several hit one element, the last lane wins."""
    dtype = array.dtype
    scalar, t = MEMORY[dtype], e.memory[dtype]
    align = dtype.itemsize
    if e.lanes == 1 or not (where.step or where.offsets):
        text = _written(e, _last(e, value, mask), dtype, vector=False)
        e.do(f"store {scalar} {text}, ptr {where.pointer}, align {align}{array.tags}")
        return
    text = _written(e, e.vector(value), dtype, vector=True)
    if where.step == 1:
        _store_vector(e, array, where.pointer, text, t, mask)
    elif where.step == -1:
        mask = mask and _reverse(e, mask, e.mask_type)
        _store_vector(e, array, _first(e, where.pointer, scalar), _reverse(e, text, t), t, mask)
    elif 1 < where.step <= _NEAR and array.space != "private":
        for start in range(0, e.lanes * where.step, e.lanes):
            pointer = e.emit(f"getelementptr {scalar}, ptr {where.pointer}, i64 {start}") if start else where.pointer
            part = _shuffle(e, t, text, "poison", [(start + place) // where.step for place in range(e.lanes)])
            _store_vector(e, array, pointer, part, t, _mask_apart(e, mask, where.step, start))
    else:
        p = f"<{e.lanes} x ptr>"
        e.do(
            f"call void @llvm.masked.scatter.{e.suffix(t)}.v{e.lanes}p0({t} {text}, "
            f"{p} align {align} {_pointers(e, where, scalar)}, "
            f"{e.mask_type} {mask or every(e.mask_type, 'true')}){array.tags}"
        )


def _store_vector(e: Emitter, array: Array, pointer: str, text: str, t: str, mask: str | None) -> None:
    align = array.dtype.itemsize
    if mask is not None and array.space == "private":
        # A select keeps the array in registers, which a masked store would not.
        if mask != array.home:
            old = e.emit(f"load {t}, ptr {pointer}, align {align}")
            text = e.emit(f"select {e.mask_type} {mask}, {t} {text}, {t} {old}")
        mask = None
    if mask is None:
        e.do(f"store {t} {text}, ptr {pointer}, align {align}{array.tags}")
        return
    e.do(
        f"call void @llvm.masked.store.{e.suffix(t)}.p0({t} {text}, ptr align {align} {pointer}, "
        f"{e.mask_type} {mask}){array.tags}"
    )


def _written(e: Emitter, text: str, dtype: DType, *, vector: bool) -> str:
    """From the register type of a dtype to its memory type."""
    if dtype is not bool_:
        return text
    registers, memory = (e.register, e.memory) if vector else (REGISTER, MEMORY)
    return e.emit(f"zext {registers[dtype]} {text} to {memory[dtype]}")


def _last(e: Emitter, value: Value, mask: str | None) -> str:
    """The value of the last active lane."""
    if value.uniform:
        return value.text
    t = e.register[value.dtype]
    if mask is None:
        return e.lane(e.vector(value), t, str(e.lanes - 1))
    bits, width = e.bits_type, e.bits(mask)
    above = e.resized(e.emit(f"call {bits} @llvm.ctlz.{bits}({bits} {width}, i1 true)"))
    return e.lane(e.vector(value), t, e.emit(f"sub i32 {e.lanes - 1}, {above}"))
