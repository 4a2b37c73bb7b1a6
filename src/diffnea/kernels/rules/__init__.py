"""From JAX's primitives to scalar programs, one rule each."""

from diffnea.kernels.rules import arithmetic, likely, linear_algebra, movement, scans
