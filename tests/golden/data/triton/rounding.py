import triton
import triton.language as tl


@triton.jit
def lesser(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def negated(x):
    return x * -1.0


@triton.jit
def truncated(x):
    return tl.where(x < 0.0, tl.ceil(x), tl.floor(x))


@triton.jit
def rounded_f32(x):
    size = tl.abs(x)
    whole = ((size + 8388608.0) - 8388608.0).to(tl.int32, bitcast=True)
    sign = x.to(tl.int32, bitcast=True) & tl.full((), -2147483648, tl.int32)
    return tl.where(size < 8388608.0, (whole | sign).to(tl.float32, bitcast=True), x)


@triton.jit
def poot_rounding(x, y_floor, y_ceil, y_trunc, y_round, y_sqrt, y_neg, y_abs, least, num_groups_x, num_groups_y, num_groups_z, launch, fault):
    lanes = tl.arange(0, 128)
    group_x = tl.program_id(0)
    group_y = tl.program_id(1)
    group_z = tl.program_id(2)
    local_x = lanes
    thread_x = group_x * 128 + local_x
    a = tl.load(x + thread_x)
    # <golden rounding>:1: floor[i] = floor(a)
    tl.store(y_floor + thread_x, tl.floor(a))
    # <golden rounding>:2: ceil[i] = ceil(a)
    tl.store(y_ceil + thread_x, tl.ceil(a))
    # <golden rounding>:3: trunc[i] = trunc(a)
    tl.store(y_trunc + thread_x, truncated(a))
    # <golden rounding>:4: round[i] = round(a)
    tl.store(y_round + thread_x, rounded_f32(a))
    # <golden rounding>:5: sqrt[i] = sqrt(a)
    tl.store(y_sqrt + thread_x, tl.sqrt_rn(a))
    # <golden rounding>:6: neg[i] = neg(a)
    tl.store(y_neg + thread_x, negated(a))
    # <golden rounding>:7: abs[i] = abs(a)
    tl.store(y_abs + thread_x, tl.abs(a))
    # <golden rounding>:8: least[i] = min(a, 1 / a)
    tl.store(least + thread_x, lesser(a, tl.div_rn(tl.full((), 1.0, tl.float32), a)))
