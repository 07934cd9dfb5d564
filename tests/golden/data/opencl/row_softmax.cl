#pragma OPENCL FP_CONTRACT OFF

float max_f32(float a, float b) {
    if (isnan(a)) return a;
    if (isnan(b)) return b;
    if (a == b) return as_float(as_int(a) & as_int(b));
    return a > b ? a : b;
}

float group_max_f32(float value, __local float *scratch) {
    const uint lane = (uint)get_local_id(0);
    scratch[lane] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 128) scratch[lane] = max_f32(scratch[lane], scratch[lane + 128]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 64) scratch[lane] = max_f32(scratch[lane], scratch[lane + 64]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 32) scratch[lane] = max_f32(scratch[lane], scratch[lane + 32]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 16) scratch[lane] = max_f32(scratch[lane], scratch[lane + 16]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 8) scratch[lane] = max_f32(scratch[lane], scratch[lane + 8]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 4) scratch[lane] = max_f32(scratch[lane], scratch[lane + 4]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 2) scratch[lane] = max_f32(scratch[lane], scratch[lane + 2]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 1) scratch[lane] = max_f32(scratch[lane], scratch[lane + 1]);
    barrier(CLK_LOCAL_MEM_FENCE);
    const float result = scratch[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return result;
}

float round_f32(float x) {
    return fabs(x) < 0x1p23f ? rint(x) : x;
}

float group_sum_f32(float value, __local float *scratch) {
    const uint lane = (uint)get_local_id(0);
    scratch[lane] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 128) scratch[lane] = scratch[lane] + scratch[lane + 128];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 64) scratch[lane] = scratch[lane] + scratch[lane + 64];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 32) scratch[lane] = scratch[lane] + scratch[lane + 32];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 16) scratch[lane] = scratch[lane] + scratch[lane + 16];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 8) scratch[lane] = scratch[lane] + scratch[lane + 8];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 4) scratch[lane] = scratch[lane] + scratch[lane + 4];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 2) scratch[lane] = scratch[lane] + scratch[lane + 2];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 1) scratch[lane] = scratch[lane] + scratch[lane + 1];
    barrier(CLK_LOCAL_MEM_FENCE);
    const float result = scratch[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return result;
}

__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void row_softmax(
    __global const float *x,
    const ulong x_first,
    __global float *y,
    const ulong y_first
) {
    x += x_first;
    y += y_first;
    const int group_x = (int)get_group_id(0);
    const int local_x = (int)get_local_id(0);
    __local float scratch_float[256];
    float top = -INFINITY;
    // <golden row_softmax>:1: for k0 in range(0, 1024, 256): top = max(top, x[row, k0 + lane])
    for (int k0 = 0; k0 < 1024; k0 += 256) {
        top = max_f32(top, x[group_x * 1024 + (k0 + local_x)]);
    }
    // <golden row_softmax>:2: top = group_max(top)
    const float whole = group_max_f32(top, scratch_float);
    float total = 0.0f;
    // <golden row_softmax>:3: for k0 in range(0, 1024, 256): total += exp(x[row, k0 + lane] - top)
    for (int k0_1 = 0; k0_1 < 1024; k0_1 += 256) {
        const float exp_of = x[group_x * 1024 + (k0_1 + local_x)] - whole;
        const float exp_x = (exp_of > 89.0f) ? 89.0f : exp_of;
        const float exp_x_1 = (exp_x < -104.0f) ? -104.0f : exp_x;
        const float exp_n = round_f32(exp_x_1 * 1.442695f);
        const float exp_r = exp_x_1 - exp_n * 0.69314575f - exp_n * 1.4286068e-06f;
        const float exp_p = ((((exp_r * 0.0013820329f + 0.008368691f) * exp_r + 0.041668274f) * exp_r + 0.16666521f) * exp_r + 0.49999994f) * (exp_r * exp_r) + exp_r + 1.0f;
        const int exp_whole = as_int(exp_n + 1.2582912e+07f);
        const int exp_half = exp_whole >> 1;
        total = total + exp_p * as_float((int)(((uint)exp_half << 23) + 1065353216u)) * as_float((int)((((uint)exp_whole - (uint)exp_half) << 23) + 1065353216u));
    }
    // <golden row_softmax>:4: total = group_sum(total)
    const float divisor = group_sum_f32(total, scratch_float);
    // <golden row_softmax>:5: for k0 in range(0, 1024, 256): y[row, k0 + lane] = exp(x[row, k0 + lane] - top) / total
    for (int k0_2 = 0; k0_2 < 1024; k0_2 += 256) {
        const float exp_of_1 = x[group_x * 1024 + (k0_2 + local_x)] - whole;
        const float exp_x_2 = (exp_of_1 > 89.0f) ? 89.0f : exp_of_1;
        const float exp_x_3 = (exp_x_2 < -104.0f) ? -104.0f : exp_x_2;
        const float exp_n_1 = round_f32(exp_x_3 * 1.442695f);
        const float exp_r_1 = exp_x_3 - exp_n_1 * 0.69314575f - exp_n_1 * 1.4286068e-06f;
        const float exp_p_1 = ((((exp_r_1 * 0.0013820329f + 0.008368691f) * exp_r_1 + 0.041668274f) * exp_r_1 + 0.16666521f) * exp_r_1 + 0.49999994f) * (exp_r_1 * exp_r_1) + exp_r_1 + 1.0f;
        const int exp_whole_1 = as_int(exp_n_1 + 1.2582912e+07f);
        const int exp_half_1 = exp_whole_1 >> 1;
        y[group_x * 1024 + (k0_2 + local_x)] = exp_p_1 * as_float((int)(((uint)exp_half_1 << 23) + 1065353216u)) * as_float((int)((((uint)exp_whole_1 - (uint)exp_half_1) << 23) + 1065353216u)) / divisor;
    }
}
