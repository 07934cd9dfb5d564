#pragma OPENCL FP_CONTRACT OFF

int rem_i32(int a, int b) {
    if (b == 0 || b == -1) return 0;
    int r = a % b;
    return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void early_return(
    __global int *y,
    const ulong y_first,
    const int y_extent_0,
    const int n,
    const int threads_x
) {
    y += y_first;
    const int thread_x = (int)get_global_id(0);
    if (thread_x >= threads_x) {
        return;
    }
    // <golden early_return>:1: if i % n == 0: return
    if (rem_i32(thread_x, n) == 0) {
        return;
    }
    // <golden early_return>:2: y[i] = i
    y[thread_x] = thread_x;
}
