"""The time loop: one step after the other under recorded or feedback input, holding the last state that made sense."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from diffnea import batching
from diffnea.simulate.delay import latest
from diffnea.simulate.memory import Memory, at_rest
from diffnea.simulate.safe import safe_step

# A joint this fast, in rad/s or m/s, has left the world: it is caught before numbers overflow, gradients with them.
ABSURD = 1e6

Step = Callable[..., tuple[Array, ...]]


class State(NamedTuple):
    """Where a roll-out is, whether it still makes sense (1 or 0), how many steps did, and what servos keep."""

    q: Float[Array, " nq"]
    qd: Float[Array, " n"]
    alive: Float[Array, ""]
    sound: Float[Array, ""]
    memory: Memory = ()


class Course(NamedTuple):
    """States in time, the commands given there, and how many steps led to states that make sense."""

    q: Float[Array, "time nq"]
    qd: Float[Array, "time n"]
    u: Float[Array, "time joints"]
    sound: Float[Array, ""]


@lru_cache(maxsize=256)
def advance(step: Step, known: Any) -> Callable[..., State]:
    """A step as a kernel that keeps the old state where the new one is no longer finite, or absurd."""

    def advanced(model: Any, u: Array, dt: Array, *parts: Any) -> State:
        state = State(*parts)
        q, qd, *memory = step(model, state.q, state.qd, u, dt, *state.memory)
        sense = jnp.all(jnp.isfinite(q)) & (jnp.max(jnp.abs(qd)) < ABSURD)  # comparing with NaN gives False
        alive = checkpoint_name(jnp.where(sense, state.alive, 0.0), "kept")
        kept = alive > 0
        pairs = zip((q, qd, *memory), (state.q, state.qd, *state.memory), strict=True)
        q, qd, *memory = (jnp.where(kept, new, old) for new, old in pairs)
        return State(q, qd, alive, state.sound + alive, tuple(memory))

    return batching.kernel_for(advanced, known)


def start(step: Step, model: Any, q0: Float[Array, " nq"], qd0: Float[Array, " n"], u: Float[Array, " goals"]) -> State:
    """The state that a roll-out begins with; before its first command there was the same."""
    memory = at_rest(model, q0, u) if step is safe_step else ()
    return State(q0, qd0, jnp.ones((), q0.dtype), jnp.zeros((), q0.dtype), memory)


@lru_cache(maxsize=256)
def recorded(step: Step, known: Any) -> Callable[..., tuple[Array, Array, Array]]:
    """`q, qd, sound = course(model, q0, qd0, u, dt)` under known commands, the whole loop as one kernel."""
    one = advance(step, known)

    def course(model: Any, q0: Array, qd0: Array, u: Array, dt: Array) -> tuple[Array, Array, Array]:
        def body(state, u):
            return one(model, u, dt, *state), (state.q, state.qd)

        last, (q, qd) = jax.lax.scan(body, start(step, model, q0, qd0, u[0]), u)
        return q, qd, last.sound

    return batching.kernel_for(course, known, batching.name_for(recorded, known, step))


@lru_cache(maxsize=256)
def feedback(step: Step, known: Any, make_law: Callable[..., Any], whole: bool) -> Callable[..., Course]:
    """`course(model, q0, qd0, numbers, shares, times, dt)`: a law looks at the state once a step, held in between.

    What a command's delay still keeps back travels along; before the start there was the first command. The law is
    `make_law(numbers)`; with it the loop is one kernel if it is to be (`whole`), else a loop by XLA over one.
    """
    one = advance(step, known)

    def course(model, q0, qd0, numbers, shares, times, dt):
        law = make_law(numbers)

        @jax.checkpoint  # a law may be large; its inner values are cheaper to compute again than to keep
        def command(t, q, qd):
            return law(t, q, qd).astype(q.dtype)

        def body(carry, t):
            state, past = carry
            u = command(t, state.q, state.qd)
            past = jnp.concatenate([u[None], past[:-1]])
            return (one(model, latest(shares, past), dt, *state), past), (state.q, state.qd, u)

        first = command(times[0], q0, qd0)
        begun = start(step, model, q0, qd0, first)
        first = jnp.broadcast_to(first, (shares.shape[0], *first.shape))
        (last, _), (q, qd, u) = jax.lax.scan(body, (begun, first), times)
        return Course(q, qd, u, last.sound)

    return batching.kernel_for(course, known) if whole else course
