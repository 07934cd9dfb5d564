"""Functions that OpenCL C lacks, each written into a kernel's text where it is used."""

from __future__ import annotations

import math

from poot.dtypes import DType, bool_, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64

TYPES: dict[DType, str] = {
    bool_: "bool",
    i8: "char",
    u8: "uchar",
    i16: "short",
    u16: "ushort",
    i32: "int",
    u32: "uint",
    i64: "long",
    u64: "ulong",
    f32: "float",
    f64: "double",
}
"""Types of locals; f16 and bf16 are kept as their bits, in ushort."""


def type_of(dtype: DType) -> str:
    """The type of a local."""
    return TYPES.get(dtype, "ushort")


def stored(dtype: DType) -> str:
    """The type of an element in memory."""
    return "uchar" if dtype is bool_ else type_of(dtype)


def unsigned_of(dtype: DType) -> str:
    """The unsigned type that an integer is computed in, so that it wraps: no narrower than uint."""
    return "ulong" if dtype.bits == 64 else "uint"


# --- integers -------------------------------------------------------------------------------------------------------


def floor_div(dtype: DType) -> str:
    """Floor division; 0 for a zero divisor, and the least integer stays where it is divided by -1."""
    t, n = type_of(dtype), dtype.name
    if dtype.kind == "uint":
        return f"{t} floor_div_{n}({t} a, {t} b) {{\n    return b == 0 ? 0 : a / b;\n}}"
    return f"""
{t} floor_div_{n}({t} a, {t} b) {{
    if (b == 0) return 0;
    if (b == -1) return ({t})(0 - ({unsigned_of(dtype)})a);
    {t} q = a / b;
    return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}}"""


def rem(dtype: DType) -> str:
    """The remainder with the sign of the divisor; 0 for a zero divisor."""
    t, n = type_of(dtype), dtype.name
    if dtype.kind == "uint":
        return f"{t} rem_{n}({t} a, {t} b) {{\n    return b == 0 ? 0 : a % b;\n}}"
    return f"""
{t} rem_{n}({t} a, {t} b) {{
    if (b == 0 || b == -1) return 0;
    {t} r = a % b;
    return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}}"""


def shift(dtype: DType, left: bool) -> str:
    """Shifts whose count may be past the width."""
    t, n, width, u = type_of(dtype), dtype.name, dtype.bits, unsigned_of(dtype)
    count = f"(({'uchar' if width == 8 else 'ushort' if width == 16 else u})count)"
    if left:
        name, body = "shift_left", f"{count} < {width} ? ({t})(({u})a << {count}) : ({t})0"
    elif dtype.kind == "uint":
        name, body = "shift_right", f"{count} < {width} ? ({t})(a >> {count}) : ({t})0"
    else:
        name, body = "shift_right", f"({t})(a >> ({count} < {width} ? {count} : {width - 1}))"
    return f"{t} {name}_{n}({t} a, {t} count) {{\n    return {body};\n}}"


def absolute(dtype: DType) -> str:
    """The absolute value, in which the least integer stays; drivers may take that for undefined in their own abs."""
    t, u, n = type_of(dtype), unsigned_of(dtype), dtype.name
    return f"""
{t} abs_{n}({t} a) {{
    return ({t})(a < 0 ? 0 - ({u})a : ({u})a);
}}"""


# --- floats ---------------------------------------------------------------------------------------------------------


def ordered(dtype: DType, greater: bool) -> str:
    """The lesser or greater: NaN wins, and -0.0 is less than +0.0."""
    t, n, bits = type_of(dtype), dtype.name, "int" if dtype is f32 else "long"
    name, compare, zeros = ("max", ">", "&") if greater else ("min", "<", "|")
    return f"""
{t} {name}_{n}({t} a, {t} b) {{
    if (isnan(a)) return a;
    if (isnan(b)) return b;
    if (a == b) return as_{t}(as_{bits}(a) {zeros} as_{bits}(b));
    return a {compare} b ? a : b;
}}"""


def rounded(name: str, dtype: DType) -> str:
    """To a whole number; drivers may take the built-in functions of NaN, infinities and large numbers for undefined."""
    t, limit = type_of(dtype), "0x1p23f" if dtype is f32 else "0x1p52"
    return f"""
{t} {name}_{dtype.name}({t} x) {{
    return fabs(x) < {limit} ? {"rint" if name == "round" else name}(x) : x;
}}"""


def saturate(source: DType, to: DType) -> str:
    """Floats to integers: towards zero, clamped, NaN to 0."""
    t, s = type_of(to), type_of(source)
    return f"""
{t} {source.name}_to_{to.name}({s} x) {{
    return isnan(x) ? 0 : convert_{t}_sat(x);
}}"""


F16_TO_F32 = """
float f16_to_f32(ushort bits) {
    return vload_half(0, (const half *)&bits);
}"""

F32_TO_F16 = """
ushort f32_to_f16(float x) {
    ushort bits;
    vstore_half_rte(x, 0, (half *)&bits);
    return bits;
}"""

BF16_TO_F32 = """
float bf16_to_f32(ushort bits) {
    return as_float((uint)bits << 16);
}"""

F32_TO_BF16 = """
ushort f32_to_bf16(float x) {
    uint bits = as_uint(x);
    if (isnan(x)) return (ushort)((bits >> 16) | 64);
    return (ushort)((bits + 32767 + ((bits >> 16) & 1)) >> 16);
}"""

F64_TO_ODD = """
// To f32 so that a second rounding is right: an inexact result is made odd, between its neighbours.
float f64_to_odd(double x) {
    float near = (float)x;
    uint bits = as_uint(near);
    if ((double)near == x || isnan(x) || (bits & 1)) return near;
    return as_float(fabs((double)near) < fabs(x) ? bits + 1 : bits - 1);
}"""

INTEGER_TO_ODD = """
// To f32 so that a second rounding is right: the bits past the 24 that it holds are gathered in its last one.
float integer_to_odd(ulong magnitude, bool negative) {
    uint lost = (uint)max(40 - (int)clz(magnitude), 0);
    uint kept = (uint)(magnitude >> lost);
    kept |= (magnitude & ((1UL << lost) - 1)) != 0;
    float x = ldexp((float)kept, (int)lost);
    return negative ? -x : x;
}"""


def cas_update(dtype: DType, op: str, space: str) -> str:
    """An atomic update of a float by compare-and-swap of its bits."""
    t, u = type_of(dtype), "uint" if dtype is f32 else "ulong"
    swap = "atomic_cmpxchg" if dtype is f32 else "atom_cmpxchg"
    new = "old + value" if op == "add" else "value"
    return f"""
{t} atomic_{op}_{dtype.name}_{space}(volatile __{space} {t} *place, {t} value) {{
    {u} seen = as_{u}(*place), before;
    do {{
        before = seen;
        {t} old = as_{t}(before);
        seen = {swap}((volatile __{space} {u} *)place, before, as_{u}({new}));
    }} while (seen != before);
    return as_{t}(seen);
}}"""


# --- work-groups ----------------------------------------------------------------------------------------------------


def lane(workgroup: tuple[int, int, int]) -> str:
    """The linear number of a thread in its work-group."""
    x, y, z = workgroup
    if y == z == 1:
        return "(uint)get_local_id(0)"
    plane = f"get_local_id(1) + {y} * get_local_id(2)" if z > 1 else "get_local_id(1)"
    return f"(uint)(get_local_id(0) + {x} * ({plane}))"


def reduction(op: str, dtype: DType, workgroup: tuple[int, int, int], combine: str) -> str:
    """A reduction over the work-group: lane i takes in lane i + n/2, rounded up, until one is left."""
    t, s = type_of(dtype), stored(dtype)
    steps: list[str] = []
    count = math.prod(workgroup)
    while count > 1:
        half = (count + 1) // 2
        pair = combine.format("scratch[lane]", f"scratch[lane + {half}]")
        steps.append(f"    if (lane < {count - half}) scratch[lane] = {pair};")
        steps.append("    barrier(CLK_LOCAL_MEM_FENCE);")
        count = half
    lines = "\n".join(steps)
    return f"""
{t} group_{op}_{dtype.name}({t} value, __local {s} *scratch) {{
    const uint lane = {lane(workgroup)};
    scratch[lane] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
{lines}
    const {t} result = scratch[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return result;
}}"""


def scan(dtype: DType, workgroup: tuple[int, int, int], combine: str) -> str:
    """Running sums over the work-group: lane i takes in lane i - 1, then i - 2, i - 4 and so on."""
    t, s = type_of(dtype), stored(dtype)
    steps: list[str] = []
    step = 1
    while step < math.prod(workgroup):
        steps.append(f"    if (lane >= {step}) before = scratch[lane - {step}];")
        steps.append("    barrier(CLK_LOCAL_MEM_FENCE);")
        steps.append(f"    if (lane >= {step}) scratch[lane] = {combine.format('before', 'scratch[lane]')};")
        steps.append("    barrier(CLK_LOCAL_MEM_FENCE);")
        step *= 2
    lines = "\n".join(steps)
    return f"""
{t} group_scan_{dtype.name}({t} value, __local {s} *scratch) {{
    const uint lane = {lane(workgroup)};
    {t} before = 0;
    scratch[lane] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
{lines}
    const {t} result = scratch[lane];
    barrier(CLK_LOCAL_MEM_FENCE);
    return result;
}}"""


def multiply_add(dtype: DType) -> str:
    """A product and a sum, rounded once where that is quick."""
    t, fast = type_of(dtype), "FP_FAST_FMA" if dtype is f64 else "FP_FAST_FMAF"
    return f"""
{t} multiply_add_{dtype.name}({t} a, {t} b, {t} c) {{
#ifdef {fast}
    return fma(a, b, c);
#else
#pragma OPENCL FP_CONTRACT ON
    return a * b + c;
#endif
}}"""


FAULT = """
void record_fault(volatile __global int *fault, int launch, int site, int axis, long index, long extent) {
    if (atomic_cmpxchg(fault, 0, 1) == 0) {
        fault[1] = launch;
        fault[2] = site;
        fault[3] = axis;
        fault[4] = (int)index;
        fault[5] = (int)(index >> 32);
        fault[6] = (int)extent;
        fault[7] = (int)(extent >> 32);
    }
}"""
