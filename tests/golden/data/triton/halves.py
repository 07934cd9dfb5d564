import triton
import triton.language as tl


@triton.jit
def poot_halves(x, y, z, num_groups_x, num_groups_y, num_groups_z, launch, fault):
    lanes = tl.arange(0, 128)
    group_x = tl.program_id(0)
    group_y = tl.program_id(1)
    group_z = tl.program_id(2)
    local_x = lanes
    thread_x = group_x * 128 + local_x
    active = thread_x < 1000
    # <golden halves>:1: v = x[i] * x[i]
    v = (tl.load(x + thread_x, mask=active, other=0).to(tl.float32) * tl.load(x + thread_x, mask=active, other=0).to(tl.float32)).to(tl.bfloat16)
    # <golden halves>:2: y[i] = f16(v)
    tl.store(y + thread_x, v.to(tl.float32).to(tl.float16), mask=active)
    # <golden halves>:3: z[i] = v + 1
    tl.store(z + thread_x, (v.to(tl.float32) + 1.0).to(tl.bfloat16), mask=active)
