"""Fast batched programs from per-sample functions: trace → scalars → machine code."""

from diffnea.kernels import arithmetic, linear_algebra, movement, scans
from diffnea.kernels.compile import backends, compile
from diffnea.kernels.lowering import switched_off
from diffnea.kernels.recall import name_of
