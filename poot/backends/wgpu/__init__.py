"""Devices behind wgpu: Vulkan, Metal and Direct3D 12, with kernels in WGSL."""
