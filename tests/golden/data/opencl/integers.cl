#pragma OPENCL FP_CONTRACT OFF

int floor_div_i32(int a, int b) {
    if (b == 0) return 0;
    if (b == -1) return (int)(0 - (uint)a);
    int q = a / b;
    return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

int rem_i32(int a, int b) {
    if (b == 0 || b == -1) return 0;
    int r = a % b;
    return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}

int shift_left_i32(int a, int count) {
    return ((uint)count) < 32 ? (int)((uint)a << ((uint)count)) : (int)0;
}

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void integers(
    __global const int *x,
    const ulong x_first,
    const int x_extent_0,
    __global int *y,
    const ulong y_first,
    const int y_extent_0,
    const int b,
    const int threads_x
) {
    x += x_first;
    y += y_first;
    const int thread_x = (int)get_global_id(0);
    if (thread_x >= threads_x) {
        return;
    }
    const int a = x[thread_x];
    // <golden integers>:1: y[i] = (a // b) ^ (a % 7) + (a << b)
    y[thread_x] = floor_div_i32(a, b) ^ (int)((uint)rem_i32(a, 7) + (uint)shift_left_i32(a, b));
}
