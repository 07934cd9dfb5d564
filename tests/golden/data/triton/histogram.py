import triton
import triton.language as tl


@triton.jit
def poot_histogram(x, x_extent0, bins, last, threads_x, num_groups_x, num_groups_y, num_groups_z, launch, fault):
    lanes = tl.arange(0, 128)
    group_x = tl.program_id(0)
    group_y = tl.program_id(1)
    group_z = tl.program_id(2)
    local_x = lanes
    thread_x = group_x * 128 + local_x
    active = thread_x < threads_x
    # <golden histogram>:1: atomic_add(bins, x[i], 1)
    tl.atomic_add(bins + tl.load(x + thread_x, mask=active, other=0).to(tl.int32), tl.full((128,), tl.full((), 1, tl.int32), tl.int32), mask=active, sem="relaxed")
    # <golden histogram>:2: old = atomic_exchange(last, 0, 1.5)
    tl.atomic_xchg(last + tl.full((128,), 0, tl.int32), tl.full((128,), tl.full((), 1.5, tl.float32), tl.float32), mask=active, sem="relaxed")
