"""Quotients and square roots of f32 and f64 in WGSL, rounded to nearest even, for devices whose own are not.

WGSL lets a quotient be off by 2.5 units in the last place, and anything come of a divisor past 2^126; Vulkan asks of
64-bit floats no more than of those of 32.  Here the language's own operation on the mantissas is a guess at the digits,
whose remainder, a whole number, says how far off it is and which way to round: the remainder is small, so that its low
32 bits, or 64, are all of it.  The digits of f64 are guessed half by half, so that a guess as good as f32 is enough.
Everything else is done on bits, and so subnormal numbers are kept where the device flushes them.
"""

from __future__ import annotations

from poot.dtypes import DType, f32, f64
from poot.kernel.render.wgsl_helpers import ZERO_64

_DIVIDE_F32 = """
// The quotient, rounded to nearest even.
fn divide_f32(a: f32, b: f32) -> f32 {
    let a_bits = bitcast<u32>(a) ^ params.zero;
    let b_bits = bitcast<u32>(b) ^ params.zero;
    let sign = (a_bits ^ b_bits) & 0x80000000u;
    let x = a_bits & 0x7fffffffu;
    let y = b_bits & 0x7fffffffu;
    if (max(x, y) > 0x7f800000u || (x == y && (x == 0u || x == 0x7f800000u))) {
        return bitcast<f32>(0x7fc00000u ^ params.zero);
    }
    if (x == 0x7f800000u || y == 0u) {
        return bitcast<f32>(sign | (0x7f800000u ^ params.zero));
    }
    if (y == 0x7f800000u || x == 0u) {
        return bitcast<f32>(sign);
    }
    let x_up = max(countLeadingZeros(x), 8u) - 8u;
    let y_up = max(countLeadingZeros(y), 8u) - 8u;
    var numerator = ((x << x_up) & 0x7fffffu) | 0x800000u;
    let denominator = ((y << y_up) & 0x7fffffu) | 0x800000u;
    var exponent = 127 + max(i32(x >> 23u), 1) - i32(x_up) - max(i32(y >> 23u), 1) + i32(y_up);
    if (numerator < denominator) {
        numerator <<= 1u;
        exponent -= 1;
    }
    var digits = u32(f32(numerator) / f32(denominator) * 1.6777216e+07f);
    var rest = bitcast<i32>((numerator << 24u) - digits * denominator);
    while (rest < 0) {
        digits -= 1u;
        rest += i32(denominator);
    }
    while (rest >= i32(denominator)) {
        digits += 1u;
        rest -= i32(denominator);
    }
    let drop = u32(clamp(2 - exponent, 1, 26));
    let half = 1u << (drop - 1u);
    let tail = digits & (2u * half - 1u);
    let kept = digits >> drop;
    let up = tail > half || (tail == half && (rest != 0 || (kept & 1u) == 1u));
    return bitcast<f32>(sign | min((u32(max(exponent, 1) - 1) << 23u) + kept + u32(up), 0x7f800000u ^ params.zero));
}"""

_ROOT_F32 = """
// The square root, rounded to nearest even.
fn root_f32(a: f32) -> f32 {
    let x = bitcast<u32>(a) ^ params.zero;
    if ((x & 0x7fffffffu) == 0u || x == 0x7f800000u) {
        return a;
    }
    if (x > 0x7f800000u) {
        return bitcast<f32>(0x7fc00000u ^ params.zero);
    }
    let x_up = max(countLeadingZeros(x), 8u) - 8u;
    let exponent = max(i32(x >> 23u), 1) - i32(x_up) - 127;
    let square = (((x << x_up) & 0x7fffffu) | 0x800000u) << u32(exponent & 1);
    var digits = u32(sqrt(f32(square) * 8.388608e+06f));
    var rest = bitcast<i32>((square << 23u) - digits * digits);
    while (rest < 0) {
        digits -= 1u;
        rest += i32(2u * digits + 1u);
    }
    while (rest > i32(2u * digits)) {
        rest -= i32(2u * digits + 1u);
        digits += 1u;
    }
    return bitcast<f32>((u32((exponent >> 1u) + 126) << 23u) + digits + u32(rest > i32(digits)));
}"""

_DIVIDE_F64 = f"""
// The quotient, rounded to nearest even.
fn divide_f64(a: f64, b: f64) -> f64 {{
    let unknown = {ZERO_64};
    let a_bits = bitcast<u64>(a) ^ unknown;
    let b_bits = bitcast<u64>(b) ^ unknown;
    let sign = (a_bits ^ b_bits) & 0x8000000000000000lu;
    let x = a_bits & 0x7ffffffffffffffflu;
    let y = b_bits & 0x7ffffffffffffffflu;
    if (max(x, y) > 0x7ff0000000000000lu || (x == y && (x == 0lu || x == 0x7ff0000000000000lu))) {{
        return bitcast<f64>(0x7ff8000000000000lu ^ unknown);
    }}
    if (x == 0x7ff0000000000000lu || y == 0lu) {{
        return bitcast<f64>(sign | (0x7ff0000000000000lu ^ unknown));
    }}
    if (y == 0x7ff0000000000000lu || x == 0lu) {{
        return bitcast<f64>(sign);
    }}
    let x_up = max(clz_64(x), 11u) - 11u;
    let y_up = max(clz_64(y), 11u) - 11u;
    let denominator = bitcast<i64>(((y << y_up) & 0xffffffffffffflu) | 0x10000000000000lu);
    var rest = bitcast<i64>(((x << x_up) & 0xffffffffffffflu) | 0x10000000000000lu);
    var exponent = 1023 + max(i32(x >> 52u), 1) - i32(x_up) - max(i32(y >> 52u), 1) + i32(y_up);
    if (rest < denominator) {{
        rest <<= 1u;
        exponent -= 1;
    }}
    let guess = 1.34217728e+08lf / f64(denominator);
    var digits = 0li;
    for (var half = 0; half < 2; half += 1) {{
        let more = i64(f64(rest) * guess);
        digits = (digits << 27u) + more;
        rest = (rest << 27u) - more * denominator;
        while (rest < 0li) {{
            digits -= 1li;
            rest += denominator;
        }}
        while (rest >= denominator) {{
            digits += 1li;
            rest -= denominator;
        }}
    }}
    let drop = u32(clamp(3 - exponent, 2, 56));
    let tie = 1lu << (drop - 1u);
    let tail = bitcast<u64>(digits) & (2lu * tie - 1lu);
    let kept = bitcast<u64>(digits) >> drop;
    let up = tail > tie || (tail == tie && (rest != 0li || (kept & 1lu) == 1lu));
    let size = (u64(u32(max(exponent, 1) - 1)) << 52u) + kept + u64(u32(up));
    return bitcast<f64>(sign | min(size, 0x7ff0000000000000lu ^ unknown));
}}"""

_ROOT_F64 = f"""
// The square root, rounded to nearest even.
fn root_f64(a: f64) -> f64 {{
    let x = bitcast<u64>(a) ^ {ZERO_64};
    if ((x & 0x7ffffffffffffffflu) == 0lu || x == 0x7ff0000000000000lu) {{
        return a;
    }}
    if (x > 0x7ff0000000000000lu) {{
        return bitcast<f64>(0x7ff8000000000000lu ^ {ZERO_64});
    }}
    let x_up = max(clz_64(x), 11u) - 11u;
    let exponent = max(i32(x >> 52u), 1) - i32(x_up) - 1023;
    let square = bitcast<i64>((((x << x_up) & 0xffffffffffffflu) | 0x10000000000000lu) << u32(exponent & 1));
    var digits = i64(sqrt(f64(square)));
    var rest = square - digits * digits;
    for (var half = 0; half < 2; half += 1) {{
        if (half == 1) {{
            let more = i64(f64(rest) / f64(digits) * 3.3554432e+07lf);
            rest = (rest << 52u) - more * ((digits << 27u) + more);
            digits = (digits << 26u) + more;
        }}
        while (rest < 0li) {{
            digits -= 1li;
            rest += 2li * digits + 1li;
        }}
        while (rest > 2li * digits) {{
            rest -= 2li * digits + 1li;
            digits += 1li;
        }}
    }}
    let size = (u64(u32((exponent >> 1u) + 1022)) << 52u) + bitcast<u64>(digits);
    return bitcast<f64>(size + u64(u32(rest > digits)));
}}"""

EXACT: dict[tuple[str, DType], tuple[str, str]] = {
    ("div", f32): ("divide_f32", _DIVIDE_F32),
    ("sqrt", f32): ("root_f32", _ROOT_F32),
    ("div", f64): ("divide_f64", _DIVIDE_F64),
    ("sqrt", f64): ("root_f64", _ROOT_F64),
}
"""The name and the text of the function for each operation; those of f64 call `clz_64`."""
