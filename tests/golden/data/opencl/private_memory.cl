#pragma OPENCL FP_CONTRACT OFF

void record_fault(volatile __global int *fault, int launch, int site, int axis, long index, long extent) {
    if (atomic_cmpxchg(fault, 0, 1) == 0) {
        fault[1] = launch;
        fault[2] = site;
        fault[3] = axis;
        fault[4] = (int)index;
        fault[5] = (int)(index >> 32);
        fault[6] = (int)extent;
        fault[7] = (int)(extent >> 32);
    }
}

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void private_memory(
    __global int *y,
    const ulong y_first,
    const int n,
    const int launch,
    volatile __global int *fault,
    const ulong fault_first
) {
    y += y_first;
    fault += fault_first;
    const int thread_x = (int)get_global_id(0);
    if (thread_x >= 256) {
        return;
    }
    int acc[8];
    // <golden private_memory>:1: for j in range(8): acc[j] = j * i
    for (int j = 0; j < 8; j += 1) {
        acc[j] = j * thread_x;
    }
    // <golden private_memory>:2: y[i] = acc[n]
    int acc_at = 0;
    if ((uint)n >= 8u) {
        record_fault(fault, launch, 0, 0, n, 8);
    } else {
        acc_at = acc[n];
    }
    y[thread_x] = acc_at;
}
