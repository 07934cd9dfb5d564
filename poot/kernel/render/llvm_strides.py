"""Accesses of neighbours, statement after statement, that are far apart from lane to lane.

    v0 = x[lane * 64 + k]; v1 = x[lane * 64 + k + 1]; …

Each alone would be a gather or a scatter.  Together they are one contiguous piece of each lane, and a transposition of
vectors in registers: by halving, elements of even and odd number apart, as in a bit-reversing permutation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from poot.dtypes import bool_
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


def _lane(e: Emitter, t: str, where: Address, lane: int) -> str:
    return e.emit(f"getelementptr {t}, ptr {where.pointer}, i64 {lane * where.step}") if lane else where.pointer


def load_run(e: Emitter, array: Array, where: Address, length: int) -> list[Value]:
    """A vector of all lanes for each of `length` neighbours, the first of which is at `where`."""
    t, align = MEMORY[array.dtype], array.dtype.itemsize
    chunks: list[list[str]] = []
    for chunk in range(0, e.lanes, _CHUNK):
        pieces = [
            e.emit(f"load <{length} x {t}>, ptr {_lane(e, t, where, lane)}, align {align}{array.tags}")
            for lane in range(chunk, chunk + _CHUNK)
        ]
        several = _CHUNK // length
        vectors = [_joined(e, t, length, pieces[at : at + several]) for at in range(0, _CHUNK, several)]
        chunks.append(_apart(e, t, vectors))
    return [Value(_joined(e, t, _CHUNK, list(parts)), array.dtype, None) for parts in zip(*chunks, strict=True)]


def store_run(e: Emitter, array: Array, where: Address, values: Sequence[Value]) -> None:
    """Write a vector of all lanes for each of several neighbours, the first of which is at `where`."""
    t, align, length = MEMORY[array.dtype], array.dtype.itemsize, len(values)
    texts = [e.vector(value) for value in values]
    several = _CHUNK // length
    for chunk in range(0, e.lanes, _CHUNK):
        order = range(chunk, chunk + _CHUNK)
        parts = [_shuffle(e, t, e.lanes, text, "poison", order) if e.lanes > _CHUNK else text for text in texts]
        for number, vector in enumerate(_together(e, t, parts)):
            for piece in range(several):
                lane = chunk + number * several + piece
                own = range(piece * length, (piece + 1) * length)
                text = _shuffle(e, t, _CHUNK, vector, "poison", own) if several > 1 else vector
                e.do(f"store <{length} x {t}> {text}, ptr {_lane(e, t, where, lane)}, align {align}{array.tags}")
