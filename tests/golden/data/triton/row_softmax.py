import triton
import triton.language as tl


@triton.jit
def greater(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def rounded_f32(x):
    size = tl.abs(x)
    whole = ((size + 8388608.0) - 8388608.0).to(tl.int32, bitcast=True)
    sign = x.to(tl.int32, bitcast=True) & tl.full((), -2147483648, tl.int32)
    return tl.where(size < 8388608.0, (whole | sign).to(tl.float32, bitcast=True), x)


@triton.jit
def poot_row_softmax(x, y, num_groups_x, num_groups_y, num_groups_z, launch, fault):
    lanes = tl.arange(0, 256)
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
    thread_x = group_x * 256 + local_x
    top = tl.full((256,), tl.full((), float("-inf"), tl.float32), tl.float32)
    # <golden row_softmax>:1: for k0 in range(0, 1024, 256): top = max(top, x[row, k0 + lane])
    for k0 in range(0, 1024, 256):
        top = greater(top, tl.load(x + group_x * 1024 + (k0 + local_x)))
    # <golden row_softmax>:2: top = group_max(top)
    whole = tl.reduce(top, 0, greater)
    total = tl.full((256,), tl.full((), 0.0, tl.float32), tl.float32)
    # <golden row_softmax>:3: for k0 in range(0, 1024, 256): total += exp(x[row, k0 + lane] - top)
    for k0_1 in range(0, 1024, 256):
        exp_of = tl.load(x + group_x * 1024 + (k0_1 + local_x)) - whole
        exp_x = tl.where(exp_of > 89.0, tl.full((), 89.0, tl.float32), exp_of)
        exp_x_1 = tl.where(exp_x < (-104.0), tl.full((), -104.0, tl.float32), exp_x)
        exp_n = rounded_f32(exp_x_1 * 1.4426950216293335)
        exp_r = (exp_x_1 - (exp_n * 0.693145751953125)) - (exp_n * 1.428606765330187e-06)
        exp_p = ((((((((((exp_r * 0.0013820328749716282) + 0.008368691429495811) * exp_r) + 0.04166827350854874) * exp_r) + 0.1666652113199234) * exp_r) + 0.4999999403953552) * (exp_r * exp_r)) + exp_r) + 1.0
        exp_whole = (exp_n + 12582912.0).to(tl.int32, bitcast=True)
        exp_half = exp_whole >> 1
        total = total + ((exp_p * ((exp_half << 23) + 1065353216).to(tl.float32, bitcast=True)) * (((exp_whole - exp_half) << 23) + 1065353216).to(tl.float32, bitcast=True))
    # <golden row_softmax>:4: total = group_sum(total)
    divisor = tl.sum(total, axis=0)
    # <golden row_softmax>:5: for k0 in range(0, 1024, 256): y[row, k0 + lane] = exp(x[row, k0 + lane] - top) / total
    for k0_2 in range(0, 1024, 256):
        exp_of_1 = tl.load(x + group_x * 1024 + (k0_2 + local_x)) - whole
        exp_x_2 = tl.where(exp_of_1 > 89.0, tl.full((), 89.0, tl.float32), exp_of_1)
        exp_x_3 = tl.where(exp_x_2 < (-104.0), tl.full((), -104.0, tl.float32), exp_x_2)
        exp_n_1 = rounded_f32(exp_x_3 * 1.4426950216293335)
        exp_r_1 = (exp_x_3 - (exp_n_1 * 0.693145751953125)) - (exp_n_1 * 1.428606765330187e-06)
        exp_p_1 = ((((((((((exp_r_1 * 0.0013820328749716282) + 0.008368691429495811) * exp_r_1) + 0.04166827350854874) * exp_r_1) + 0.1666652113199234) * exp_r_1) + 0.4999999403953552) * (exp_r_1 * exp_r_1)) + exp_r_1) + 1.0
        exp_whole_1 = (exp_n_1 + 12582912.0).to(tl.int32, bitcast=True)
        exp_half_1 = exp_whole_1 >> 1
        tl.store(y + group_x * 1024 + (k0_2 + local_x), tl.div_rn((exp_p_1 * ((exp_half_1 << 23) + 1065353216).to(tl.float32, bitcast=True)) * (((exp_whole_1 - exp_half_1) << 23) + 1065353216).to(tl.float32, bitcast=True), divisor))
