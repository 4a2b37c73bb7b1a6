"""What a roll-out is asked for, checked: shapes, finite numbers, a time step, a law that fits the robot."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from diffnea.arrays import numbers
from diffnea.batching import batched
from diffnea.loops import gap
from diffnea.manifold import parts
from diffnea.models import AbstractModel, Model

INTEGRATORS = ("auto", "rk4")
OPEN = 1e-4  # m or rad: what a start may leave open of a loop, which the first step closes


class Arguments(NamedTuple):
    """A roll-out's start and time step, in one precision, and its commands: an array of them, or a law."""

    q0: Float[Array, "*#batch nq"]
    qd0: Float[Array, "*#batch n"]
    u: Float[Array, "*#batch time joints"] | None
    law: Callable[..., Any] | None
    dt: Float[Array, ""]
    steps: int
    gain: Float[Array, "*#batch time joints"] | None = None


def checked(model: AbstractModel, q0, qd0, u, dt, integrator, steps, gain=None) -> Arguments:
    """The arguments of `rollout`, or one line on what is wrong with them."""
    if integrator not in INTEGRATORS:
        raise ValueError(f'rollout: integrator is "{integrator}"; use {" or ".join(INTEGRATORS)}')
    if not isinstance(model, AbstractModel):
        raise TypeError(f"rollout: got a {type(model).__name__}; give a model, as Model(robot) or fit.model")
    law = u if callable(u) else None
    given = {"q0": q0, "qd0": qd0} | ({} if law is not None or u is None else {"u": u})
    if gain is not None:
        _check_gain(model, given, integrator)
        given["u"], given["gain"] = jnp.broadcast_arrays(numbers("rollout: u", u), numbers("rollout: gain", gain))
    arrays = {name: numbers(f"rollout: {name}", value) for name, value in given.items()}
    dtype = np.result_type(*(array.dtype for array in arrays.values()))
    dtype = dtype if jnp.issubdtype(dtype, jnp.floating) else jnp.asarray(0.0).dtype
    arrays = {name: array.astype(dtype) for name, array in arrays.items()}
    lengths = {"q0": model.num_positions, "qd0": model.num_velocities, "u": model.num_joints}
    lengths["gain"] = lengths["u"]
    for name, array in arrays.items():
        _check_array(name, array, lengths[name])
    if not isinstance(arrays["q0"], Tracer):
        _check_quaternions(model, arrays["q0"])
        _check_loops(model, arrays["q0"])
    _check_batches({name: array.shape[: -2 if name in ("u", "gain") else -1] for name, array in arrays.items()})
    count = _count(arrays.get("u"), steps)
    arrays.setdefault("u", jnp.zeros((count, model.num_joints), dtype))
    if law is not None:
        _check_law(law, lengths, dtype)
    start, commands = (arrays["q0"], arrays["qd0"]), None if law else arrays["u"]
    return Arguments(*start, commands, law, time_step("rollout", dt, dtype), count, arrays.get("gain"))


def _check_gain(model: AbstractModel, given: dict[str, Any], integrator: str) -> None:
    if "u" not in given or integrator == "rk4":
        raise ValueError("rollout: a gain goes with recorded goals and integrator auto; leave it out, or give these")
    if not isinstance(model, Model) or model.actuator.loop is None:
        raise ValueError("rollout: a gain is of servos, and the model has none; leave it out")


def _check_quaternions(model: AbstractModel, q0: Array) -> None:
    if not isinstance(model, Model):
        return
    for part in parts(model.robot):
        if part.kind != "single" and np.any(np.linalg.norm(np.asarray(q0)[..., part.q][..., -4:], axis=-1) == 0):
            raise ValueError(f"rollout: q0 has the quaternion 0 0 0 0 from entry {part.q.stop - 4} on; no turn has it")


def _check_loops(model: AbstractModel, q0: Array) -> None:
    if isinstance(model, Model) and model.robot.loops is not None:
        left = float(jnp.abs(batched(gap, model.robot, q=q0)).max())
        if left > OPEN:
            raise ValueError(f"rollout: q0 leaves a loop open by {left:.2g} m or rad; close it by close_loops")


def _check_array(name: str, array: Array, length: int) -> None:
    least, axes = (2, f"(…, time, {length})") if name in ("u", "gain") else (1, f"(…, {length})")
    if array.ndim < least or array.shape[-1] != length:
        raise ValueError(f"rollout: {name} has shape {array.shape}; it must be {axes}, one column a joint")
    if isinstance(array, Tracer):
        return
    bad = np.argwhere(~np.isfinite(np.asarray(array)))
    if len(bad):
        where = ", ".join(map(str, bad[0]))
        raise ValueError(f"rollout: {name}[{where}] is {float(array[tuple(bad[0])])}; all numbers must be finite")


def _check_batches(shapes: dict[str, tuple[int, ...]]) -> None:
    try:
        np.broadcast_shapes(*shapes.values())
    except ValueError:
        found = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(
            f"rollout: batch axes do not match: {found}; give equal ones, or ones that broadcast"
        ) from None


def _count(u: Array | None, steps: int | None) -> int:
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, (int, np.integer))):
        raise TypeError(f"rollout: steps is {steps!r}; give a whole number, from 1 on")
    if u is None:
        if steps is None or steps < 1:
            raise ValueError(f"rollout: steps is {steps}; without recorded commands say how many states, from 1 on")
        return steps
    if u.shape[-2] == 0:
        raise ValueError(f"rollout: u has shape {u.shape}; give at least one row in time")
    if steps is not None and steps != u.shape[-2]:
        raise ValueError(
            f"rollout: steps is {steps}, and u has {u.shape[-2]} rows; leave steps out, there is one a row"
        )
    return u.shape[-2]


def time_step(what: str, dt: Any, dtype: Any) -> Array:
    """One number of seconds, above zero; `what` asks for it."""
    step = dt if isinstance(dt, (int, float)) else numbers(f"{what}: dt", dt)
    if np.ndim(step):
        raise ValueError(f"{what}: dt has shape {np.shape(step)}; give one number, in seconds")
    if not isinstance(step, Tracer) and not 0 < float(step) < np.inf:
        raise ValueError(f"{what}: dt is {float(step):g} s; it must be finite and above zero")
    return jnp.asarray(step, dtype)


def _check_law(law: Callable[..., Any], lengths: dict[str, int], dtype: Any) -> None:
    number, num_joints = jax.ShapeDtypeStruct((), dtype), lengths["u"]
    q, qd = (jax.ShapeDtypeStruct((lengths[name],), dtype) for name in ("q0", "qd0"))
    found = jax.eval_shape(law, number, q, qd)
    shape = getattr(found, "shape", None)
    if shape != (num_joints,):
        what = f"shape {shape}" if shape is not None else f"a {type(found).__name__}"
        raise ValueError(f"rollout: the law u(t, q, qd) returns {what}; it must return shape ({num_joints},)")
