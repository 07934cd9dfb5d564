#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void narrow_integers(
    __global const char *x,
    const ulong x_first,
    __global uchar *y,
    const ulong y_first
) {
    x += x_first;
    y += y_first;
    const int thread_x = (int)get_global_id(0);
    if (thread_x >= 300) {
        return;
    }
    const char a = x[thread_x];
    // <golden narrow_integers>:1: y[i] = u8(popcount(a) + clz(a)) >> 1
    y[thread_x] = (uchar)((uchar)(char)(popcount(a) + clz(a)) >> (uchar)1);
}
