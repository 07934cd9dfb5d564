import triton
import triton.language as tl


@triton.jit
def poot_saxpy(x, x_extent0, y, y_extent0, a, threads_x, num_groups_x, num_groups_y, num_groups_z, launch, fault):
    lanes = tl.arange(0, 128)
    group_x = tl.program_id(0)
    group_y = tl.program_id(1)
    group_z = tl.program_id(2)
    local_x = lanes
    thread_x = group_x * 128 + local_x
    active = thread_x < threads_x
    # <golden saxpy>:1: y[i] = a * x[i] + y[i]
    loaded = tl.load(y + thread_x, mask=active, other=0)
    tl.store(y + thread_x, (a * tl.load(x + thread_x, mask=active, other=0)) + loaded, mask=active)
