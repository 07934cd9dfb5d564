import triton
import triton.language as tl


@triton.jit
def popcount_32(x):
    x = x - ((x >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return (x * 0x01010101) >> 24


@triton.jit
def clz_32(x):
    x = x | (x >> 1)
    x = x | (x >> 2)
    x = x | (x >> 4)
    x = x | (x >> 8)
    x = x | (x >> 16)
    return popcount_32(x ^ 0xFFFFFFFF)


@triton.jit
def poot_narrow_integers(x, y, num_groups_x, num_groups_y, num_groups_z, launch, fault):
    lanes = tl.arange(0, 128)
    group_x = tl.program_id(0)
    group_y = tl.program_id(1)
    group_z = tl.program_id(2)
    local_x = lanes
    thread_x = group_x * 128 + local_x
    active = thread_x < 300
    a = tl.load(x + thread_x, mask=active, other=0)
    # <golden narrow_integers>:1: y[i] = u8(popcount(a) + clz(a)) >> 1
    tl.store(y + thread_x, (popcount_32(a.to(tl.uint8, bitcast=True).to(tl.uint32)).to(tl.int8) + (clz_32(a.to(tl.uint8, bitcast=True).to(tl.uint32)) - 24).to(tl.int8)).to(tl.uint8) >> 1, mask=active)
