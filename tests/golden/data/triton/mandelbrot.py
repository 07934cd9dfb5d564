import triton
import triton.language as tl


@triton.jit
def any_of(mask):
    return tl.max(mask.to(tl.int32), axis=0) > 0


@triton.jit
def poot_mandelbrot(y, y_extent0, threads_x, num_groups_x, num_groups_y, num_groups_z, launch, fault):
    lanes = tl.arange(0, 128)
    group_x = tl.program_id(0)
    group_y = tl.program_id(1)
    group_z = tl.program_id(2)
    local_x = lanes
    thread_x = group_x * 128 + local_x
    active = thread_x < threads_x
    # <golden mandelbrot>:1: c = i / 1024 - 1.5
    c = (thread_x.to(tl.float32) * 0.0009765625) - 1.5
    z = tl.full((128,), tl.full((), 0.0, tl.float32), tl.float32)
    count = tl.full((128,), tl.full((), 0, tl.int32), tl.int32)
    # <golden mandelbrot>:2: while z * z < 4 and count < 100:
    active_2 = active & (((z * z) < 4.0) & (count < 100))
    while any_of(active_2):
        # <golden mandelbrot>:3: z = z * z + c
        z = tl.where(active_2, (z * z) + c, z)
        # <golden mandelbrot>:4: count += 1
        count = tl.where(active_2, count + 1, count)
        active_2 = active_2 & (((z * z) < 4.0) & (count < 100))
    # <golden mandelbrot>:5: y[i] = count
    tl.store(y + thread_x, count, mask=active)
