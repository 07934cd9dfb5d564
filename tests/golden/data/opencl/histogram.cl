#pragma OPENCL FP_CONTRACT OFF

float atomic_exchange_f32_global(volatile __global float *place, float value) {
    uint seen = as_uint(*place), before;
    do {
        before = seen;
        float old = as_float(before);
        seen = atomic_cmpxchg((volatile __global uint *)place, before, as_uint(value));
    } while (seen != before);
    return as_float(seen);
}

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void histogram(
    __global const uchar *x,
    const ulong x_first,
    const int x_extent_0,
    __global int *bins,
    const ulong bins_first,
    __global float *last,
    const ulong last_first,
    const int threads_x
) {
    x += x_first;
    bins += bins_first;
    last += last_first;
    const int thread_x = (int)get_global_id(0);
    if (thread_x >= threads_x) {
        return;
    }
    // <golden histogram>:1: atomic_add(bins, x[i], 1)
    atomic_add(&bins[(int)x[thread_x]], 1);
    // <golden histogram>:2: old = atomic_exchange(last, 0, 1.5)
    atomic_exchange_f32_global(&last[0], 1.5f);
}
