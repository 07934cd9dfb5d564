#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void tile_transpose(
    __global const float *x,
    const ulong x_first,
    __global float *y,
    const ulong y_first
) {
    x += x_first;
    y += y_first;
    const int group_x = (int)get_group_id(0);
    const int group_y = (int)get_group_id(1);
    const int local_x = (int)get_local_id(0);
    const int local_y = (int)get_local_id(1);
    __local float tile[272];
    // <golden tile_transpose>:1: tile = shared(f32, (16, 17))
    // <golden tile_transpose>:2: tile[ly, lx] = x[gy * 16 + ly, gx * 16 + lx]
    tile[local_y * 17 + local_x] = x[(group_y * 16 + local_y) * 64 + (group_x * 16 + local_x)];
    // <golden tile_transpose>:3: barrier()
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    // <golden tile_transpose>:4: y[gx * 16 + ly, gy * 16 + lx] = tile[lx, ly]
    y[(group_x * 16 + local_y) * 64 + (group_y * 16 + local_x)] = tile[local_x * 17 + local_y];
}
