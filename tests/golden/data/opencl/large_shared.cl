#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void large_shared(
    __global float *y,
    const ulong y_first
) {
    y += y_first;
    const int local_x = (int)get_local_id(0);
    __local float a[16384];
    __local int b[3];
    // <golden large_shared>:1: a[i * 64] = i
    a[local_x * 64] = (float)local_x;
    // <golden large_shared>:2: atomic_add(b, 1, 1)
    atomic_add(&b[1], 1);
    // <golden large_shared>:3: barrier()
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    // <golden large_shared>:4: y[i] = a[64]
    y[local_x] = a[64];
}
