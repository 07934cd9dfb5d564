import triton
import triton.language as tl


@triton.jit
def claim(fault, launch, SITE: tl.constexpr, failed, axis, index, extent):
    if failed:
        if tl.atomic_cas(fault, 0, 1, sem="relaxed") == 0:
            tl.store(fault + 1, launch)
            tl.store(fault + 2, SITE)
            tl.store(fault + 3, axis)
            tl.store(fault + 4, index.to(tl.int32))
            tl.store(fault + 5, (index >> 32).to(tl.int32))
            tl.store(fault + 6, extent.to(tl.int32))
            tl.store(fault + 7, (extent >> 32).to(tl.int32))


@triton.jit
def claim_first(fault, launch, SITE: tl.constexpr, lanes, SIZE: tl.constexpr, failed, axis, index, extent):
    first = tl.min(tl.where(failed, lanes, SIZE), axis=0)
    chosen = lanes == first
    axis = tl.sum(tl.where(chosen, axis, 0), axis=0)
    index = tl.sum(tl.where(chosen, index, 0), axis=0)
    extent = tl.sum(tl.where(chosen, extent, 0), axis=0)
    claim(fault, launch, SITE, first < SIZE, axis, index, extent)


@triton.jit
def poot_checked_gather(x, x_extent0, x_extent1, x_stride0, at, at_extent0, y, y_extent0, threads_x, num_groups_x, num_groups_y, num_groups_z, launch, fault):
    lanes = tl.arange(0, 128)
    group_x = tl.program_id(0)
    group_y = tl.program_id(1)
    group_z = tl.program_id(2)
    local_x = lanes
    thread_x = group_x * 128 + local_x
    active = thread_x < threads_x
    # <golden checked_gather>:1: y[i] = x[at[i, 0], at[i, 1]]
    inside = (thread_x >= 0) & (thread_x < at_extent0)
    claim_first(fault, launch, 0, lanes, 128, active & ~inside, 0, thread_x.to(tl.int64), at_extent0.to(tl.int64))
    t = tl.load(at + thread_x.to(tl.int64) * 2, mask=active & inside, other=0)
    inside_2 = (thread_x >= 0) & (thread_x < at_extent0)
    claim_first(fault, launch, 1, lanes, 128, active & ~inside_2, 0, thread_x.to(tl.int64), at_extent0.to(tl.int64))
    t_1 = tl.load(at + thread_x.to(tl.int64) * 2 + 1, mask=active & inside_2, other=0)
    inside_3 = (t >= 0) & (t < x_extent0)
    inside_4 = (t_1 >= 0) & (t_1 < x_extent1)
    inside_5 = inside_3 & inside_4
    claim_first(fault, launch, 3, lanes, 128, active & ~inside_5, tl.where(inside_3, 1, 0), tl.where(inside_3, t_1.to(tl.int64), t.to(tl.int64)), tl.where(inside_3, x_extent1.to(tl.int64), x_extent0.to(tl.int64)))
    inside_6 = (thread_x >= 0) & (thread_x < y_extent0)
    claim_first(fault, launch, 2, lanes, 128, active & ~inside_6, 0, thread_x.to(tl.int64), y_extent0.to(tl.int64))
    tl.store(y + thread_x, tl.load(x + t.to(tl.int64) * x_stride0 + t_1.to(tl.int64), mask=active & inside_5, other=0), mask=active & inside_6)
    # <golden checked_gather>:2: assert at[i, 0] < 1000, 'small'
    claim_first(fault, launch, 4, lanes, 128, active & ~(t < 1000), 0, tl.full((), 0, tl.int64), tl.full((), 0, tl.int64))
