"""Scalar programs as LLVM assembly and machine code."""
