#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void private_registers(
    __global const float *x,
    const ulong x_first,
    __global float *y,
    const ulong y_first
) {
    x += x_first;
    y += y_first;
    const int thread_x = (int)get_global_id(0);
    if (thread_x >= 256) {
        return;
    }
    // <golden private_registers>:1: acc = private(f32, 4)
    float acc[4];
    // <golden private_registers>:2: acc[0] = x[0, i]
    acc[0] = x[0 * 256 + thread_x];
    // <golden private_registers>:3: acc[1] = x[1, i]
    acc[1] = x[1 * 256 + thread_x];
    // <golden private_registers>:4: acc[2] = x[2, i]
    acc[2] = x[2 * 256 + thread_x];
    // <golden private_registers>:5: acc[3] = x[3, i]
    acc[3] = x[3 * 256 + thread_x];
    // <golden private_registers>:6: y[i] = acc[0] + acc[3]
    y[thread_x] = acc[0] + acc[3];
}
