import triton
import triton.language as tl


@triton.jit
def any_of(mask):
    return tl.max(mask.to(tl.int32), axis=0) > 0


@triton.jit
def poot_loop_with_exits(x, x_extent0, y, y_extent0, n, threads_x, num_groups_x, num_groups_y, num_groups_z, launch, fault):
    lanes = tl.arange(0, 128)
    group_x = tl.program_id(0)
    group_y = tl.program_id(1)
    group_z = tl.program_id(2)
    local_x = lanes
    thread_x = group_x * 128 + local_x
    active = thread_x < threads_x
    # <golden loop_with_exits>:1: total = 0
    total = tl.full((128,), tl.full((), 0, tl.int32), tl.int32)
    # <golden loop_with_exits>:2: for j in range(0, n, 3):
    j = tl.full((), 0, tl.int32)
    stop = n
    active_2 = active & (j < stop)
    while any_of(active_2):
        live = active_2
        some = any_of(live)
        v = tl.load(x + j, mask=some, other=0)
        # <golden loop_with_exits>:3: if v < 0: continue
        if v < 0:
            leaving = live
            live = live & ~leaving
        # <golden loop_with_exits>:4: if v > i: break
        chosen = v > thread_x
        active_3 = live & chosen
        live = live & ~active_3
        active_2 = active_2 & ~active_3
        # <golden loop_with_exits>:5: total += v
        total = tl.where(live, total + v, total)
        active_2 = active_2 & ((stop - j).to(tl.uint32, bitcast=True) > 3)
        j = j + 3
    # <golden loop_with_exits>:6: y[i] = total
    tl.store(y + thread_x, total, mask=active)
