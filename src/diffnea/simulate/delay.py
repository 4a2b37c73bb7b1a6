"""Commands that come late, by a fraction of a sample too; and goals as a profile lets them come."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffnea.actuators import AbstractActuator, GoalProfile

# Steps of a profile in each sample, where its goals are asked for by themselves.
PROFILE_STEPS = 8


class Late(NamedTuple):
    """How commands come late: by so many samples of at most so many, and then as a profile lets them come."""

    delay: Float[Array, " n"]
    most: int
    profile: GoalProfile | None = None


def weights(delay: Float[Array, " n"], most: int) -> Float[Array, "past n"]:
    """How much of the command of 0, 1, … samples ago arrives now: two neighbours, in proportion."""
    ago = jnp.arange(most + 1, dtype=delay.dtype)
    return jnp.maximum(1 - jnp.abs(delay[None, :] - ago[:, None]), 0.0)


def smooth_weights(delay: Float[Array, " n"], most: int) -> Float[Array, "past n"]:
    """The same of a signal that is smooth between samples: cubic convolution (Keys 1981), four neighbours.

    Two neighbours in proportion are the mean of a held command over a sample, but of a smooth signal they are too low
    where it bends: by `f (1 − f) / 2` of its change over two samples, f the fraction of a sample.
    """
    if most < 2:
        return weights(delay, most)
    ago = jnp.arange(-1, most + 2, dtype=delay.dtype)
    x = jnp.abs(delay[None, :] - ago[:, None])
    near, next_ = 1 - 2.5 * x**2 + 1.5 * x**3, 2 - 4 * x + 2.5 * x**2 - 0.5 * x**3
    found = jnp.where(x < 1, near, jnp.where(x < 2, next_, 0.0))
    beyond = jnp.asarray([3.0, -3.0, 1.0], delay.dtype)[:, None]  # what is outside, from the three nearest to it
    inside = found[1:-1].at[:3].add(beyond * found[:1])
    return inside.at[-3:].add(beyond[::-1] * found[-1:])


def arrivals(actuator: AbstractActuator) -> Float[Array, "past arriving"]:
    """The same of an actuator: of torques the mean over a sample; of goals, those that a sample ends and begins with.

    A servo that is told a new goal within a sample goes on to the old one until then. Its mean would be a goal that
    nobody gave: after a step of 0.3 rad that is wrong by 8 mrad.
    """
    delay, most = actuator.delay, actuator.most_delay
    if actuator.loop is None or not most:
        return weights(delay, most)
    whole = jnp.floor(delay)
    return jnp.concatenate([weights(whole, most + 1), weights(whole + 1, most + 1)], axis=1)


def latest(shares: Float[Array, "past arriving"], past: Float[Array, "past n"]) -> Float[Array, " arriving"]:
    """What arrives of the past commands, the newest of which comes first."""
    return jnp.sum(shares * _as_wide(past, shares), axis=0)


def delayed(u: Float[Array, "time n"], shares: Float[Array, "past arriving"]) -> Float[Array, "time arriving"]:
    """What arrives of recorded commands; before the first, there was the first."""
    count, most = u.shape[0], shares.shape[0] - 1
    padded = _as_wide(jnp.concatenate([jnp.broadcast_to(u[:1], (most, u.shape[1])), u]), shares)
    parts = [shares[k][None] * padded[most - k : most - k + count] for k in range(most + 1)]
    return sum(parts[1:], parts[0])


def _as_wide(commands: Float[Array, "time n"], shares: Float[Array, "past arriving"]) -> Float[Array, "time arriving"]:
    return jnp.tile(commands, (1, shares.shape[1] // commands.shape[1]))


def led(
    u: Float[Array, "time arriving"], lead: Float[Array, " n"], dt: Float[Array, ""]
) -> Float[Array, "time arriving"]:
    """Recorded commands with their own rate `lead` seconds ahead; after the last, there is the last."""
    rate = jnp.concatenate([jnp.diff(u, axis=0), jnp.zeros_like(u[:1])]) / dt
    return u + jnp.tile(lead, u.shape[1] // lead.shape[0])[None] * rate


class Profiled(NamedTuple):
    """Goals as a profile follows them: the mean over each sample, and where they are at its end."""

    mean: Float[Array, "time n"]
    end: Float[Array, "time n"]


def profiled(u: Float[Array, "time n"], profile: GoalProfile, dt: Float[Array, ""]) -> Profiled:
    """Of recorded goals; before the first, there was the first."""

    def sample(state, target):
        goal, rate = state
        seen = []
        for _ in range(PROFILE_STEPS):
            goal, rate = profile.advance(goal, rate, target, dt / PROFILE_STEPS)
            seen.append(goal)
        return (goal, rate), Profiled(sum(seen[1:], seen[0]) / PROFILE_STEPS, seen[-1])

    return jax.lax.scan(sample, (u[0], jnp.zeros_like(u[0])), u)[1]
