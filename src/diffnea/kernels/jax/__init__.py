"""Kernels inside JAX: the primitive, its derivatives, its code as custom calls, what is kept on disk."""
