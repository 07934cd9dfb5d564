"""OpenCL devices: CPUs and GPUs of any maker, with kernels in OpenCL C 1.2."""
