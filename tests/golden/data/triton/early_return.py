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
def poot_early_return(y, y_extent0, n, threads_x, num_groups_x, num_groups_y, num_groups_z, launch, fault):
    lanes = tl.arange(0, 128)
    group_x = tl.program_id(0)
    group_y = tl.program_id(1)
    group_z = tl.program_id(2)
    local_x = lanes
    thread_x = group_x * 128 + local_x
    active = thread_x < threads_x
    alive = active
    # <golden early_return>:1: if i % n == 0: return
    chosen = rem_signed(thread_x, n) == 0
    active_2 = alive & chosen
    alive = alive & ~active_2
    # <golden early_return>:2: y[i] = i
    tl.store(y + thread_x, thread_x, mask=alive)
