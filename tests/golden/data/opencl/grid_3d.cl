#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(8, 4, 2)))
void grid_3d(
    __global float *y,
    const ulong y_first,
    const int y_extent_1,
    const int y_extent_2,
    const int y_stride_0,
    const int y_stride_1,
    const int y_stride_2,
    const int threads_x,
    const int threads_y
) {
    y += y_first;
    const int thread_x = (int)get_global_id(0);
    const int thread_y = (int)get_global_id(1);
    const int thread_z = (int)get_global_id(2);
    if (thread_x >= threads_x || thread_y >= threads_y || thread_z >= 20) {
        return;
    }
    // <golden grid_3d>:1: y[z, y, x] = x + y
    y[(long)thread_z * y_stride_0 + (long)thread_y * y_stride_1 + (long)thread_x * y_stride_2] = (float)(int)((uint)thread_y + (uint)thread_x);
}
