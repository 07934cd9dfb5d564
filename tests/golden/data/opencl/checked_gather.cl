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
void checked_gather(
    __global const float *x,
    const ulong x_first,
    const int x_extent_0,
    const int x_extent_1,
    const int x_stride_0,
    __global const int *at,
    const ulong at_first,
    const int at_extent_0,
    __global float *y,
    const ulong y_first,
    const int y_extent_0,
    const int threads_x,
    const int launch,
    volatile __global int *fault,
    const ulong fault_first
) {
    x += x_first;
    at += at_first;
    y += y_first;
    fault += fault_first;
    const int thread_x = (int)get_global_id(0);
    if (thread_x >= threads_x) {
        return;
    }
    // <golden checked_gather>:1: y[i] = x[at[i, 0], at[i, 1]]
    int at_at = 0;
    if ((uint)thread_x >= (uint)at_extent_0) {
        record_fault(fault, launch, 0, 0, thread_x, at_extent_0);
    } else if ((uint)0 >= 2u) {
        record_fault(fault, launch, 0, 1, 0, 2);
    } else {
        at_at = at[(long)thread_x * 2 + 0];
    }
    const int t = at_at;
    int at_at_1 = 0;
    if ((uint)thread_x >= (uint)at_extent_0) {
        record_fault(fault, launch, 1, 0, thread_x, at_extent_0);
    } else if ((uint)1 >= 2u) {
        record_fault(fault, launch, 1, 1, 1, 2);
    } else {
        at_at_1 = at[(long)thread_x * 2 + 1];
    }
    const int t_1 = at_at_1;
    float x_at = 0.0f;
    if ((uint)t >= (uint)x_extent_0) {
        record_fault(fault, launch, 3, 0, t, x_extent_0);
    } else if ((uint)t_1 >= (uint)x_extent_1) {
        record_fault(fault, launch, 3, 1, t_1, x_extent_1);
    } else {
        x_at = x[(long)t * x_stride_0 + t_1];
    }
    if ((uint)thread_x >= (uint)y_extent_0) {
        record_fault(fault, launch, 2, 0, thread_x, y_extent_0);
    } else {
        y[thread_x] = x_at;
    }
    // <golden checked_gather>:2: assert at[i, 0] < 1000, 'small'
    if (!(t < 1000)) {
        record_fault(fault, launch, 4, 0, 0, 0);
    }
}
