#pragma OPENCL FP_CONTRACT OFF

float bf16_to_f32(ushort bits) {
    return as_float((uint)bits << 16);
}

ushort f32_to_bf16(float x) {
    uint bits = as_uint(x);
    if (isnan(x)) return (ushort)((bits >> 16) | 64);
    return (ushort)((bits + 32767 + ((bits >> 16) & 1)) >> 16);
}

ushort f32_to_f16(float x) {
    ushort bits;
    vstore_half_rte(x, 0, (half *)&bits);
    return bits;
}

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void halves(
    __global const ushort *x,
    const ulong x_first,
    __global ushort *y,
    const ulong y_first,
    __global ushort *z,
    const ulong z_first
) {
    x += x_first;
    y += y_first;
    z += z_first;
    const int thread_x = (int)get_global_id(0);
    if (thread_x >= 1000) {
        return;
    }
    // <golden halves>:1: v = x[i] * x[i]
    const ushort v = f32_to_bf16(bf16_to_f32(x[thread_x]) * bf16_to_f32(x[thread_x]));
    // <golden halves>:2: y[i] = f16(v)
    y[thread_x] = f32_to_f16(bf16_to_f32(v));
    // <golden halves>:3: z[i] = v + 1
    z[thread_x] = f32_to_bf16(bf16_to_f32(v) + 1.0f);
}
