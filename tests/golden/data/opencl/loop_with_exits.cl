#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void loop_with_exits(
    __global const int *x,
    const ulong x_first,
    const int x_extent_0,
    __global int *y,
    const ulong y_first,
    const int y_extent_0,
    const int n,
    const int threads_x
) {
    x += x_first;
    y += y_first;
    const int thread_x = (int)get_global_id(0);
    if (thread_x >= threads_x) {
        return;
    }
    // <golden loop_with_exits>:1: total = 0
    int total = 0;
    // <golden loop_with_exits>:2: for j in range(0, n, 3):
    for (int j = 0; j < n; j = (uint)n - (uint)j > 3 ? j + 3 : n) {
        const int v = x[j];
        // <golden loop_with_exits>:3: if v < 0: continue
        if (v < 0) {
            continue;
        }
        // <golden loop_with_exits>:4: if v > i: break
        if (v > thread_x) {
            break;
        }
        // <golden loop_with_exits>:5: total += v
        total = (int)((uint)total + (uint)v);
    }
    // <golden loop_with_exits>:6: y[i] = total
    y[thread_x] = total;
}
