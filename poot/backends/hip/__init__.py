"""AMD's GPUs through HIP: kernels are compiled to code objects, and no device runs them."""
