"""Scalar programs to better ones."""
