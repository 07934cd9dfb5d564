"""NVIDIA GPUs: Triton and LLVM's NVPTX as compilers, CuPy for memory, streams, graphs and launches."""
