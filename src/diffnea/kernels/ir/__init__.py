"""Scalar programs: what they are, how they are made, how they meet memory."""
