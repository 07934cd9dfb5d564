"""Small Triton functions that rendered kernels call: meanings that `tl` has no single word for.

Each is portable Triton, with no inline assembly and no library call, and works on scalars and blocks alike.  Only those
that a kernel uses are written into its source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_SOURCES = """
def floor_div_signed(a, b):
    minus = b == -1
    safe = tl.where((b == 0) | minus, tl.full((), 1, b.dtype), b)
    quotient = a // safe
    rest = a - quotient * safe
    quotient = tl.where((rest != 0) & ((rest ^ safe) < 0), quotient - 1, quotient)
    quotient = tl.where(minus, 0 - a, quotient)
    return tl.where(b == 0, tl.full((), 0, b.dtype), quotient)

def floor_div_unsigned(a, b):
    zero = b == 0
    quotient = a // tl.where(zero, tl.full((), 1, b.dtype), b)
    return tl.where(zero, tl.full((), 0, b.dtype), quotient)

def rem_signed(a, b):
    rest = a - floor_div_signed(a, b) * b
    return tl.where(b == 0, tl.full((), 0, b.dtype), rest)

def rem_unsigned(a, b):
    rest = a - floor_div_unsigned(a, b) * b
    return tl.where(b == 0, tl.full((), 0, b.dtype), rest)

def shift_left(a, count, WIDTH: tl.constexpr):
    inside = (count >= 0) & (count < WIDTH)
    return tl.where(inside, a << (count & (WIDTH - 1)), tl.full((), 0, a.dtype))

def shift_left_64(a, count):
    most = tl.where((count >= 0) & (count < 64), count, tl.full((), 64, count.dtype))
    return (a << (most >> 1)) << (most - (most >> 1))

def shift_right_unsigned(a, count, WIDTH: tl.constexpr):
    return tl.where(count < WIDTH, a >> (count & (WIDTH - 1)), tl.full((), 0, a.dtype))

def shift_right_unsigned_64(a, count):
    most = tl.where(count < 64, count, tl.full((), 64, count.dtype))
    return (a >> (most >> 1)) >> (most - (most >> 1))

def shift_right_signed(a, count, WIDTH: tl.constexpr):
    inside = (count >= 0) & (count < WIDTH)
    return a >> tl.where(inside, count, tl.full((), WIDTH - 1, a.dtype))

def greater(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)

def lesser(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)

def negated(x):
    return x * -1.0

def truncated(x):
    return tl.where(x < 0.0, tl.ceil(x), tl.floor(x))

def rounded_f32(x):
    size = tl.abs(x)
    whole = ((size + 8388608.0) - 8388608.0).to(tl.int32, bitcast=True)
    sign = x.to(tl.int32, bitcast=True) & tl.full((), -2147483648, tl.int32)
    return tl.where(size < 8388608.0, (whole | sign).to(tl.float32, bitcast=True), x)

def rounded_f64(x):
    size = tl.abs(x)
    whole = ((size + 4503599627370496.0) - 4503599627370496.0).to(tl.int64, bitcast=True)
    sign = x.to(tl.int64, bitcast=True) & tl.full((), -9223372036854775808, tl.int64)
    return tl.where(size < 4503599627370496.0, (whole | sign).to(tl.float64, bitcast=True), x)

def popcount_32(x):
    x = x - ((x >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return (x * 0x01010101) >> 24

def popcount_64(x):
    low = popcount_32((x & 0xFFFFFFFF).to(tl.uint32))
    return low + popcount_32((x >> 32).to(tl.uint32))

def clz_32(x):
    x = x | (x >> 1)
    x = x | (x >> 2)
    x = x | (x >> 4)
    x = x | (x >> 8)
    x = x | (x >> 16)
    return popcount_32(x ^ 0xFFFFFFFF)

def clz_64(x):
    high = (x >> 32).to(tl.uint32)
    low = clz_32((x & 0xFFFFFFFF).to(tl.uint32))
    return tl.where(high == 0, low + 32, clz_32(high))

def rounded_to_odd(x):
    near = x.to(tl.float32)
    back = near.to(tl.float64)
    bits = near.to(tl.int32, bitcast=True)
    moved = (back != x) & (x == x) & ((bits & 1) == 0)
    step = tl.where(tl.abs(back) < tl.abs(x), tl.full((), 1, tl.int32), tl.full((), -1, tl.int32))
    return tl.where(moved, bits + step, bits).to(tl.float32, bitcast=True)

def sticky(x, large):
    lost = (x & 2047) != 0
    mark = tl.where(lost, tl.full((), 2048, x.dtype), tl.full((), 0, x.dtype))
    return tl.where(large, ((x >> 11) << 11) | mark, x).to(tl.float64)

def sticky_signed(x):
    top = x >> 53
    return sticky(x, (top != 0) & (top != -1))

def sticky_unsigned(x):
    return sticky(x, (x >> 53) != 0)

def clamped(x, LOW: tl.constexpr, HIGH: tl.constexpr):
    inside = tl.where(x < HIGH, x, tl.full((), HIGH, x.dtype))
    inside = tl.where(inside > LOW, inside, tl.full((), LOW, x.dtype))
    return tl.where(x == x, inside, tl.full((), 0.0, x.dtype))

def saturated(x, whole, BELOW: tl.constexpr, PAST: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr):
    whole = tl.where(x >= PAST, tl.full((), HIGH, whole.dtype), whole)
    whole = tl.where(x <= BELOW, tl.full((), LOW, whole.dtype), whole)
    return tl.where(x == x, whole, tl.full((), 0, whole.dtype))

def any_of(mask):
    return tl.max(mask.to(tl.int32), axis=0) > 0

def claim(fault, launch, SITE: tl.constexpr, failed, axis, index, extent):
    if failed:
        if tl.atomic_cas(fault, 0, 1, sem="relaxed") == 0:
            tl.store(fault + 1, launch)
            tl.store(fault + 2, SITE)
            tl.store(fault + 3, axis)
            tl.store(fault + 4, index.to(tl.int32))
            tl.store(fault + 5, (index >> 32).to(tl.int32))
            tl.store(fault + 6, extent.to(tl.int32))
            tl.store(fault + 7, (extent >> 32).to(tl.int32))

def claim_first(fault, launch, SITE: tl.constexpr, lanes, SIZE: tl.constexpr, failed, axis, index, extent):
    first = tl.min(tl.where(failed, lanes, SIZE), axis=0)
    chosen = lanes == first
    axis = tl.sum(tl.where(chosen, axis, 0), axis=0)
    index = tl.sum(tl.where(chosen, index, 0), axis=0)
    extent = tl.sum(tl.where(chosen, extent, 0), axis=0)
    claim(fault, launch, SITE, first < SIZE, axis, index, extent)
"""

#: Source of each function by its name.
HELPERS: dict[str, str] = {
    match.group(1): match.group(0).strip() + "\n"
    for match in re.finditer(r"^def (\w+)\(.*?(?=^def |\Z)", _SOURCES, re.DOTALL | re.MULTILINE)
}


def needed(names: Iterable[str]) -> list[str]:
    """The named helpers and those that they call, in the order in which they are defined."""
    found = set(names)
    while True:
        more = {
            word for name in found for word in re.findall(r"\b\w+(?=\()", HELPERS[name].partition("\n")[2])
        } & HELPERS.keys()
        if more <= found:
            return [name for name in HELPERS if name in found]
        found |= more
