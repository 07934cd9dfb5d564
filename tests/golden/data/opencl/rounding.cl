#pragma OPENCL FP_CONTRACT OFF

float floor_f32(float x) {
    return fabs(x) < 0x1p23f ? floor(x) : x;
}

float ceil_f32(float x) {
    return fabs(x) < 0x1p23f ? ceil(x) : x;
}

float trunc_f32(float x) {
    return fabs(x) < 0x1p23f ? trunc(x) : x;
}

float round_f32(float x) {
    return fabs(x) < 0x1p23f ? rint(x) : x;
}

float min_f32(float a, float b) {
    if (isnan(a)) return a;
    if (isnan(b)) return b;
    if (a == b) return as_float(as_int(a) | as_int(b));
    return a < b ? a : b;
}

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void rounding(
    __global const float *x,
    const ulong x_first,
    __global float *y_floor,
    const ulong y_floor_first,
    __global float *y_ceil,
    const ulong y_ceil_first,
    __global float *y_trunc,
    const ulong y_trunc_first,
    __global float *y_round,
    const ulong y_round_first,
    __global float *y_sqrt,
    const ulong y_sqrt_first,
    __global float *y_neg,
    const ulong y_neg_first,
    __global float *y_abs,
    const ulong y_abs_first,
    __global float *least,
    const ulong least_first
) {
    x += x_first;
    y_floor += y_floor_first;
    y_ceil += y_ceil_first;
    y_trunc += y_trunc_first;
    y_round += y_round_first;
    y_sqrt += y_sqrt_first;
    y_neg += y_neg_first;
    y_abs += y_abs_first;
    least += least_first;
    const int thread_x = (int)get_global_id(0);
    if (thread_x >= 256) {
        return;
    }
    const float a = x[thread_x];
    // <golden rounding>:1: floor[i] = floor(a)
    y_floor[thread_x] = floor_f32(a);
    // <golden rounding>:2: ceil[i] = ceil(a)
    y_ceil[thread_x] = ceil_f32(a);
    // <golden rounding>:3: trunc[i] = trunc(a)
    y_trunc[thread_x] = trunc_f32(a);
    // <golden rounding>:4: round[i] = round(a)
    y_round[thread_x] = round_f32(a);
    // <golden rounding>:5: sqrt[i] = sqrt(a)
    y_sqrt[thread_x] = sqrt(a);
    // <golden rounding>:6: neg[i] = neg(a)
    y_neg[thread_x] = -a;
    // <golden rounding>:7: abs[i] = abs(a)
    y_abs[thread_x] = fabs(a);
    // <golden rounding>:8: least[i] = min(a, 1 / a)
    least[thread_x] = min_f32(a, 1.0f / a);
}
