import triton
import triton.language as tl


@triton.jit
def poot_wide_indices(x, x_extent0, y, y_extent0, threads_x, num_groups_x, num_groups_y, num_groups_z, launch, fault):
    lanes = tl.arange(0, 256)
    group_x = tl.program_id(0)
    group_y = tl.program_id(1)
    group_z = tl.program_id(2)
    group_x = group_x.to(tl.int64)
    local_x = lanes.to(tl.int64)
    thread_x = group_x * 256 + local_x
    group_y = group_y.to(tl.int64)
    group_z = group_z.to(tl.int64)
    active = thread_x < threads_x
    # <golden wide_indices>:1: y[i] = x[2 * i]
    tl.store(y + thread_x, tl.load(x + (thread_x * 2), mask=active, other=0), mask=active)
