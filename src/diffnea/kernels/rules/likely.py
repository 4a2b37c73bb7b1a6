"""`likely`: a truth that code is made for twice, once for where it holds and once for where nothing is known of it."""

import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Bool

from diffnea.kernels.rules.tracer import Operand, Symbols, Tracer, rule

_likely = Primitive("diffnea_likely")
_likely.def_impl(lambda truth: truth)
_likely.def_abstract_eval(lambda truth: truth)
mlir.register_lowering(_likely, lambda _context, truth: [truth])
batching.primitive_batchers[_likely] = lambda truths, axes: (_likely.bind(*truths), axes[0])
ad.primitive_jvps[_likely] = lambda truths, tangents: (_likely.bind(*truths), tangents[0])  # of a truth: none


def likely(truth: Bool[Array, ""]) -> Bool[Array, ""]:
    """The same truth; whoever asks it must be right to take false for an answer, too.

    Where all samples of a kernel share it, the kernel has a body for either answer and chooses once a call. Elsewhere,
    and on GPUs, the answer is false.
    """
    return _likely.bind(truth)


@rule("diffnea_likely")
def _collect(tracer: Tracer, truth: Operand) -> Operand:
    if not isinstance(truth, Symbols):
        return truth
    tracer.conditions += truth.values.ravel().tolist()
    return np.full(truth.values.shape, tracer.likely)
