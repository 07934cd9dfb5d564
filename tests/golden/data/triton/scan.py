import triton
import triton.language as tl


@triton.jit
def any_of(mask):
    return tl.max(mask.to(tl.int32), axis=0) > 0


@triton.jit
def poot_scan(x, y, num_groups_x, num_groups_y, num_groups_z, launch, fault):
    lanes = tl.arange(0, 128)
    group_x = tl.program_id(0)
    group_y = tl.program_id(1)
    group_z = tl.program_id(2)
    if tl.num_programs(1) != num_groups_y.to(tl.int32):
        linear = (group_z.to(tl.int64) * tl.num_programs(1) + group_y)
        group_y = (linear % num_groups_y.to(tl.int32)).to(tl.int32)
        group_z = (linear // num_groups_y.to(tl.int32)).to(tl.int32)
    if group_z >= num_groups_z.to(tl.int32):
        return
    local_x = lanes
    thread_x = group_x * 96 + local_x
    active = lanes < 96
    # <golden scan>:1: y[i] = group_scan(x[i])
    running = tl.cumsum(tl.where(active, tl.load(x + local_x, mask=active, other=0), tl.full((), 0, tl.int32)), axis=0)
    tl.store(y + local_x, running, mask=active)
    # <golden scan>:2: some = group_any(x[i] < 0)
    some = any_of(active & (tl.load(x + local_x, mask=active, other=0) < 0))
    if some:
        # <golden scan>:3: y[0] = -1
        tl.store(y, tl.full((), -1, tl.int32))
