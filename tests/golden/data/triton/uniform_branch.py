import triton
import triton.language as tl


@triton.jit
def poot_uniform_branch(y, n, num_groups_x, num_groups_y, num_groups_z, launch, fault):
    lanes = tl.arange(0, 128)
    group_x = tl.program_id(0)
    group_y = tl.program_id(1)
    group_z = tl.program_id(2)
    local_x = lanes
    thread_x = group_x * 128 + local_x
    # <golden uniform_branch>:1: total = 0
    total = tl.full((), 0, tl.int32)
    # <golden uniform_branch>:2: if n > 3:
    if n > 3:
        # <golden uniform_branch>:3: total = n * 2
        total = n * 2
    # <golden uniform_branch>:4: y[i] = total
    tl.store(y + thread_x, total)
