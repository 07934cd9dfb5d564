"""Names that a shader in WGSL cannot give to its own: keywords, reserved words, types, built-in functions."""

from __future__ import annotations

_KEYWORDS = """
alias break case const const_assert continue continuing default diagnostic discard else enable false fn for if let loop
override requires return struct switch true var while
"""

_RESERVED = """
NULL Self abstract active alignas alignof as asm asm_fragment async attribute auto await become cast catch class
co_await co_return co_yield coherent column_major common compile compile_fragment concept const_cast consteval
constexpr constinit crate debugger decltype delete demote demote_to_helper do dynamic_cast enum explicit export extends
extern external fallthrough filter final finally friend from fxgroup get goto groupshared highp impl implements import
inline instanceof interface layout lowp macro macro_rules match mediump meta mod module move mut mutable namespace new
nil noexcept noinline nointerpolation non_coherent noncoherent noperspective null nullptr of operator package packoffset
partition pass patch pixelfragment precise precision premerge priv protected pub public readonly ref regardless register
reinterpret_cast require resource restrict self set shared sizeof smooth snorm static static_assert static_cast std
subroutine super target template this thread_local throw trait try type typedef typeid typename typeof union unless
unorm unsafe unsized use using varying virtual volatile wgsl where with writeonly yield handle
"""

_TYPES = """
bool i32 u32 f32 f16 f64 i64 u64 vec2 vec3 vec4 vec2f vec3f vec4f vec2i vec3i vec4i vec2u vec3u vec4u vec2h vec3h vec4h
mat2x2 mat2x3 mat2x4 mat3x2 mat3x3 mat3x4 mat4x2 mat4x3 mat4x4 array atomic ptr sampler sampler_comparison texture_1d
texture_2d texture_3d texture_cube binding_array function private workgroup uniform storage read write read_write
"""

_FUNCTIONS = """
all any select arrayLength abs acos acosh asin asinh atan atanh atan2 ceil clamp cos cosh countLeadingZeros countOneBits
countTrailingZeros cross degrees determinant distance dot dot4U8Packed dot4I8Packed exp exp2 extractBits faceForward
firstLeadingBit firstTrailingBit floor fma fract frexp insertBits inverseSqrt ldexp length log log2 max min mix modf
normalize pow quantizeToF16 radians reflect refract reverseBits round saturate sign sin sinh smoothstep sqrt step tan
tanh transpose trunc dpdx dpdy fwidth bitcast pack2x16float unpack2x16float storageBarrier workgroupBarrier
workgroupUniformLoad subgroupBarrier atomicLoad atomicStore atomicAdd atomicSub atomicMax atomicMin atomicAnd atomicOr
atomicXor atomicExchange atomicCompareExchangeWeak inverse outerProduct isNan isInf
"""

#: Parameters of every shader, and the locals of functions that read or write its buffers by name.
_OURS = """
params Params fault kept_fault zero lane workgroup_id num_workgroups local_id main gl_Position
element_at element_number word_seen word_new word_swap new_value wanted_value
"""

RESERVED: frozenset[str] = frozenset(
    [
        *_KEYWORDS.split(),
        *_RESERVED.split(),
        *_TYPES.split(),
        *_FUNCTIONS.split(),
        *_OURS.split(),
    ]
)
