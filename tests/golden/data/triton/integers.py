import triton
import triton.language as tl


@triton.jit
def floor_div_signed(a, b):
    minus = b == -1
    safe = tl.where((b == 0) | minus, tl.full((), 1, b.dtype), b)
    quotient = a // safe
    rest = a - quotient * safe
    quotient = tl.where((rest != 0) & ((rest ^ safe) < 0), quotient - 1, quotient)
    quotient = tl.where(minus, 0 - a, quotient)
    return tl.where(b == 0, tl.full((), 0, b.dtype), quotient)


@triton.jit
def rem_signed(a, b):
    rest = a - floor_div_signed(a, b) * b
    return tl.where(b == 0, tl.full((), 0, b.dtype), rest)


@triton.jit
def shift_left(a, count, WIDTH: tl.constexpr):
    inside = (count >= 0) & (count < WIDTH)
    return tl.where(inside, a << (count & (WIDTH - 1)), tl.full((), 0, a.dtype))


@triton.jit
def poot_integers(x, x_extent0, y, y_extent0, b, threads_x, num_groups_x, num_groups_y, num_groups_z, launch, fault):
    lanes = tl.arange(0, 128)
    group_x = tl.program_id(0)
    group_y = tl.program_id(1)
    group_z = tl.program_id(2)
    local_x = lanes
    thread_x = group_x * 128 + local_x
    active = thread_x < threads_x
    a = tl.load(x + thread_x, mask=active, other=0)
    # <golden integers>:1: y[i] = (a // b) ^ (a % 7) + (a << b)
    tl.store(y + thread_x, floor_div_signed(a, b) ^ (rem_signed(a, tl.full((), 7, tl.int32)) + shift_left(a, b, 32)), mask=active)
