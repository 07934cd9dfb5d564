import triton
import triton.language as tl


@triton.jit
def poot_grid_3d(y, y_extent1, y_extent2, y_stride0, y_stride1, y_stride2, threads_x, threads_y, num_groups_x, num_groups_y, num_groups_z, launch, fault):
    lanes = tl.arange(0, 64)
    group_x = tl.program_id(0)
    group_y = tl.program_id(1)
    group_z = tl.program_id(2)
    if tl.num_programs(1) != num_groups_y.to(tl.int32):
        linear = (group_z.to(tl.int64) * tl.num_programs(1) + group_y)
        group_y = (linear % num_groups_y.to(tl.int32)).to(tl.int32)
        group_z = (linear // num_groups_y.to(tl.int32)).to(tl.int32)
    if group_z >= num_groups_z.to(tl.int32):
        return
    local_x = (lanes % 8)
    thread_x = group_x * 8 + local_x
    local_y = ((lanes // 8) % 4)
    thread_y = group_y * 4 + local_y
    local_z = (lanes // 32)
    thread_z = group_z * 2 + local_z
    active = (thread_x < threads_x) & (thread_y < threads_y)
    # <golden grid_3d>:1: y[z, y, x] = x + y
    tl.store(y + thread_z.to(tl.int64) * y_stride0 + thread_y.to(tl.int64) * y_stride1 + thread_x.to(tl.int64) * y_stride2, (thread_y + thread_x).to(tl.float32), mask=active)
