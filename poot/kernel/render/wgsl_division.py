"""Quotients and square roots of f32 in WGSL, rounded to nearest even, for devices whose own are not.

WGSL lets a quotient be off by 2.5 units in the last place, and anything come of a divisor past 2^126.  Here the
language's own operation on the mantissas is a guess at the digits, whose remainder, a whole number, says how far off it
is and which way to round: the remainder is small, so that its low 32 bits are all of it.  Everything else is done on
bits, and so subnormal numbers are kept where the device flushes them.
"""

from __future__ import annotations

_DIVIDE = """
// The quotient, rounded to nearest even.
fn divide_f32(a: f32, b: f32) -> f32 {
    let sign = (bitcast<u32>(a) ^ bitcast<u32>(b)) & 0x80000000u;
    let x = bitcast<u32>(a) & 0x7fffffffu;
    let y = bitcast<u32>(b) & 0x7fffffffu;
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

_ROOT = """
// The square root, rounded to nearest even.
fn root_f32(a: f32) -> f32 {
    let x = bitcast<u32>(a);
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

EXACT = {"div": ("divide_f32", _DIVIDE), "sqrt": ("root_f32", _ROOT)}
"""The name and the text of the function for each operation."""
