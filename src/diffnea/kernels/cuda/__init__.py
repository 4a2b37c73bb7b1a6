"""Scalar programs as CUDA C and machine code."""
