#pragma OPENCL FP_CONTRACT OFF
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

char f64_to_i8(double x) {
    return isnan(x) ? 0 : convert_char_sat(x);
}

long f64_to_i64(double x) {
    return isnan(x) ? 0 : convert_long_sat(x);
}

uint f64_to_u32(double x) {
    return isnan(x) ? 0 : convert_uint_sat(x);
}

// To f32 so that a second rounding is right: an inexact result is made odd, between its neighbours.
float f64_to_odd(double x) {
    float near = (float)x;
    uint bits = as_uint(near);
    if ((double)near == x || isnan(x) || (bits & 1)) return near;
    return as_float(fabs((double)near) < fabs(x) ? bits + 1 : bits - 1);
}

ushort f32_to_f16(float x) {
    ushort bits;
    vstore_half_rte(x, 0, (half *)&bits);
    return bits;
}

ushort f32_to_bf16(float x) {
    uint bits = as_uint(x);
    if (isnan(x)) return (ushort)((bits >> 16) | 64);
    return (ushort)((bits + 32767 + ((bits >> 16) & 1)) >> 16);
}

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void casts(
    __global const double *x,
    const ulong x_first,
    __global uchar *to_bool,
    const ulong to_bool_first,
    __global char *to_i8,
    const ulong to_i8_first,
    __global long *to_i64,
    const ulong to_i64_first,
    __global uint *to_u32,
    const ulong to_u32_first,
    __global ushort *to_f16,
    const ulong to_f16_first,
    __global ushort *to_bf16,
    const ulong to_bf16_first,
    __global float *to_f32,
    const ulong to_f32_first
) {
    x += x_first;
    to_bool += to_bool_first;
    to_i8 += to_i8_first;
    to_i64 += to_i64_first;
    to_u32 += to_u32_first;
    to_f16 += to_f16_first;
    to_bf16 += to_bf16_first;
    to_f32 += to_f32_first;
    const int thread_x = (int)get_global_id(0);
    if (thread_x >= 256) {
        return;
    }
    const double a = x[thread_x];
    // <golden casts>:1: to_bool[i] = bool(a)
    to_bool[thread_x] = a != 0.0;
    // <golden casts>:2: to_i8[i] = i8(a)
    to_i8[thread_x] = f64_to_i8(a);
    // <golden casts>:3: to_i64[i] = i64(a)
    to_i64[thread_x] = f64_to_i64(a);
    // <golden casts>:4: to_u32[i] = u32(a)
    to_u32[thread_x] = f64_to_u32(a);
    // <golden casts>:5: to_f16[i] = f16(a)
    to_f16[thread_x] = f32_to_f16(f64_to_odd(a));
    // <golden casts>:6: to_bf16[i] = bf16(a)
    to_bf16[thread_x] = f32_to_bf16(f64_to_odd(a));
    // <golden casts>:7: to_f32[i] = f32(a)
    to_f32[thread_x] = (float)a;
}
