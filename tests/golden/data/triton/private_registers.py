import triton
import triton.language as tl


@triton.jit
def poot_private_registers(x, y, num_groups_x, num_groups_y, num_groups_z, launch, fault):
    lanes = tl.arange(0, 128)
    group_x = tl.program_id(0)
    group_y = tl.program_id(1)
    group_z = tl.program_id(2)
    local_x = lanes
    thread_x = group_x * 128 + local_x
    # <golden private_registers>:1: acc = private(f32, 4)
    acc_0 = tl.full((128,), tl.full((), 0.0, tl.float32), tl.float32)
    acc_1 = tl.full((128,), tl.full((), 0.0, tl.float32), tl.float32)
    acc_2 = tl.full((128,), tl.full((), 0.0, tl.float32), tl.float32)
    acc_3 = tl.full((128,), tl.full((), 0.0, tl.float32), tl.float32)
    # <golden private_registers>:2: acc[0] = x[0, i]
    acc_0 = tl.load(x + thread_x)
    # <golden private_registers>:3: acc[1] = x[1, i]
    acc_1 = tl.load(x + thread_x + 256)
    # <golden private_registers>:4: acc[2] = x[2, i]
    acc_2 = tl.load(x + thread_x + 512)
    # <golden private_registers>:5: acc[3] = x[3, i]
    acc_3 = tl.load(x + thread_x + 768)
    # <golden private_registers>:6: y[i] = acc[0] + acc[3]
    tl.store(y + thread_x, acc_0 + acc_3)
