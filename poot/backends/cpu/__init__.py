"""The CPU device: native code from LLVM, a worker pool, a caching allocator."""
