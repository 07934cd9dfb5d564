import triton
import triton.language as tl


@triton.jit
def rounded_to_odd(x):
    near = x.to(tl.float32)
    back = near.to(tl.float64)
    bits = near.to(tl.int32, bitcast=True)
    moved = (back != x) & (x == x) & ((bits & 1) == 0)
    step = tl.where(tl.abs(back) < tl.abs(x), tl.full((), 1, tl.int32), tl.full((), -1, tl.int32))
    return tl.where(moved, bits + step, bits).to(tl.float32, bitcast=True)


@triton.jit
def clamped(x, LOW: tl.constexpr, HIGH: tl.constexpr):
    inside = tl.where(x < HIGH, x, tl.full((), HIGH, x.dtype))
    inside = tl.where(inside > LOW, inside, tl.full((), LOW, x.dtype))
    return tl.where(x == x, inside, tl.full((), 0.0, x.dtype))


@triton.jit
def saturated(x, whole, BELOW: tl.constexpr, PAST: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr):
    whole = tl.where(x >= PAST, tl.full((), HIGH, whole.dtype), whole)
    whole = tl.where(x <= BELOW, tl.full((), LOW, whole.dtype), whole)
    return tl.where(x == x, whole, tl.full((), 0, whole.dtype))


@triton.jit
def poot_casts(x, to_bool, to_i8, to_i64, to_u32, to_f16, to_bf16, to_f32, num_groups_x, num_groups_y, num_groups_z, launch, fault):
    lanes = tl.arange(0, 128)
    group_x = tl.program_id(0)
    group_y = tl.program_id(1)
    group_z = tl.program_id(2)
    local_x = lanes
    thread_x = group_x * 128 + local_x
    a = tl.load(x + thread_x)
    # <golden casts>:1: to_bool[i] = bool(a)
    tl.store(to_bool + thread_x, (a != 0).to(tl.uint8))
    # <golden casts>:2: to_i8[i] = i8(a)
    tl.store(to_i8 + thread_x, clamped(a, -128.0, 127.0).to(tl.int32).to(tl.int8))
    # <golden casts>:3: to_i64[i] = i64(a)
    tl.store(to_i64 + thread_x, saturated(a, a.to(tl.int64), -9.223372036854776e+18, 9.223372036854776e+18, -9223372036854775808, 9223372036854775807))
    # <golden casts>:4: to_u32[i] = u32(a)
    tl.store(to_u32 + thread_x, clamped(a, 0.0, 4294967295.0).to(tl.uint32))
    # <golden casts>:5: to_f16[i] = f16(a)
    tl.store(to_f16 + thread_x, rounded_to_odd(a).to(tl.float16))
    # <golden casts>:6: to_bf16[i] = bf16(a)
    tl.store(to_bf16 + thread_x, rounded_to_odd(a).to(tl.bfloat16))
    # <golden casts>:7: to_f32[i] = f32(a)
    tl.store(to_f32 + thread_x, a.to(tl.float32))
