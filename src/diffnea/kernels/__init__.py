"""Fast batched programs from per-sample functions: trace → scalars → machine code."""

from diffnea.kernels import rules
from diffnea.kernels.api import backends, compile
from diffnea.kernels.jax import lowering
from diffnea.kernels.jax.cache import name_of, ours
from diffnea.kernels.jax.programs import fits, switched_off
from diffnea.kernels.rules.likely import likely
