"""RANDOM primitives: bits that depend on a key and a position alone, so that every device draws the same.

Threefry-2x32 with 20 rounds (J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel Random Numbers: As Easy as
1, 2, 3", 2011).  The counter of an element is its row-major number as two words, high and low; the two words that come
out are a u64, high first, or their exclusive or is a u32.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from poot.dtypes import ArraySpec, u32, u64
from poot.errors import ShapeError
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Expr
from poot.trace.graph import Graph, Params
from poot.trace.primitives import rules
from poot.trace.primitives.base import Example, OracleCall, Primitive, Pull, PullContext, register

Array = np.ndarray[Any, Any]
Specs = tuple[ArraySpec, ...]

PARITY = 0x1BD11BDA
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def _type_rule(specs: Specs, params: Params, regions: tuple[Graph, ...]) -> Specs:
    rules.arity("random_bits", specs, 1)
    rules.parameters("random_bits", params, "shape", "dtype")
    rules.no_regions("random_bits", regions)
    rules.admit("random_bits", specs[0], (u32,))
    if specs[0].shape != (2,):
        raise ShapeError(what="random_bits: operand 1", actual=specs[0].shape, expected="(2,), a key")
    dtype = rules.dtype_param("random_bits", params, (u32, u64))
    return (ArraySpec(dtype, rules.integers("random_bits", params, "shape")),)


def threefry(key: tuple[Array, Array], counter: tuple[Array, Array]) -> tuple[Array, Array]:
    """Twenty rounds on u32 arrays of one shape."""
    schedule = (*key, key[0] ^ key[1] ^ np.uint32(PARITY))
    x, y = counter[0] + schedule[0], counter[1] + schedule[1]
    for group in range(5):
        for distance in ROTATIONS[group % 2]:
            x = x + y
            y = (y << np.uint32(distance)) | (y >> np.uint32(32 - distance))
            y = y ^ x
        x = x + schedule[(group + 1) % 3]
        y = y + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def _random_bits(call: OracleCall, key: Array) -> Array:
    (result,) = call.outputs
    number = np.arange(result.size, dtype=np.uint64)
    counter = (number >> np.uint64(32)).astype(np.uint32), number.astype(np.uint32)
    high, low = threefry((key[:1], key[1:]), counter)
    bits = high ^ low if result.dtype is u32 else (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
    return bits.reshape(result.shape)


def _read(context: PullContext, index: tuple[Expr, ...]) -> Expr:
    k, (result,) = context.k, context.outputs
    first, second = (k.let(context.readers[0]((k.i(item),)), "key") for item in range(2))
    third = k.let(k.op("xor", k.op("xor", first, second), k.const(PARITY, u32)), "key")
    schedule = (first, second, third)
    high, low = _counter(k, index, result.shape)
    x, y = k.let(k.op("add", high, first), "x"), k.let(k.op("add", low, second), "y")
    for group in range(5):
        for distance in ROTATIONS[group % 2]:
            x = k.let(k.op("add", x, y), "x")
            left, right = (k.const(by, u32) for by in (distance, 32 - distance))
            y = k.let(k.op("xor", k.op("or", k.op("shift_left", y, left), k.op("shift_right", y, right)), x), "y")
        x = k.let(k.op("add", x, schedule[(group + 1) % 3]), "x")
        y = k.let(k.op("add", k.op("add", y, schedule[(group + 2) % 3]), k.const(group + 1, u32)), "y")
    if result.dtype is u32:
        return k.op("xor", x, y)
    return k.op("or", k.op("shift_left", k.cast(x, u64), k.const(32, u64)), k.cast(y, u64))


def _counter(k: KernelBuilder, index: tuple[Expr, ...], shape: tuple[int, ...]) -> tuple[Expr, Expr]:
    """An element's row-major number as a high and a low word; past 2**32 elements it is counted in 64 bits."""
    wide = u64 if math.prod(shape) > 1 << 32 else u32
    number: Expr = k.const(0, wide)
    for place, extent in zip(index, shape, strict=True):
        number = k.op("add", k.op("mul", number, k.const(extent, wide)), k.cast(place, wide))
    if wide is u32:
        return k.const(0, u32), number
    return k.cast(k.op("shift_right", number, k.const(32, u64)), u32), k.cast(number, u32)


register(
    Primitive(
        "random_bits",
        "random",
        "uniform bits of a key (u32[2]): Threefry-2x32 of each element's row-major number; u32 or u64 by `dtype`",
        _type_rule,
        _random_bits,
        Pull(lambda context, index: (_read(context, index),)),
        (u32,),
        examples=tuple(
            Example(((2,),), Params(shape=shape, dtype=dtype))
            for shape in ((), (7,), (3, 5), (0, 2), (4, 1, 9))
            for dtype in (u32, u64)
        ),
    )
)
