"""A robot as numbers without constraints: every value of them is a physical robot."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.formats.urdf import matrix_rpy
from diffnea.parameters import bounds
from diffnea.parameters.angles import rotation
from diffnea.parameters.bodies import bodies, impossible, scale
from diffnea.parameters.bounds import bounded
from diffnea.parameters.inertia import FORMS, inertia, numbers
from diffnea.robot import Robot
from diffnea.spatial import Inertia, Transform, joint_transform

_ROTOR = 0.01  # scale of a rotor where the file has none, as a share of a link's typical inertia
_NO_ROTOR = 0.1  # where a joint without armature starts, in units of that


class Decoded(NamedTuple):
    """Which rows come from the virtual numbers; the others keep the robot's own, to the last bit."""

    inertia: tuple[bool, ...]
    kinematics: tuple[bool, ...]
    armature: tuple[bool, ...]
    calibration: tuple[bool, ...]


class VirtualRobot(eqx.Module):
    """A robot and the free numbers that stand for its inertias, placements and rotors, one row a link or joint."""

    own: Robot
    inertia: Float[Array, "n 10"]  # log-Cholesky or square-root numbers, see `docs/parameters.md`
    translation: Float[Array, "n 3"]
    rpy: Float[Array, "n 3"]  # roll, pitch, yaw; R = Rz Ry Rx
    armature: Float[Array, " n"]  # armature = scale · softplus(number)
    zero: Float[Array, " n"]  # added to each joint's coordinate: what its encoder is off by
    armature_scale: Float[Array, " n"]
    mass_scale: Float[Array, ""]  # typical mass and length of a link
    length_scale: Float[Array, ""]
    carried: Inertia | None  # what is fixed to each link and stays as it is; the numbers are of the rest
    form: str = eqx.field(static=True)
    decoded: Decoded = eqx.field(static=True)

    def robot(self) -> Robot:
        """The robot these numbers stand for."""
        return decode(self)


def encode(
    robot: Robot,
    inertia: str = "log-cholesky",
    nearest: bool = False,
    carried: Float[np.ndarray, "n 10"] | None = None,
) -> VirtualRobot:
    """The numbers of a robot; `decode` gives the robot back to 1e-10 of each link's largest moment.

    A link with a singular pseudo-inertia (point, rod, disc) is taken as the nearest body with extent: its second
    moments change by at most 64 roundings of their sum (1.4e-14 in float64), or of mass · length² of the robot's
    typical link if all its mass is at its origin. A link without mass gets 1e-9 of the mean mass. What a file's digits
    round off (1e-4 of the moments about the centre of mass, as in `load_robot`) is clipped away. Any other inertia that
    no body has raises, unless `nearest`.

    Armature and zero positions are decoded only where they are learned. A joint without armature then starts from 0.1 %
    of a typical inertia.

    Args:
        robot: the robot.
        inertia: the coordinates of bodies (docs/parameters.md).
        nearest: project inertias that no body has: the eigenvalues of their pseudo-inertia are clipped.
        carried: inertial parameters of bodies fixed to the links, which stay as they are: the numbers are of the rest
            of each link. Where no body is left without it, a link carries nothing.
    """
    if inertia not in FORMS:
        raise ValueError(f'inertia is "{inertia}"; use {" or ".join(FORMS)}')
    dtype, count = robot.inertia.mass.dtype, robot.num_links
    eps = float(np.finfo(dtype).eps)
    own, fixed = _apart(robot, carried)
    rows = [_numbers(robot, i, inertia, body, eps) for i, body in enumerate(bodies(own, nearest))]
    typical = scale(robot)
    rotors, rotor_scale = _rotors(robot, typical.mass, typical.length)
    steps = _steps(robot)
    angles = [matrix_rpy(turn) for turn in np.asarray(robot.placement.rotation, float)]
    every = (True,) * count
    return VirtualRobot(
        own=robot,
        inertia=jnp.asarray(np.reshape(rows, (count, 10)), dtype),
        translation=jnp.asarray(bounds.unbounded(steps, bounds.LENGTH), dtype),
        rpy=jnp.asarray(bounds.unbounded(np.reshape(angles, (count, 3)), bounds.ANGLE), dtype),
        armature=jnp.asarray(rotors, dtype),
        zero=jnp.zeros(count, dtype),
        armature_scale=jnp.asarray(rotor_scale, dtype),
        mass_scale=jnp.asarray(typical.mass, dtype),
        length_scale=jnp.asarray(typical.length, dtype),
        carried=fixed,
        form=inertia,
        decoded=Decoded(every, every, (False,) * count, (False,) * count),
    )


def _apart(robot: Robot, carried: np.ndarray | None) -> tuple[Robot, Inertia | None]:
    """The robot without what its links carry, and that; None where nothing is carried."""
    if carried is None or not np.any(carried):
        return robot, None
    total = np.asarray(robot.inertia.parameters, float)
    eps = float(np.finfo(robot.inertia.mass.dtype).eps)
    bodily = np.array([row[0] > 0 and impossible(row, eps) is None for row in total - carried], bool)
    fixed = jnp.asarray(np.where(bodily[:, None], carried, 0.0), robot.inertia.mass.dtype)
    own = replace(robot, inertia=Inertia.from_parameters(robot.inertia.parameters - fixed))
    return own, Inertia.from_parameters(fixed)


def _numbers(robot: Robot, i: int, form: str, body: Any, eps: float) -> np.ndarray:
    try:
        return numbers(form, body, eps)
    except ValueError as error:
        raise ValueError(f'robot "{robot.name}": link "{robot.link_names[i]}": {error}') from None


def _steps(robot: Robot) -> np.ndarray:
    """Translations of the placements, all within the limit."""
    steps = np.asarray(robot.placement.translation, float)
    for name, step in zip(robot.tree.joint_names, steps, strict=True):
        if not bounds.within(step, bounds.LENGTH):
            found = f"its translation is {step.tolist()}"
            raise ValueError(f'robot "{robot.name}": joint "{name}": {found}; use at most 1e+09 m')
    return steps


def _rotors(robot: Robot, mass: float, length: float) -> tuple[np.ndarray, np.ndarray]:
    """Softplus numbers of the armatures, and their scales: the file's own, since gears make rotors of any size."""
    armature = np.asarray(robot.armature, float)
    for name, rotor in zip(robot.tree.joint_names, armature, strict=True):
        if not 0 <= rotor < np.inf:
            raise ValueError(f'robot "{robot.name}": joint "{name}": its armature is {rotor:g}; use 0 or more')
    typical = _ROTOR * mass * np.where(robot.tree.revolute, length**2, 1.0)
    ratio = np.where(armature > 0, 1.0, _NO_ROTOR)
    return np.log(np.expm1(ratio)), np.where(armature > 0, armature, typical)


def decode(virtual: VirtualRobot) -> Robot:
    """The robot the numbers stand for, and everything else of it as it was; pure, differentiable, kernel-friendly.

    Args:
        virtual: the numbers, as `encode` gives them.
    """
    own, decoded = virtual.own, virtual.decoded
    placement = _rows(decoded.kinematics, own.placement, partial(_placements, virtual.rpy, virtual.translation))
    turning = tuple(own.tree.revolute.tolist())
    moved, zero = _with_followers(own, decoded.calibration, virtual.zero)
    return replace(
        own,
        inertia=_rows(decoded.inertia, own.inertia, partial(_inertias, virtual.form, virtual.inertia, virtual.carried)),
        placement=_rows(moved, placement, partial(_zeroed, turning, placement, own.axis, zero)),
        armature=_rows(decoded.armature, own.armature, partial(_armatures, virtual.armature, virtual.armature_scale)),
    )


@partial(jax.jit, static_argnums=0)
def _inertias(form: str, numbers: Float[Array, "n 10"], carried: Inertia | None) -> Inertia:
    own = jax.vmap(lambda row: inertia(FORMS[form].decode(row)))(numbers)
    return own if carried is None else own + carried


@jax.jit
def _placements(rpy: Float[Array, "n 3"], translation: Float[Array, "n 3"]) -> Transform:
    turned = jax.vmap(lambda angles: rotation(bounded(angles, bounds.ANGLE)))(rpy)
    return Transform(turned, bounded(translation, bounds.LENGTH))


def _with_followers(
    own: Robot, chosen: tuple[bool, ...], zero: Float[Array, " n"]
) -> tuple[tuple[bool, ...], Float[Array, " n"]]:
    """Zero positions with those of joints that follow: a leader that is off by z takes them along by their slope."""
    tied = own.couplings
    if tied is None or not any(chosen):
        return chosen, zero
    leaders, followers = np.array(tied.leaders, np.int32), np.array(tied.followers, np.int32)
    slopes = tied.slopes(jnp.zeros(len(followers), zero.dtype))
    led = dict(zip(tied.followers, tied.leaders, strict=True))
    moved = tuple(chosen[led.get(link, link)] for link in range(len(chosen)))
    return moved, zero.at[followers].set(slopes * zero[leaders])


@partial(jax.jit, static_argnums=0)
def _zeroed(
    turning: tuple[bool, ...], placement: Transform, axis: Float[Array, "n 3"], zero: Float[Array, " n"]
) -> Transform:
    """Placements with each joint moved by its zero, so that the coordinate it is given may be off by that."""
    moved = jax.vmap(joint_transform)(axis, np.array(turning), bounded(zero, bounds.ANGLE))
    return jax.vmap(lambda fixed, turn: fixed @ turn)(placement, moved)


@jax.jit
def _armatures(numbers: Float[Array, " n"], scale: Float[Array, " n"]) -> Float[Array, " n"]:
    return scale * jax.nn.softplus(bounded(numbers, bounds.SOFTPLUS))


def _rows(chosen: tuple[bool, ...], own: Any, compute: Callable[[], Any]) -> Any:
    """Rows of what is computed where chosen, else the robot's own."""
    which = np.array(chosen, bool)
    if not which.any():
        return own
    if which.all():
        return compute()
    return jax.tree.map(lambda a, b: jnp.where(which.reshape(-1, *[1] * (a.ndim - 1)), a, b), compute(), own)
