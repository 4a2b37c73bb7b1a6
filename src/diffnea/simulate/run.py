"""`rollout`: a model from a start into the future, for one start or many."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, ArrayLike, Float, Real

from diffnea import batching, kernels
from diffnea.arrays import Rows
from diffnea.models import AbstractModel, Model, in_canonical_frames
from diffnea.simulate import loop
from diffnea.simulate.arguments import Arguments, checked, time_step
from diffnea.simulate.classical import rk4_step
from diffnea.simulate.delay import arrivals, delayed, led, weights
from diffnea.simulate.memory import Memory, keeps
from diffnea.simulate.safe import safe_step
from diffnea.simulate.servo import with_gains


class Rollout(eqx.Module):
    """What came of it: row k of every array is the state at `time[k]`, and the command given there.

    `diverged_at` is None when every state makes sense. Otherwise, and always under `jit` and `vmap`, it holds for each
    roll-out the time in seconds of the first state that does not (infinite where all do); from there on the last state
    that did is repeated.
    """

    q: Float[Array, "*batch time nq"]
    qd: Float[Array, "*batch time n"]
    u: Float[Array, "*batch time joints"]
    time: Float[Array, " time"]
    diverged_at: Float[Array, "*batch"] | None


def rollout(
    model: AbstractModel,
    q0: Real[ArrayLike, "*#batch nq"] | Rows,
    qd0: Real[ArrayLike, "*#batch n"] | Rows,
    u: Real[ArrayLike, "*#batch time joints"] | Rows | Callable[..., Any] | None,
    dt: Real[ArrayLike, ""],
    integrator: Literal["auto", "rk4"] = "auto",
    steps: int | None = None,
    gain: Real[ArrayLike, "*#gain"] | Rows | None = None,
) -> Rollout:
    """Simulate a model; there are as many states as commands, the start included.

    Leading axes are batch axes. Differentiable in the model, the start and the commands.

    Args:
        model: as `Model(robot)` or `fit.model`.
        q0: joint positions to start from, with any leading batch axes.
        qd0: joint velocities to start with.
        u: recorded commands, row k from `time[k]` to `time[k + 1]`; or a law `(t, q, qd) -> u` for one sample, asked
            once a step; or None.
        dt: the step in seconds.
        integrator: "auto" keeps the model's energy from rising by itself (docs/energy.md) where the model is conserving
            or bounded, and is Runge-Kutta's method elsewhere; "rk4" is that method always.
        steps: the number of states, which a law and None need.
        gain: what the firmware of servos is set to, as the recordings that were fitted count it (`Recording.gain`), one
            number, one a joint, or like `u`; 0 where torque is off; None: their usual one.
    """
    given = checked(model, q0, qd0, u, dt, integrator, steps, gain)
    if given.law is not None and isinstance(model, Model) and model.actuator.lead is not None:
        raise ValueError("rollout: goals that are led ahead must be recorded ones; a law has no next goal to look at")
    step = safe_step if integrator == "auto" and _implicit(model) else rk4_step
    if step is rk4_step and isinstance(model, Model) and keeps(model.actuator):
        raise ValueError("rollout: rk4 has no profile of goals and no integral term of servos; use integrator auto")
    course = _course(step, model, given)
    time = jnp.arange(given.steps, dtype=course.q.dtype) * given.dt
    return Rollout(course.q, course.qd, course.u, time, _divergence(course.sound, given))


def step(
    model: AbstractModel,
    q: Real[ArrayLike, "*#batch nq"] | Rows,
    qd: Real[ArrayLike, "*#batch n"] | Rows,
    u: Real[ArrayLike, "*#batch joints"] | Rows,
    dt: Real[ArrayLike, ""],
    memory: Memory = (),
) -> tuple[Array, ...]:
    """The state one step of "auto" later, the command held, and what servos keep, where that is given.

    Without a memory goals of servos have arrived, and nothing was summed.

    Args:
        model: as `Model(robot)` or `fit.model`.
        q: joint positions, with any leading batch axes.
        qd: joint velocities.
        u: the command.
        dt: the step in seconds.
        memory: what servos keep from step to step, as the step before gave it.
    """
    one = safe_step if _implicit(model) else rk4_step
    if not memory:
        return batching.batched(_stepper(one), _Timed(model, time_step("step", dt, float)), q=q, qd=qd, u=u)
    arrays = [jnp.asarray(x, float) for x in (q, qd, u, *memory)]
    dtype = arrays[0].dtype
    one = partial(
        batching.kernel_for(safe_step, batching.whole_numbers(model)),
        jax.tree.map(lambda leaf: _cast(leaf, dtype), model),
    )
    return jax.vmap(lambda q, qd, u, *memory: one(q, qd, u, jnp.asarray(dt, dtype), *memory))(*arrays)


def _implicit(model: AbstractModel) -> bool:
    """Whether "auto" is the energy-safe step: of servos with an integral term too, which is promised nothing."""
    if model.energy_class != "unbounded":
        return True
    return isinstance(model, Model) and model.actuator.integral is not None and model.robot.loops is None


class _Timed(eqx.Module):
    """A model and a time step, so that both travel as one."""

    model: AbstractModel
    dt: Float[Array, ""]

    @property
    def num_joints(self) -> int:
        return self.model.num_joints

    @property
    def num_positions(self) -> int:
        return self.model.num_positions

    @property
    def num_velocities(self) -> int:
        return self.model.num_velocities


@lru_cache
def _stepper(one: loop.Step) -> loop.Step:
    return lambda timed, q, qd, u: one(timed.model, q, qd, u, timed.dt)


def _divergence(sound: Float[Array, "*batch"], given: Arguments) -> Float[Array, "*batch"] | None:
    """When the first state that makes no sense would have come; the loop goes one step beyond the last state."""
    first = sound + 1
    at = jnp.where(first < given.steps, first * given.dt, jnp.inf)
    return None if not isinstance(at, Tracer) and np.all(np.isinf(np.asarray(at))) else at


def _course(step: loop.Step, model: AbstractModel, given: Arguments) -> loop.Course:
    form = in_canonical_frames(model, given.q0.dtype)
    leaves, structure = jax.tree.flatten(model if form is None else form)
    numbers, rest = eqx.partition(given.law, eqx.is_array)
    shaping = jax.tree.flatten(rest)
    return _run(
        step,
        structure if form is not None else batching.skeleton_of(model, structure),
        batching.whole_numbers(model) if form is None else None,
        (tuple(shaping[0]), shaping[1]),
        given.steps,
        leaves,
        numbers,
        (given.q0, given.qd0, given.u, given.gain, given.dt),
    )


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _run(step, skeleton, known, law, steps: int, leaves, numbers, arrays) -> loop.Course:
    q0, qd0, u, gain, dt = arrays
    dtype = q0.dtype
    leaves, numbers = jax.tree.map(lambda leaf: _cast(leaf, dtype), (leaves, numbers))
    model = jax.tree.unflatten(skeleton, leaves)
    batch = np.broadcast_shapes(q0.shape[:-1], qd0.shape[:-1], () if u is None else u.shape[:-2])
    count = int(np.prod(batch))
    q0, qd0 = (jnp.broadcast_to(x, (*batch, x.shape[-1])).reshape(count, x.shape[-1]) for x in (q0, qd0))
    if u is None:
        course = jax.vmap(_with_law(step, known, model, _law_maker(*law), numbers, steps, dt))(q0, qd0)
    else:
        shared = None if u.ndim == 2 else 0
        rows, set_to = (
            x
            if x is None or shared is None
            else jnp.broadcast_to(x, (*batch, steps, x.shape[-1])).reshape(count, steps, -1)
            for x in (u, gain)
        )
        course = jax.vmap(_with_record(step, known, model, dt), (0, 0, shared, shared))(q0, qd0, rows, set_to)
    return jax.tree.map(lambda x: x.reshape(*batch, *x.shape[1:]), course)


def _cast(leaf: Any, dtype: Any) -> Array:
    leaf = jnp.asarray(leaf)
    return leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf


def _arrivals(step: loop.Step, model: AbstractModel) -> Float[Array, "past arriving"] | None:
    """What arrives of a model's past commands; None where it is each at once."""
    actuator = model.actuator if isinstance(model, Model) else None
    if actuator is None or not actuator.most_delay:
        return None
    return arrivals(actuator) if step is safe_step else weights(actuator.delay, actuator.most_delay)


def _with_record(step, known, model, dt):
    course = loop.recorded(step, known)
    shares = _arrivals(step, model)
    lead = model.actuator.lead if isinstance(model, Model) else None

    def each(q0, qd0, u, gain):
        acting = u if shares is None else delayed(u, shares)
        acting = acting if lead is None else led(acting, lead, dt)
        q, qd, sound = course(model, q0, qd0, acting if gain is None else with_gains(acting, gain), dt)
        return loop.Course(q, qd, u, sound)

    return each


@lru_cache(maxsize=256)
def _law_maker(leaves: tuple[Any, ...], structure: Any) -> Callable[[Any], Callable[..., Any]]:
    """From a law's numbers to the law; what else it has shapes the computation."""
    return lambda numbers: eqx.combine(numbers, jax.tree.unflatten(structure, leaves))


def _with_law(step, known, model, make_law, numbers, steps, dt):
    shares = _arrivals(step, model)
    shares = jnp.ones((1, model.num_joints), dt.dtype) if shares is None else shares
    times = jnp.arange(steps, dtype=dt.dtype) * dt
    state = [jax.ShapeDtypeStruct((size,), dt.dtype) for size in (model.num_positions, model.num_velocities)]
    whole = kernels.fits(lambda numbers, *now: make_law(numbers)(*now), numbers, dt, *state)
    course = loop.feedback(step, known, make_law, whole)
    return lambda q0, qd0: course(model, q0, qd0, numbers, shares, times, dt)
