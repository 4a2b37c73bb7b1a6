"""ADAM on the normalised squared loss, as in the paper, for many starts at once.

The gradient of a robot is a kernel. That of a plain network is a few products of matrices over the whole batch, which
XLA does best, in single precision: its noise is far below that of the samples drawn for a step.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from diffnea.identify.problem.measurements.rows import Batch
from diffnea.identify.problem.residuals import Form, over_samples, residual_kernel
from diffnea.identify.problem.unknowns import Unknowns
from diffnea.identify.solve.solution import Solution, status_of
from diffnea.models import FeedForward

RATE, MOST_STEPS_OF_ADAM = 5e-3, 10_000
# Samples drawn for each step; a step on more costs more and learns little more.
SAMPLES_A_STEP = 1024
RECORDED = 100  # losses kept of a run


def descend(
    loss: str,
    free: Unknowns,
    batch: Batch,
    theta: Float[np.ndarray, "starts p"],
    steps: int = MOST_STEPS_OF_ADAM,
    rate: float = RATE,
    seed: int = 0,
    most: int = SAMPLES_A_STEP,
) -> Solution:
    """So many steps from every start; where a gradient is not finite, that step is left out."""
    leaves, structure, masks = free.nameless()
    form, plain = Form.of(loss, structure, masks), isinstance(free.tree, FeedForward)
    chunk = max(1, steps // RECORDED)
    shape = (form, plain, chunk, -(-steps // chunk), min(most, len(batch.q)))
    numbers = (theta, leaves, tuple(batch))
    with jax.numpy_dtype_promotion("standard"):  # optax counts its steps in integers
        end, history = _run(shape, rate, jax.random.key(seed), *(_single(numbers) if plain else numbers))
    end, history = np.asarray(end, np.float64), np.asarray(history, np.float64)
    final = np.asarray(_losses(form, plain, end, leaves, batch))
    falling = history[-1] < 0.99 * history[-max(2, len(history) // 10)]
    kept = np.where(np.isfinite(final)[:, None], end, theta)
    best = np.fmin.accumulate(np.nanmin(np.where(np.isfinite(history), history, np.inf), axis=1))
    return Solution(kept, np.where(np.isfinite(final), final, np.inf), status_of(final, ~falling), tuple(best.tolist()))


def _single(numbers: PyTree) -> PyTree:
    return jax.tree.map(lambda array: np.asarray(array, np.float32), numbers)


def _residual(form: Form, plain: bool) -> Callable[..., PyTree]:
    return over_samples(form.residual if plain else residual_kernel(form))


@partial(jax.jit, static_argnums=(0, 1))
def _losses(form: Form, plain: bool, theta: Array, leaves: list[Array], batch: Batch) -> Float[Array, " starts"]:
    """The mean squared residual of every start, one after the other: all samples at once take memory."""
    function = _residual(form, plain)
    return jax.lax.map(lambda one: jnp.mean(jnp.square(function(one, leaves, *batch))), theta)


@partial(jax.jit, static_argnums=0)
def _run(shape: tuple[Form, bool, int, int, int], rate, key, theta: Array, leaves: list[Array], batch: tuple):
    import optax  # here, because only this method needs it

    form, plain, chunk, chunks, drawn = shape
    optimiser = optax.adam(rate)
    function = _residual(form, plain)

    def total(theta, rows):
        each = jax.vmap(lambda one: jnp.mean(jnp.square(function(one, leaves, *rows))))(theta)
        return jnp.sum(each), each

    def step(carry, key):
        theta, state = carry
        rows = batch
        if drawn < len(batch[0]):
            picked = jax.random.randint(key, (drawn,), 0, len(batch[0]))
            rows = jax.tree.map(lambda array: jnp.asarray(array)[picked], batch)
        (_, loss), slope = jax.value_and_grad(total, has_aux=True)(theta, rows)
        update, state = optimiser.update(jnp.where(jnp.isfinite(slope), slope, 0.0), state)
        return (theta + update, state), loss

    def run_chunk(carry, key):
        carry, losses = jax.lax.scan(step, carry, jax.random.split(key, chunk))
        return carry, jnp.mean(losses, axis=0)

    (theta, _), history = jax.lax.scan(run_chunk, (theta, optimiser.init(theta)), jax.random.split(key, chunks))
    return theta, history
