#pragma OPENCL FP_CONTRACT OFF

int group_scan_i32(int value, __local int *scratch) {
    const uint lane = (uint)get_local_id(0);
    int before = 0;
    scratch[lane] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane >= 1) before = scratch[lane - 1];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane >= 1) scratch[lane] = (int)((uint)before + (uint)scratch[lane]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane >= 2) before = scratch[lane - 2];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane >= 2) scratch[lane] = (int)((uint)before + (uint)scratch[lane]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane >= 4) before = scratch[lane - 4];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane >= 4) scratch[lane] = (int)((uint)before + (uint)scratch[lane]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane >= 8) before = scratch[lane - 8];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane >= 8) scratch[lane] = (int)((uint)before + (uint)scratch[lane]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane >= 16) before = scratch[lane - 16];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane >= 16) scratch[lane] = (int)((uint)before + (uint)scratch[lane]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane >= 32) before = scratch[lane - 32];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane >= 32) scratch[lane] = (int)((uint)before + (uint)scratch[lane]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane >= 64) before = scratch[lane - 64];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane >= 64) scratch[lane] = (int)((uint)before + (uint)scratch[lane]);
    barrier(CLK_LOCAL_MEM_FENCE);
    const int result = scratch[lane];
    barrier(CLK_LOCAL_MEM_FENCE);
    return result;
}

bool group_any_bool(bool value, __local uchar *scratch) {
    const uint lane = (uint)get_local_id(0);
    scratch[lane] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 48) scratch[lane] = scratch[lane] || scratch[lane + 48];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 24) scratch[lane] = scratch[lane] || scratch[lane + 24];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 12) scratch[lane] = scratch[lane] || scratch[lane + 12];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 6) scratch[lane] = scratch[lane] || scratch[lane + 6];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 3) scratch[lane] = scratch[lane] || scratch[lane + 3];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 1) scratch[lane] = scratch[lane] || scratch[lane + 2];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 1) scratch[lane] = scratch[lane] || scratch[lane + 1];
    barrier(CLK_LOCAL_MEM_FENCE);
    const bool result = scratch[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return result;
}

__kernel __attribute__((reqd_work_group_size(96, 1, 1)))
void scan(
    __global const int *x,
    const ulong x_first,
    __global int *y,
    const ulong y_first
) {
    x += x_first;
    y += y_first;
    const int local_x = (int)get_local_id(0);
    __local int scratch_int[96];
    __local uchar scratch_uchar[96];
    // <golden scan>:1: y[i] = group_scan(x[i])
    const int running = group_scan_i32(x[local_x], scratch_int);
    y[local_x] = running;
    // <golden scan>:2: some = group_any(x[i] < 0)
    const bool some = group_any_bool(x[local_x] < 0, scratch_uchar);
    if (some) {
        // <golden scan>:3: y[0] = -1
        y[0] = -1;
    }
}
