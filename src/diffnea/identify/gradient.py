"""ADAM on the normalised squared loss, as in the paper, for many starts at once; the gradient is a kernel."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.identify.least_squares import Descent
from diffnea.identify.residuals import Batch, Form, over_samples, problem, residual_kernel
from diffnea.identify.unknowns import Unknowns

RATE, STEPS = 5e-3, 10_000
# Samples drawn for each step; a step on more costs more and learns little more.
SAMPLES_A_STEP = 1024
RECORDED = 100  # losses kept of a run


def descend(
    loss: str,
    free: Unknowns,
    batch: Batch,
    theta: Float[np.ndarray, "starts p"],
    steps: int = STEPS,
    rate: float = RATE,
    seed: int = 0,
    most: int = SAMPLES_A_STEP,
) -> Descent:
    """So many steps from every start; where a gradient is not finite, that step is left out."""
    leaves, structure, masks = free.nameless()
    form = Form.of(loss, structure, masks)
    chunk = max(1, steps // RECORDED)
    key = jax.random.key(seed)
    drawn = min(most, len(batch.q))
    with jax.numpy_dtype_promotion("standard"):  # optax counts its steps in integers
        end, history = _run(form, chunk, -(-steps // chunk), drawn, rate, key, theta, leaves, batch)
    end, history = np.asarray(end), np.asarray(history)
    final = problem(loss, free, batch, len(end)).loss(end)
    falling = history[-1] < 0.99 * history[-max(2, len(history) // 10)]
    kept = np.where(np.isfinite(final)[:, None], end, theta)
    best = np.fmin.accumulate(np.nanmin(np.where(np.isfinite(history), history, np.inf), axis=1))
    return Descent(
        kept, np.where(np.isfinite(final), final, np.inf), np.isfinite(final) & ~falling, tuple(best.tolist())
    )


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _run(form: Form, chunk: int, chunks: int, drawn: int, rate, key, theta: Array, leaves: list[Array], batch: Batch):
    import optax  # here, because only this method needs it

    optimiser = optax.adam(rate)
    function = over_samples(residual_kernel(form))

    def total(theta, rows):
        each = jax.vmap(lambda one: jnp.mean(jnp.square(function(one, leaves, *rows))))(theta)
        return jnp.sum(each), each

    def step(carry, key):
        theta, state = carry
        rows = batch
        if drawn < len(batch.q):
            picked = jax.random.randint(key, (drawn,), 0, len(batch.q))
            rows = Batch(*(jnp.asarray(array)[picked] for array in batch))
        (_, loss), slope = jax.value_and_grad(total, has_aux=True)(theta, rows)
        update, state = optimiser.update(jnp.where(jnp.isfinite(slope), slope, 0.0), state)
        return (theta + update, state), loss

    def run_chunk(carry, key):
        carry, losses = jax.lax.scan(step, carry, jax.random.split(key, chunk))
        return carry, jnp.mean(losses, axis=0)

    (theta, _), history = jax.lax.scan(run_chunk, (theta, optimiser.init(theta)), jax.random.split(key, chunks))
    return theta, history
