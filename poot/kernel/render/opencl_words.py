"""Names that a program in OpenCL C cannot give to its own: keywords, types, built-in functions and macros."""

from __future__ import annotations

_KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while _Bool _Complex
global local constant private kernel read_only write_only read_write uniform pipe generic
bool uchar ushort uint ulong half quad complex imaginary size_t ptrdiff_t intptr_t uintptr_t true false event_t
sampler_t image2d_t image3d_t image1d_t
"""

_FUNCTIONS = """
get_work_dim get_global_size get_global_id get_local_size get_local_id get_num_groups get_group_id get_global_offset
acos acosh acospi asin asinh asinpi atan atan2 atanh atanpi atan2pi cbrt ceil copysign cos cosh cospi erfc erf exp exp2
exp10 expm1 fabs fdim floor fma fmax fmin fmod fract frexp hypot ilogb ldexp lgamma lgamma_r log log2 log10 log1p logb
mad maxmag minmag modf nan nextafter pow pown powr remainder remquo rint rootn round rsqrt sin sincos sinh sinpi sqrt
tan tanh tanpi tgamma trunc abs abs_diff add_sat hadd rhadd clamp clz mad_hi mad_sat max min mul_hi rotate sub_sat
upsample popcount mad24 mul24 degrees mix radians step smoothstep sign cross dot distance length normalize
isequal isnotequal isgreater isgreaterequal isless islessequal islessgreater isfinite isinf isnan isnormal isordered
isunordered signbit any all bitselect select barrier mem_fence read_mem_fence write_mem_fence prefetch printf shuffle
shuffle2 vec_step async_work_group_copy wait_group_events main linux unix
"""

_MACROS = """
INFINITY NAN MAXFLOAT HUGE_VAL HUGE_VALF CHAR_BIT CHAR_MAX CHAR_MIN INT_MAX INT_MIN LONG_MAX LONG_MIN SCHAR_MAX
SCHAR_MIN SHRT_MAX SHRT_MIN UCHAR_MAX USHRT_MAX UINT_MAX ULONG_MAX M_E M_PI M_LN2 M_LN10 M_SQRT2 NULL FLT_MAX FLT_MIN
DBL_MAX DBL_MIN CLK_LOCAL_MEM_FENCE CLK_GLOBAL_MEM_FENCE
"""

_VECTORS = [
    f"{kind}{lanes}"
    for kind in ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float", "double", "half")
    for lanes in (2, 3, 4, 8, 16)
]

#: `fault`, `fault_first` and `launch` are parameters of every kernel that can fault.
RESERVED: frozenset[str] = frozenset(
    [*_KEYWORDS.split(), *_FUNCTIONS.split(), *_MACROS.split(), *_VECTORS, "fault", "fault_first", "launch"]
)
