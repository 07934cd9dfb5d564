#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void branches(
    __global const float *x,
    const ulong x_first,
    const int x_extent_0,
    __global float *y,
    const ulong y_first,
    const int y_extent_0,
    const int threads_x
) {
    x += x_first;
    y += y_first;
    const int thread_x = (int)get_global_id(0);
    if (thread_x >= threads_x) {
        return;
    }
    float v = x[thread_x];
    // <golden branches>:1: if v < 0:
    if (v < 0.0f) {
        // <golden branches>:2: v = -v
        v = -v;
    } else {
        // <golden branches>:3: v = v + 1
        v = v + 1.0f;
    }
    // <golden branches>:4: y[i] = v
    y[thread_x] = v;
}
