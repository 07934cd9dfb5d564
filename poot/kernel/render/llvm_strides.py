"""Accesses of neighbours, statement after statement, that are far apart from lane to lane.

    v0 = x[lane * 64 + k]; v1 = x[lane * 64 + k + 1]; …

Each alone would be a gather or a scatter.  Together they are one contiguous piece of each lane, and a transposition of
vectors in registers: by halving, elements of even and odd number apart, as in a bit-reversing permutation.  More lanes
than a register has go in turns of a loop, by way of memory, since written out they would be most of a kernel.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from poot.dtypes import DType, bool_
from poot.kernel.ir import Const, Expr, Index, Let, Load, Op, Stmt, Store, Var
from poot.kernel.render.llvm_emit import MEMORY, Emitter, Value
from poot.kernel.render.llvm_memory import Address, Array
from poot.kernel.uniform import Uniformity

#: Lengths of a run, longest first: the elements of a lane are one vector of at most that many.
_LENGTHS = (16, 8, 4)
#: Lanes that are transposed together, so that no vector is longer than a register for elements of 32 bits.
_CHUNK = 16

Linear = tuple[dict[Expr, int], int]


def fixed(expr: Expr, assigned: frozenset[str]) -> bool:
    """Whether an index stays what it is for as long as its block runs."""
    match expr:
        case Const() | Index():
            return True
        case Var():
            return expr.name not in assigned
        case Op():
            return all(fixed(arg, assigned) for arg in expr.args)
        case _:
            return False


def linear(expr: Expr, definitions: Mapping[str, Expr]) -> Linear:
    """An index as a sum of terms times constants, locals replaced by what they were declared as."""
    terms: dict[Expr, int] = {}
    const = 0
    waiting: list[tuple[Expr, int]] = [(expr, 1)]
    while waiting:
        expr, factor = waiting.pop()
        match expr:
            case Const():
                const += factor * int(expr.value)
            case Var() if expr.name in definitions:
                waiting.append((definitions[expr.name], factor))
            case Op(name="add"):
                waiting += [(arg, factor) for arg in expr.args]
            case Op(name="mul", args=(left, Const() as right)):
                waiting.append((left, factor * int(right.value)))
            case _:
                terms[expr] = terms.get(expr, 0) + factor
    return terms, const


def access(stmt: Stmt) -> Load | Store | None:
    """The access of a statement that may be one of a run."""
    if isinstance(stmt, Let) and isinstance(stmt.value, Load):
        return None if stmt.value.checked else stmt.value
    if isinstance(stmt, Store) and isinstance(stmt.value, (Var, Const)):
        return None if stmt.checked else stmt
    return None


def run_length(
    stmts: Sequence[Stmt], start: int, array: Array, uniformity: Uniformity, definitions: Mapping[str, Expr]
) -> int:
    """How many statements from `start` on are a run; 0 if they are none."""
    first = access(stmts[start])
    if first is None or array.space == "private" or array.dtype is bool_ or array.strides[-1] != 1:
        return 0
    form = uniformity.form(first.indices[-1])
    if form is None or form.stride < _LENGTHS[-1] or not all(map(uniformity.is_uniform, first.indices[:-1])):
        return 0
    terms, const = linear(first.indices[-1], definitions)
    count = 1
    while count < min(form.stride, _LENGTHS[0], len(stmts) - start):
        other = access(stmts[start + count])
        if type(other) is not type(first) or other is None or other.buffer != first.buffer:
            break
        if other.indices[:-1] != first.indices[:-1] or linear(other.indices[-1], definitions) != (terms, const + count):
            break
        count += 1
    return next((length for length in _LENGTHS if length <= count), 0)


# --- vectors ----------------------------------------------------------------------------------------------------------


def _shuffle(e: Emitter, t: str, length: int, a: str, b: str, order: Sequence[int]) -> str:
    numbers = ", ".join(f"i32 {number}" for number in order)
    v = f"<{length} x {t}>"
    return e.emit(f"shufflevector {v} {a}, {v} {b}, <{len(order)} x i32> <{numbers}>")


def _joined(e: Emitter, t: str, length: int, parts: list[str]) -> str:
    """Vectors of a length one after another, as one."""
    while len(parts) > 1:
        parts = [_shuffle(e, t, length, a, b, range(2 * length)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        length *= 2
    return parts[0]


def _apart(e: Emitter, t: str, vectors: list[str]) -> list[str]:
    """From the elements of lane after lane to a vector for each element."""
    if len(vectors) == 1:
        return vectors
    pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
    halves = [
        _apart(e, t, [_shuffle(e, t, _CHUNK, a, b, range(odd, 2 * _CHUNK, 2)) for a, b in pairs]) for odd in (0, 1)
    ]
    return [vector for pair in zip(*halves, strict=True) for vector in pair]


def _together(e: Emitter, t: str, vectors: list[str]) -> list[str]:
    """From a vector for each element to the elements of lane after lane."""
    if len(vectors) == 1:
        return vectors
    half = _CHUNK // 2
    orders = [[n // 2 + first + _CHUNK * (n % 2) for n in range(_CHUNK)] for first in (0, half)]
    evens, odds = _together(e, t, vectors[::2]), _together(e, t, vectors[1::2])
    return [_shuffle(e, t, _CHUNK, a, b, order) for a, b in zip(evens, odds, strict=True) for order in orders]


def _lane(e: Emitter, t: str, base: str, lane: int, step: int) -> str:
    return e.emit(f"getelementptr {t}, ptr {base}, i64 {lane * step}") if lane else base


@contextmanager
def _chunks(e: Emitter, t: str, where: Address) -> Generator[tuple[str, str]]:
    """Code for each chunk of lanes, in a loop if there are several: the number of its first, and where that is."""
    if e.lanes == _CHUNK:
        yield "0", where.pointer
        return
    body, after, entered = e.name("chunk"), e.name("after"), e.block
    lane, following = f"%{e.name('l')}", f"%{e.name('n')}"
    e.label(body)
    with e.scope():
        e.do(f"{lane} = phi i64 [ 0, %{entered} ], [ {following}, %{body} ]")
        place = e.emit(f"mul nsw i64 {lane}, {where.step}")
        yield lane, e.emit(f"getelementptr {t}, ptr {where.pointer}, i64 {place}")
        e.do(f"{following} = add nsw i64 {lane}, {_CHUNK}")
        e.again(e.emit(f"icmp slt i64 {following}, {e.lanes}"), body, after)
    e.label(after)


def _cell(e: Emitter, dtype: DType, count: int) -> tuple[str, str]:
    """Memory for some vectors, and how accesses of chunks in it are aligned."""
    align = min(64, _CHUNK * dtype.itemsize)
    return e.cell(f"[{count} x {e.memory[dtype]}]", align), f"align {align}"


def _slots(e: Emitter, t: str, cell: str, count: int, lane: str) -> list[str]:
    """The places of the lanes from `lane` on of each vector in such memory."""
    first = cell if lane == "0" else e.emit(f"getelementptr {t}, ptr {cell}, i64 {lane}")
    return [_lane(e, t, first, number, e.lanes) for number in range(count)]


def load_run(e: Emitter, array: Array, where: Address, length: int) -> list[Value]:
    """A vector of all lanes for each of `length` neighbours, the first of which is at `where`."""
    t, align, several = MEMORY[array.dtype], array.dtype.itemsize, _CHUNK // length
    cell, inside = _cell(e, array.dtype, length)
    with _chunks(e, t, where) as (lane, base):
        pieces = [
            e.emit(f"load <{length} x {t}>, ptr {_lane(e, t, base, number, where.step)}, align {align}{array.tags}")
            for number in range(_CHUNK)
        ]
        joined = [_joined(e, t, length, pieces[at : at + several]) for at in range(0, _CHUNK, several)]
        for slot, vector in zip(_slots(e, t, cell, length, lane), _apart(e, t, joined), strict=True):
            e.do(f"store <{_CHUNK} x {t}> {vector}, ptr {slot}, {inside}")
    loads = [f"load {e.memory[array.dtype]}, ptr {slot}, {inside}" for slot in _slots(e, t, cell, length, "0")]
    return [Value(e.emit(code), array.dtype, None) for code in loads]


def store_run(e: Emitter, array: Array, where: Address, values: Sequence[Value]) -> None:
    """Write a vector of all lanes for each of several neighbours, the first of which is at `where`."""
    t, align, length = MEMORY[array.dtype], array.dtype.itemsize, len(values)
    several = _CHUNK // length
    cell, inside = _cell(e, array.dtype, length)
    for value, slot in zip(values, _slots(e, t, cell, length, "0"), strict=True):
        e.do(f"store {e.memory[array.dtype]} {e.vector(value)}, ptr {slot}, {inside}")
    with _chunks(e, t, where) as (lane, base):
        parts = [e.emit(f"load <{_CHUNK} x {t}>, ptr {slot}, {inside}") for slot in _slots(e, t, cell, length, lane)]
        for number, vector in enumerate(_together(e, t, parts)):
            for piece in range(several):
                own = range(piece * length, (piece + 1) * length)
                text = _shuffle(e, t, _CHUNK, vector, "poison", own) if several > 1 else vector
                target = _lane(e, t, base, number * several + piece, where.step)
                e.do(f"store <{length} x {t}> {text}, ptr {target}, align {align}{array.tags}")
