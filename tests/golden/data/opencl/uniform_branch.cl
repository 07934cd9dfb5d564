#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void uniform_branch(
    __global int *y,
    const ulong y_first,
    const int n
) {
    y += y_first;
    const int thread_x = (int)get_global_id(0);
    if (thread_x >= 1024) {
        return;
    }
    // <golden uniform_branch>:1: total = 0
    int total = 0;
    // <golden uniform_branch>:2: if n > 3:
    if (n > 3) {
        // <golden uniform_branch>:3: total = n * 2
        total = (int)((uint)n * 2u);
    }
    // <golden uniform_branch>:4: y[i] = total
    y[thread_x] = total;
}
