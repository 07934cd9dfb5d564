"""References of the primitives that move or combine elements: plain loops over the indices of the result.

`MOVEMENTS[name](params, shape, *arrays)` gives the result's elements, copied bit for bit; `TOTALS[name](dtype,
numbers)` combines Python numbers into one and says how far a float64 sum of them may be off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from poot.dtypes import DType
from tests.exact_floats import round_fraction
from tests.references import REFERENCES, negative, wrap

Array = np.ndarray
Params = Mapping[str, Any]


# --- movements --------------------------------------------------------------------------------------------------------


def _by_index(source: Callable[[Params, tuple[int, ...], tuple[int, ...]], tuple[int, ...]]) -> Callable[..., Array]:
    """A movement whose result at an index is the operand's element at `source(params, operand shape, index)`."""

    def move(params: Params, shape: tuple[int, ...], x: Array) -> Array:
        result = np.empty(shape, x.dtype)
        for index in np.ndindex(*shape):
            result[index] = x[source(params, x.shape, index)]
        return result

    return move


def _reshape(params: Params, shape: tuple[int, ...], x: Array) -> Array:
    result = np.empty(shape, x.dtype)
    for target, source in zip(np.ndindex(*shape), np.ndindex(*x.shape), strict=True):
        result[target] = x[source]
    return result


def _concat(params: Params, shape: tuple[int, ...], *parts: Array) -> Array:
    result, start, axis = np.empty(shape, parts[0].dtype), 0, params["axis"]
    for part in parts:
        for index in np.ndindex(*part.shape):
            result[(*index[:axis], index[axis] + start, *index[axis + 1 :])] = part[index]
        start += part.shape[axis]
    return result


def _pad(params: Params, shape: tuple[int, ...], x: Array, fill: Array) -> Array:
    result = np.empty(shape, x.dtype)
    for index in np.ndindex(*shape):
        place = [i - low for i, low in zip(index, params["low"], strict=True)]
        steps = [interior + 1 for interior in params["interior"]]
        inside = all(
            p >= 0 and p % step == 0 and p // step < extent
            for p, step, extent in zip(place, steps, x.shape, strict=True)
        )
        result[index] = x[tuple(p // step for p, step in zip(place, steps, strict=True))] if inside else fill[()]
    return result


def _gather(params: Params, shape: tuple[int, ...], x: Array, indices: Array) -> Array:
    result = np.empty(shape, x.dtype)
    batch, axes, positions = params.get("batch", 0), params["axes"], indices.ndim - 1
    for index in np.ndindex(*shape):
        place: dict[int, int] = dict(enumerate(index[:batch]))
        inside = True
        for number, axis in enumerate(axes):
            found, extent = int(indices[(*index[:positions], number)]), x.shape[axis]
            inside &= 0 <= found < extent
            place[axis] = found % extent if params["mode"] == "wrap" else min(max(found, 0), extent - 1)
        window = iter(index[positions:])
        where = tuple(place[axis] if axis in place else next(window) for axis in range(x.ndim))
        result[index] = x[where] if inside or params["mode"] != "fill" else params["fill"]
    return result


def _starts(shape: Sequence[int], sizes: Sequence[int], starts: Sequence[Array]) -> list[int]:
    return [min(max(int(s), 0), extent - size) for s, extent, size in zip(starts, shape, sizes, strict=True)]


def _dynamic_slice(params: Params, shape: tuple[int, ...], x: Array, *starts: Array) -> Array:
    low = _starts(x.shape, shape, starts)
    return _by_index(lambda p, s, index: tuple(a + b for a, b in zip(index, low, strict=True)))(params, shape, x)


def _dynamic_update_slice(params: Params, shape: tuple[int, ...], x: Array, update: Array, *starts: Array) -> Array:
    low, result = _starts(x.shape, update.shape, starts), x.copy()
    for index in np.ndindex(*update.shape):
        result[tuple(a + b for a, b in zip(index, low, strict=True))] = update[index]
    return result


def _select(params: Params, shape: tuple[int, ...], condition: Array, a: Array, b: Array) -> Array:
    result = np.empty(shape, a.dtype)
    for index in np.ndindex(*shape):
        chosen = a if condition[index if condition.ndim else ()] else b
        result[index] = chosen[index if chosen.ndim else ()]
    return result


def _bitcast(params: Params, shape: tuple[int, ...], x: Array) -> Array:
    return np.frombuffer(x.tobytes(), params["dtype"].dtype).reshape(shape)


def _ordered(numbers: Sequence[Any], descending: bool) -> list[int]:
    """Positions in order: NaN is greatest, zeros are equal, ties keep their order."""

    def key(position: int) -> tuple[int, Any]:
        number = float(numbers[position]) if numbers[position].dtype.kind not in "biu" else int(numbers[position])
        missing = number != number
        return (int(missing), 0 if missing else number)

    if descending:
        return sorted(range(len(numbers)), key=key, reverse=True)
    return sorted(range(len(numbers)), key=key)


def sort(params: Params, *operands: Array) -> tuple[Array, ...]:
    results = tuple(np.empty_like(operand) for operand in operands)
    axis, shape = params["axis"], operands[0].shape
    for index in np.ndindex(*shape[:axis], 1, *shape[axis + 1 :]):
        line = tuple(slice(None) if place == axis else i for place, i in enumerate(index))
        for result, operand in zip(results, operands, strict=True):
            for target, source in enumerate(_ordered(list(operands[0][line]), params["descending"])):
                result[line][target] = operand[line][source]
    return results


def top_k(params: Params, x: Array) -> tuple[Array, ...]:
    places = np.broadcast_to(np.arange(x.shape[-1], dtype=np.int32), x.shape)
    both = sort({"axis": x.ndim - 1, "descending": True}, x, places)
    return tuple(array[..., : params["k"]] for array in both)


def extreme_position(name: str, params: Params, x: Array) -> Array:
    axis = params["axis"]
    result = np.empty(x.shape[:axis] + x.shape[axis + 1 :], params["dtype"].dtype)
    for index in np.ndindex(*result.shape):
        line = [x[(*index[:axis], i, *index[axis:])] for i in range(x.shape[axis])]
        order = _ordered(line, name == "argmax")
        missing = [place for place, number in enumerate(line) if number != number]
        result[index] = missing[0] if missing else order[0]
    return result


def contributions(params: Params, operand: Array, indices: Array, updates: Array) -> dict[tuple[int, ...], list[Any]]:
    """Per element of the operand, itself and the updates that scatter brings to it, in row-major order."""
    axes, batch, positions = params["axes"], params.get("batch", 0), indices.ndim - 1
    found: dict[tuple[int, ...], list[Any]] = {index: [operand[index]] for index in np.ndindex(*operand.shape)}
    for index in np.ndindex(*updates.shape):
        place: dict[int, int] = dict(enumerate(index[:batch]))
        inside = True
        for number, axis in enumerate(axes):
            raw, extent = int(indices[(*index[:positions], number)]), operand.shape[axis]
            inside &= 0 <= raw < extent
            place[axis] = raw % extent if params["mode"] == "wrap" else min(max(raw, 0), extent - 1)
        window = iter(index[positions:])
        target = tuple(place[axis] if axis in place else next(window) for axis in range(operand.ndim))
        if inside or params["mode"] != "drop":
            found[target].append(updates[index])
    return found


MASK = (1 << 32) - 1


def threefry(key: tuple[int, int], counter: tuple[int, int]) -> tuple[int, int]:
    """Threefry-2x32, 20 rounds, one block of Python ints."""
    words = [*key, key[0] ^ key[1] ^ 0x1BD11BDA]
    x, y = (counter[0] + words[0]) & MASK, (counter[1] + words[1]) & MASK
    for turn in range(20):
        distance = (13, 15, 26, 6, 17, 29, 16, 24)[turn % 8]
        x = (x + y) & MASK
        y = ((y << distance | y >> (32 - distance)) & MASK) ^ x
        if turn % 4 == 3:
            step = turn // 4 + 1
            x = (x + words[step % 3]) & MASK
            y = (y + words[(step + 1) % 3] + step) & MASK
    return x, y


def random_bits(params: Params, key: Array) -> Array:
    dtype, numbers = params["dtype"], []
    for number in range(math.prod(params["shape"])):
        high, low = threefry((int(key[0]), int(key[1])), (number >> 32, number & MASK))
        numbers.append(high ^ low if dtype.bits == 32 else high << 32 | low)
    return np.array(numbers, dtype.dtype).reshape(params["shape"])


MOVEMENTS: dict[str, Callable[..., Array]] = {
    "broadcast": _by_index(
        lambda params, shape, index: tuple(
            0 if extent == 1 else index[dim] for dim, extent in zip(params["dims"], shape, strict=True)
        )
    ),
    "reshape": _reshape,
    "transpose": _by_index(
        lambda params, shape, index: tuple(index[params["perm"].index(a)] for a in range(len(shape)))
    ),
    "slice": _by_index(
        lambda params, shape, index: tuple(
            start + i * step for i, start, step in zip(index, params["start"], params["step"], strict=True)
        )
    ),
    "reverse": _by_index(
        lambda params, shape, index: tuple(shape[a] - 1 - i if a in params["axes"] else i for a, i in enumerate(index))
    ),
    "concat": _concat,
    "pad": _pad,
    "gather": _gather,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "select": _select,
    "bitcast": _bitcast,
}


# --- totals -----------------------------------------------------------------------------------------------------------

#: A total and how far the oracle, which rounds to float64 on the way, may be from it; None where it is not determined.
Total = tuple[Any, float] | None


def total_of_products(dtype: DType, pairs: Sequence[tuple[Any, Any]], accumulate: DType) -> Total:
    """The sum of products, as reductions and contractions have it."""
    if not dtype.is_float:
        return wrap(sum(a * b for a, b in pairs), accumulate), 0.0
    products = [a * b if not (math.isfinite(a) and math.isfinite(b)) else Fraction(a) * Fraction(b) for a, b in pairs]
    special = {product for product in products if not isinstance(product, Fraction)}
    if any(math.isnan(product) for product in special) or len(special) > 1:
        return math.nan, 0.0
    finite = [product for product in products if isinstance(product, Fraction)]
    magnitude = sum((abs(product) for product in finite), Fraction(0))
    if magnitude >= Fraction(2) ** 1023:
        return None
    if special:
        return special.pop(), 0.0
    if magnitude == 0:
        return 0.0, 0.0
    return round_fraction(sum(finite, Fraction(0)), dtype), (float(magnitude) * 2.0**-52 + 2.0**-1074) * (
        len(pairs) + 1
    )


def _sum(dtype: DType, numbers: Sequence[Any]) -> Total:
    return total_of_products(dtype, [(number, 1) for number in numbers], dtype)


def _prod(dtype: DType, numbers: Sequence[Any]) -> Total:
    if not dtype.is_float:
        return wrap(math.prod(numbers), dtype), 0.0
    sign = -1.0 if sum(map(negative, numbers)) % 2 else 1.0
    infinite, zero = any(map(math.isinf, numbers)), any(number == 0 for number in numbers)
    if any(map(math.isnan, numbers)) or (infinite and zero):
        return math.nan, 0.0
    finite = [Fraction(number) for number in numbers if number != 0 and math.isfinite(number)]
    if sum(abs(q.numerator.bit_length() - q.denominator.bit_length()) + 1 for q in finite) > 1000:
        return None
    if infinite or zero:
        return sign * (math.inf if infinite else 0.0), 0.0
    exact = math.prod(finite, start=Fraction(1))
    return round_fraction(exact, dtype), (float(abs(exact)) * 2.0**-52 + 2.0**-1074) * (len(numbers) + 1)


def _fold(name: str, identity: Callable[[DType], Any]) -> Callable[[DType, Sequence[Any]], Total]:
    def combine(dtype: DType, numbers: Sequence[Any]) -> Total:
        result = identity(dtype)
        for number in numbers:
            result = REFERENCES[name](dtype, result, number)
        return result, 0.0

    return combine


TOTALS: dict[str, Callable[[DType, Sequence[Any]], Total]] = {
    "reduce_sum": _sum,
    "reduce_prod": _prod,
    "reduce_max": _fold("max", lambda dtype: -math.inf if dtype.is_float else dtype.min),
    "reduce_min": _fold("min", lambda dtype: math.inf if dtype.is_float else dtype.max),
    "reduce_any": lambda dtype, numbers: (any(numbers), 0.0),
    "reduce_all": lambda dtype, numbers: (all(numbers), 0.0),
}
