#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void saxpy(
    __global const float *x,
    const ulong x_first,
    const int x_extent_0,
    __global float *y,
    const ulong y_first,
    const int y_extent_0,
    const float a,
    const int threads_x
) {
    x += x_first;
    y += y_first;
    const int thread_x = (int)get_global_id(0);
    if (thread_x >= threads_x) {
        return;
    }
    // <golden saxpy>:1: y[i] = a * x[i] + y[i]
    y[thread_x] = a * x[thread_x] + y[thread_x];
}
