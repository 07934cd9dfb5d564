import triton
import triton.language as tl


@triton.jit
def negated(x):
    return x * -1.0


@triton.jit
def poot_branches(x, x_extent0, y, y_extent0, threads_x, num_groups_x, num_groups_y, num_groups_z, launch, fault):
    lanes = tl.arange(0, 128)
    group_x = tl.program_id(0)
    group_y = tl.program_id(1)
    group_z = tl.program_id(2)
    local_x = lanes
    thread_x = group_x * 128 + local_x
    active = thread_x < threads_x
    v = tl.load(x + thread_x, mask=active, other=0)
    # <golden branches>:1: if v < 0:
    chosen = v < 0.0
    active_2 = active & chosen
    # <golden branches>:2: v = -v
    v = tl.where(active_2, negated(v), v)
    active_3 = active & ~chosen
    # <golden branches>:3: v = v + 1
    v = tl.where(active_3, v + 1.0, v)
    # <golden branches>:4: y[i] = v
    tl.store(y + thread_x, v, mask=active)
