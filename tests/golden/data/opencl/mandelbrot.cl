#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void mandelbrot(
    __global int *y,
    const ulong y_first,
    const int y_extent_0,
    const int threads_x
) {
    y += y_first;
    const int thread_x = (int)get_global_id(0);
    if (thread_x >= threads_x) {
        return;
    }
    // <golden mandelbrot>:1: c = i / 1024 - 1.5
    const float c = (float)thread_x * 0.0009765625f - 1.5f;
    float z = 0.0f;
    int count = 0;
    // <golden mandelbrot>:2: while z * z < 4 and count < 100:
    while ((z * z < 4.0f) && (count < 100)) {
        // <golden mandelbrot>:3: z = z * z + c
        z = z * z + c;
        // <golden mandelbrot>:4: count += 1
        count = (int)((uint)count + 1u);
    }
    // <golden mandelbrot>:5: y[i] = count
    y[thread_x] = count;
}
