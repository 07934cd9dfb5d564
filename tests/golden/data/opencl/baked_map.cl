#pragma OPENCL FP_CONTRACT OFF

float max_f32(float a, float b) {
    if (isnan(a)) return a;
    if (isnan(b)) return b;
    if (a == b) return as_float(as_int(a) & as_int(b));
    return a > b ? a : b;
}

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void baked_map(
    __global const float *x,
    const ulong x_first,
    __global float *y,
    const ulong y_first
) {
    x += x_first;
    y += y_first;
    const int thread_x = (int)get_global_id(0);
    if (thread_x >= 4096) {
        return;
    }
    const int row = thread_x / 64;
    const int column = thread_x % 64;
    // <golden baked_map>:1: y[row, column] = max(x[column, row], 0)
    y[row * 64 + column] = max_f32(x[column * 64 + row], 0.0f);
}
