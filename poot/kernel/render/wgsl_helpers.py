"""Functions that WGSL lacks, each written into a kernel's text where it is used.

Compilers of WGSL may reassociate floats and may assume that there are no NaNs; what must not depend on either works on
bits, and `params.zero`, which is 0 at run time and unknown to the compiler, fences what it must not see through.
Where a number is tested for NaN its bits are mixed with that too: from the bits of a sum or product as it stands, a
compiler can tell that there is no NaN to be found.
"""

from __future__ import annotations

from poot.dtypes import DType, bool_, f32, f64


def type_of(dtype: DType) -> str:
    """The type of a local: narrow integers are held in 32 bits, the 16-bit floats as their bits in u32."""
    if dtype is bool_:
        return "bool"
    if dtype.bits < 32:
        return "i32" if dtype.kind == "int" else "u32"
    return dtype.name


#: The zero of 64 bits, unknown in both words: compilers take 64-bit integers apart, and sign and exponent stand high.
ZERO_64 = "(u64(params.zero) * 0x100000001lu)"

FENCE: dict[DType, str] = {
    f32: """
// The value itself, in a form that the compiler cannot simplify together with its surroundings.
fn fence_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ params.zero);
}""",
    f64: f"""
// The value itself, in a form that the compiler cannot simplify together with its surroundings.
fn fence_f64(x: f64) -> f64 {{
    return bitcast<f64>(bitcast<u64>(x) ^ {ZERO_64});
}}""",
}

APART: dict[DType, str] = {
    f32: """
// The value itself, which the compiler cannot know to be one that it meets, be that fenced or not.
fn apart_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) + params.zero);
}""",
    f64: f"""
// The value itself, which the compiler cannot know to be one that it meets, be that fenced or not.
fn apart_f64(x: f64) -> f64 {{
    return bitcast<f64>(bitcast<u64>(x) + {ZERO_64});
}}""",
}

HOLDS = """
// A comparison that is not turned round where a branch negates it: that would be wrong for NaN.
fn holds(comparison: bool) -> bool {
    return select(0u, 1u, comparison) != params.zero;
}"""

IS_NAN: dict[DType, str] = {
    f32: """
fn is_nan_f32(x: f32) -> bool {
    return ((bitcast<u32>(x) ^ params.zero) & 0x7fffffffu) > 0x7f800000u;
}""",
    f64: f"""
fn is_nan_f64(x: f64) -> bool {{
    return ((bitcast<u64>(x) ^ {ZERO_64}) & 0x7ffffffffffffffflu) > 0x7ff0000000000000lu;
}}""",
}


# --- integers -------------------------------------------------------------------------------------------------------


def floor_div(t: str, zero: str, one: str) -> str:
    """Floor division; 0 for a zero divisor, and the least integer stays where it is divided by -1."""
    if t.startswith("u"):
        return f"""
fn floor_div_{t}(a: {t}, b: {t}) -> {t} {{
    return select(a / max(b, {one}), {zero}, b == {zero});
}}"""
    return f"""
fn floor_div_{t}(a: {t}, b: {t}) -> {t} {{
    if (b == {zero}) {{
        return {zero};
    }}
    if (b == -{one}) {{
        return {zero} - a;
    }}
    let quotient = a / b;
    let short = a - quotient * b != {zero} && (a < {zero}) != (b < {zero});
    return select(quotient, quotient - {one}, short);
}}"""


def rem(t: str, zero: str, one: str) -> str:
    """The remainder with the sign of the divisor; 0 for a zero divisor.

    Through the quotient: of negative operands Vulkan leaves % open, and NVIDIA's driver takes it for unsigned.
    """
    if t.startswith("u"):
        return f"""
fn rem_{t}(a: {t}, b: {t}) -> {t} {{
    return select(a % max(b, {one}), {zero}, b == {zero});
}}"""
    return f"""
fn rem_{t}(a: {t}, b: {t}) -> {t} {{
    if (b == {zero} || b == -{one}) {{
        return {zero};
    }}
    let rest = a - a / b * b;
    return select(rest, rest + b, rest != {zero} && (rest < {zero}) != (b < {zero}));
}}"""


def shift(name: str, dtype: DType, count: str) -> str:
    """Shifts whose count may be past the width; `count` is its type, whose values are read as unsigned."""
    t, width = type_of(dtype), dtype.bits
    zero = {"i64": "0li", "u64": "0lu"}.get(t, f"{t}(0)")
    within = f"u64(count) < {width}lu" if width == 64 else f"u32(count) < {width}u"
    if name == "shift_right" and dtype.kind == "int":
        body = f"a >> select({width - 1}u, u32(count), {within})"
    else:
        sign = "<<" if name == "shift_left" else ">>"
        body = f"select({zero}, a {sign} (u32(count) & {max(width, 32) - 1}u), {within})"
    return f"fn {name}_{dtype.name}(a: {t}, count: {count}) -> {t} {{\n    return {body};\n}}"


I32_TO_U64 = """
// Sign extension.
fn i32_to_u64(x: i32) -> u64 {
    return u64(bitcast<u32>(x)) | (u64(bitcast<u32>(x >> 31u)) << 32u);
}"""

CLZ_64 = """
fn clz_64(x: u64) -> u32 {
    let high = u32(x >> 32u);
    return select(countLeadingZeros(high), 32u + countLeadingZeros(u32(x)), high == 0u);
}"""

POPCOUNT_64 = """
fn popcount_64(x: u64) -> u32 {
    return countOneBits(u32(x >> 32u)) + countOneBits(u32(x));
}"""


# --- floats ---------------------------------------------------------------------------------------------------------


def ordered(dtype: DType, greater: bool, is_nan: str) -> str:
    """The lesser or greater: NaN wins, and -0.0 is less than +0.0; by bits, which order like the numbers."""
    t = dtype.name
    u, s, top, rest = (
        ("u32", "i32", "31u", "0x7fffffffu") if dtype is f32 else ("u64", "i64", "63u", f"0x7f{'f' * 14}lu")
    )
    name, first = ("max", "y < x") if greater else ("min", "x < y")
    return f"""
fn {name}_{t}(a: {t}, b: {t}) -> {t} {{
    let a_bits = bitcast<{s}>(a);
    let b_bits = bitcast<{s}>(b);
    let x = a_bits ^ bitcast<{s}>(bitcast<{u}>(a_bits >> {top}) & {rest});
    let y = b_bits ^ bitcast<{s}>(bitcast<{u}>(b_bits >> {top}) & {rest});
    return bitcast<{t}>(select(b_bits, a_bits, {is_nan}(a) || ({first} && !{is_nan}(b))));
}}"""


def saturate(source: DType, to: DType, literals: tuple[str, str, str], bounds: tuple[str, str], is_nan: str) -> str:
    """Floats to integers: towards zero, clamped, NaN to 0; `literals` are 0, the least and the greatest integer."""
    t, s = type_of(to), source.name
    zero, least, greatest = literals
    low, high = bounds
    return f"""
fn {s}_to_{to.name}(x: {s}) -> {t} {{
    if ({is_nan}(x)) {{
        return {zero};
    }}
    if (x <= {low}) {{
        return {least};
    }}
    if (x >= {high}) {{
        return {greatest};
    }}
    return {t}(x);
}}"""


F16_TO_F32 = """
fn f16_to_f32(bits: u32) -> f32 {
    return unpack2x16float(bits).x;
}"""

F32_TO_F16 = """
fn f32_to_f16(x: f32) -> u32 {
    let bits = bitcast<u32>(x) ^ params.zero;
    let sign = (bits >> 16u) & 0x8000u;
    let size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) {
        return sign | 0x7e00u;
    }
    if (size >= 0x47800000u) {
        return sign | 0x7c00u;
    }
    if (size >= 0x38800000u) {
        return sign | ((size + 0xfffu + ((size >> 13u) & 1u) - 0x38000000u) >> 13u);
    }
    let drop = 126u - max(size >> 23u, 101u);
    let mantissa = (size & 0x7fffffu) | 0x800000u;
    let kept = mantissa >> drop;
    let rest = mantissa & ((1u << drop) - 1u);
    let half = 1u << (drop - 1u);
    let up = rest > half || (rest == half && (kept & 1u) == 1u);
    return sign | select(0u, kept + u32(up), size >= 0x33000000u);
}"""

BF16_TO_F32 = """
fn bf16_to_f32(bits: u32) -> f32 {
    return bitcast<f32>(bits << 16u);
}"""

F32_TO_BF16 = """
fn f32_to_bf16(x: f32) -> u32 {
    let bits = bitcast<u32>(x) ^ params.zero;
    let nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return select((bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u, (bits >> 16u) | 64u, nan);
}"""

F64_TO_ODD = f"""
// To f32 so that a second rounding is right: the bits past those that it holds are gathered in its last one.
fn f64_to_odd(x: f64) -> f32 {{
    let bits = bitcast<u64>(x) ^ {ZERO_64};
    let lost = u32(clamp(926 - i32((bits >> 52u) & 0x7fflu), 29, 45));
    let mask = (1lu << lost) - 1lu;
    return f32(bitcast<f64>((bits & ~mask) | select(0lu, mask + 1lu, (bits & mask) != 0lu)));
}}"""


def integer_to_odd(t: str) -> str:
    """A magnitude to f32, with the bits past the 24 that it holds gathered in its last one."""
    clz = "clz_64(magnitude)" if t == "u64" else "countLeadingZeros(magnitude)"
    one, zero = ("1lu", "0lu") if t == "u64" else ("1u", "0u")
    most = 40 if t == "u64" else 8
    return f"""
// To f32 so that a second rounding is right: the bits past the 24 that it holds are gathered in its last one.
fn {t}_to_odd(magnitude: {t}, negative: bool) -> f32 {{
    let lost = u32(max({most} - i32({clz}), 0));
    let rest = magnitude & (({one} << lost) - {one});
    let kept = u32(magnitude >> lost) | u32(rest != {zero});
    let x = f32(kept) * bitcast<f32>((lost + 127u) << 23u);
    return select(x, -x, negative);
}}"""


# --- work-groups ----------------------------------------------------------------------------------------------------


def reduction(op: str, dtype: DType, scratch: str, count: int, combine: str) -> str:
    """A reduction over the work-group: lane i takes in lane i + n/2, rounded up, until one is left."""
    t = type_of(dtype)
    load, store = ("{} != 0u", "u32({})") if dtype is bool_ else ("{}", "{}")
    steps: list[str] = []
    while count > 1:
        half = (count + 1) // 2
        pair = combine.format(load.format(f"{scratch}[lane]"), load.format(f"{scratch}[lane + {half}u]"))
        steps.append(f"    if (lane < {count - half}u) {{")
        steps.append(f"        {scratch}[lane] = {store.format(pair)};")
        steps.append("    }")
        steps.append("    workgroupBarrier();")
        count = half
    lines = "\n".join(steps)
    return f"""
fn group_{op}_{dtype.name}(value: {t}, lane: u32) -> {t} {{
    {scratch}[lane] = {store.format("value")};
    workgroupBarrier();
{lines}
    let result = {load.format(f"{scratch}[0]")};
    workgroupBarrier();
    return result;
}}"""


def scan(dtype: DType, scratch: str, count: int, combine: str) -> str:
    """Running sums over the work-group: lane i takes in lane i - 1, then i - 2, i - 4 and so on."""
    t = type_of(dtype)
    steps: list[str] = []
    step = 1
    while step < count:
        steps.append(f"    before = {scratch}[max(lane, {step}u) - {step}u];")
        steps.append("    workgroupBarrier();")
        steps.append(f"    if (lane >= {step}u) {{")
        steps.append(f"        {scratch}[lane] = {combine.format('before', f'{scratch}[lane]')};")
        steps.append("    }")
        steps.append("    workgroupBarrier();")
        step *= 2
    lines = "\n".join(steps)
    return f"""
fn group_scan_{dtype.name}(value: {t}, lane: u32) -> {t} {{
    var before = value;
    {scratch}[lane] = value;
    workgroupBarrier();
{lines}
    let result = {scratch}[lane];
    workgroupBarrier();
    return result;
}}"""


# --- memory ---------------------------------------------------------------------------------------------------------


def narrow_load(name: str, buffer: str, dtype: DType, first: str, atomic: bool) -> str:
    """An element of 8 or 16 bits out of its word."""
    per_word = 32 // dtype.bits
    word = f"{buffer}[element_at / {per_word}u]"
    word = f"atomicLoad(&{word})" if atomic else word
    t = type_of(dtype)
    if dtype.kind == "int":
        word = f"bitcast<i32>({word})"
    value = f"extractBits({word}, element_at % {per_word}u * {dtype.bits}u, {dtype.bits}u)"
    return f"""
fn {name}(element_number: i32) -> {t} {{
    let element_at = u32({first} + element_number);
    return {value}{" != 0u" if dtype is bool_ else ""};
}}"""


def narrow_store(name: str, buffer: str, dtype: DType, first: str) -> str:
    """An element of 8 or 16 bits into its word, which other threads may be writing to."""
    per_word = 32 // dtype.bits
    value = "new_value" if type_of(dtype) == "u32" else "u32(new_value)"
    return f"""
fn {name}(element_number: i32, new_value: {type_of(dtype)}) {{
    let element_at = u32({first} + element_number);
    var word_seen = atomicLoad(&{buffer}[element_at / {per_word}u]);
    loop {{
        let word_new = insertBits(word_seen, {value}, element_at % {per_word}u * {dtype.bits}u, {dtype.bits}u);
        let word_swap = atomicCompareExchangeWeak(&{buffer}[element_at / {per_word}u], word_seen, word_new);
        if (word_swap.exchanged) {{
            break;
        }}
        word_seen = word_swap.old_value;
    }}
}}"""


def atomic_function(name: str, place: str, dtype: DType, op: str) -> str:
    """Atomics that WGSL has no single call for: strong compare-and-swap, and floats by their bits."""
    t = type_of(dtype)
    u = f"u{dtype.bits}" if dtype.is_float else t
    if op == "compare_exchange":
        return f"""
fn {name}(element_number: i32, wanted_value: {t}, new_value: {t}) -> {t} {{
    loop {{
        let word_swap = atomicCompareExchangeWeak(&{place}, wanted_value, new_value);
        if (word_swap.exchanged || word_swap.old_value != wanted_value) {{
            return word_swap.old_value;
        }}
    }}
    return wanted_value;
}}"""
    return f"""
fn {name}(element_number: i32, new_value: {t}) -> {t} {{
    var word_seen = atomicLoad(&{place});
    loop {{
        let word_new = bitcast<{u}>(bitcast<{t}>(word_seen) + new_value);
        let word_swap = atomicCompareExchangeWeak(&{place}, word_seen, word_new);
        if (word_swap.exchanged) {{
            break;
        }}
        word_seen = word_swap.old_value;
    }}
    return bitcast<{t}>(word_seen);
}}"""


LAUNCH_GROUP = """
// The number of a work-group, where a grid that is too long on one axis is dispatched in another shape.
fn launch_group(workgroup: vec3<u32>, counts: vec3<u32>) -> vec3<u32> {
    if (params.folded == 0u) {
        return workgroup;
    }
    let number = workgroup.x + counts.x * (workgroup.y + counts.y * workgroup.z);
    let rows = number / params.num_groups_x;
    return vec3<u32>(number % params.num_groups_x, rows % params.num_groups_y, rows / params.num_groups_y);
}"""
