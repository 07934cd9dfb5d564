import triton
import triton.language as tl


@triton.jit
def greater(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def poot_baked_map(x, y, num_groups_x, num_groups_y, num_groups_z, launch, fault):
    lanes = tl.arange(0, 128)
    group_x = tl.program_id(0)
    group_y = tl.program_id(1)
    group_z = tl.program_id(2)
    local_x = lanes
    thread_x = group_x * 128 + local_x
    row = thread_x >> 6
    column = thread_x & 63
    # <golden baked_map>:1: y[row, column] = max(x[column, row], 0)
    tl.store(y + row * 64 + column, greater(tl.load(x + column * 64 + row), tl.full((), 0.0, tl.float32)))
