#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void wide_indices(
    __global const float *x,
    const ulong x_first,
    const long x_extent_0,
    __global float *y,
    const ulong y_first,
    const long y_extent_0,
    const long threads_x
) {
    x += x_first;
    y += y_first;
    const long thread_x = (long)get_global_id(0);
    if (thread_x >= threads_x) {
        return;
    }
    // <golden wide_indices>:1: y[i] = x[2 * i]
    y[thread_x] = x[(long)((ulong)thread_x * 2uL)];
}
