"""The ten numbers of a payload: between frames, as a body, as mass, centre and inertia with intervals, as a table."""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea.actuators import AbstractActuator, Combined, for_robot
from diffnea.identify.determine.findings import Knowledge
from diffnea.identify.determine.table import Row, Table
from diffnea.identify.notes import Note, note
from diffnea.identify.payload import Estimate, Payload
from diffnea.identify.request import Request
from diffnea.robot import Robot
from diffnea.spatial import Inertia

# Friction of the earlier model may have changed by this share, and by this share of a joint's usual torque.
FRICTION_SHARE, FRICTION_LEAST = 0.1, 0.02
# A payload is no larger than this, in metres: its second moments are expected within mass times the square.
REACH = 0.3
# The earlier model was estimated from such data too, and is off by as much: twice the variance.
EARLIER = np.sqrt(2)
_SECOND = np.array([[0, 1, 3], [1, 2, 4], [3, 4, 5]])  # where xx, xy, yy, xz, yz, zz stand in a symmetric matrix
_AXES = ("xx", "xy", "yy", "xz", "yz", "zz")


class Solved(NamedTuple):
    """The ten numbers in the frame of the payload, their covariance, and the quantile of intervals."""

    body: Float[np.ndarray, "10"]
    covariance: Float[np.ndarray, "10 10"]
    loss: float
    quantile: float = 1.96


def friction(request: Request, robot: Robot) -> AbstractActuator:
    """As given, or as the file has it; by default the file's damping and dry friction."""
    if isinstance(request.actuator, AbstractActuator):
        return request.actuator
    if request.actuator != "auto":
        return for_robot(request.actuator, robot, key=jax.random.key(request.seed))
    has = bool(np.any(np.asarray(robot.friction) > 0)), bool(np.any(np.asarray(robot.damping) > 0))
    name = {(True, True): "viscous+coulomb", (True, False): "coulomb", (False, True): "viscous"}.get(has, "ideal")
    return for_robot(name, robot)


def widths(actuator: AbstractActuator, usual: Float[np.ndarray, " n"]) -> Float[np.ndarray, " k"]:
    """How far viscous and dry friction may have changed since the earlier model."""
    parts = actuator.parts if isinstance(actuator, Combined) else (actuator,)
    still = jnp.zeros(len(usual))
    found = [part.resistance(still, still + 1.0) for part in parts]
    sizes = [sum(np.asarray(getattr(each, name), float) for each in found) for name in ("viscous", "dry")]
    known = any(np.any(size > 0) for size in sizes)
    share = FRICTION_SHARE if known else 1.0  # a model without friction says nothing of it
    least = FRICTION_LEAST if known else 1.0
    return np.concatenate([np.maximum(share * np.broadcast_to(size, usual.shape), least * usual) for size in sizes])


def expected(body: Float[np.ndarray, "10"]) -> Float[np.ndarray, "10"]:
    """Precisions: a payload has no more extent than `REACH`."""
    size = max(abs(float(body[0])), 1e-3)
    return np.concatenate([np.zeros(1), np.full(3, 1 / (size * REACH) ** 2), np.full(6, 1 / (size * REACH**2) ** 2)])


def moved(pose: Float[np.ndarray, "4 4"]) -> Float[np.ndarray, "10 10"]:
    """Inertial parameters in a frame → those in the frame it is placed in: `T P Tᵀ` of pseudo-inertias, as a matrix."""
    return np.stack([_parameters(pose @ _pseudo(unit) @ pose.T) for unit in np.eye(10)], axis=1)


def _pseudo(body: Float[np.ndarray, "10"]) -> Float[np.ndarray, "4 4"]:
    inertia = body[4:][_SECOND]
    second = np.trace(inertia) / 2 * np.eye(3) - inertia
    return np.block([[second, body[1:4, None]], [body[None, 1:4], body[None, :1]]])


def _parameters(pseudo: Float[np.ndarray, "4 4"]) -> Float[np.ndarray, "10"]:
    second = pseudo[:3, :3]
    inertia = np.trace(second) * np.eye(3) - second
    return np.concatenate([pseudo[3, 3:], pseudo[:3, 3], inertia[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]])


def nearest_body(numbers: Float[np.ndarray, "10"]) -> Float[np.ndarray, "10"]:
    """The same mass and centre, and the nearest second moments about it that a body can have."""
    mass = max(float(numbers[0]), 1e-6)
    centre = numbers[1:4] / mass
    pseudo = _pseudo(numbers)
    values, axes = np.linalg.eigh(pseudo[:3, :3] - mass * np.outer(centre, centre))
    second = (axes * np.maximum(values, 1e-6 * mass * REACH**2)) @ axes.T + mass * np.outer(centre, centre)
    return _parameters(np.block([[second, mass * centre[:, None]], [mass * centre[None], np.array([[mass]])]]))


def payload_of(solved: Solved, frame: str) -> Payload:
    """Mass, centre and inertia about it, with intervals by the delta method."""
    value, slopes = _central(solved.body), np.zeros((10, 10))
    step = np.maximum(1e-6 * np.abs(solved.body), 1e-9)
    for k in range(10):
        up, down = (_central(solved.body + sign * step[k] * np.eye(10)[k]) for sign in (1, -1))
        slopes[:, k] = (up - down) / (2 * step[k])
    half = EARLIER * solved.quantile * np.sqrt(np.maximum(np.diagonal(slopes @ solved.covariance @ slopes.T), 0.0))
    low, high = value - half, value + half
    parts = [Estimate(value[which], low[which], high[which]) for which in (0, slice(1, 4), slice(4, 10))]
    return Payload(*parts, frame=frame)


def _central(body: Float[np.ndarray, "10"]) -> Float[np.ndarray, "10"]:
    mass = body[0]
    centre = body[1:4] / mass
    inertia = body[4:][_SECOND] - mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    return np.concatenate([[mass], centre, inertia[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]])


def loaded(robot: Robot, body: Float[np.ndarray, "10"], link: int = -1) -> Robot:
    """The robot with the body on a link, in that link's frame."""
    total = np.array(robot.inertia.parameters, float)
    total[link] += body
    return replace(robot, inertia=Inertia.from_parameters(jnp.asarray(total)))


def findings(payload: Payload, quantile: float = 1.96) -> Knowledge:
    """Its numbers as the table of a fit."""
    names = ("mass [kg]", *(f"centre {axis} [m]" for axis in "xyz"), *(f"inertia {each} [kg·m²]" for each in _AXES))
    parts = (payload.mass, payload.com, payload.inertia)
    values, highs = (np.concatenate([np.ravel(getattr(each, key)) for each in parts]) for key in ("value", "upper"))
    rows = []
    for k, (name, value, high) in enumerate(zip(names, values.tolist(), highs.tolist(), strict=True)):
        what, unit = name.split(" [")
        known = bool(high - value < (REACH / 10 if 1 <= k < 4 else abs(value)))  # else the interval says nothing
        std = (high - value) / (EARLIER * quantile) if known else None
        rows.append(Row(f"payload {what}", unit.rstrip("]"), 0.0, value, std, known))
    return Knowledge(Table(tuple(rows)), (), ())


def lightness(payload: Payload) -> list[Note]:
    """What is said where there may be no payload at all."""
    if payload.mass.lower > 0:
        return []
    return [note("payload-none", mass=float(payload.mass), upper=float(payload.mass.upper))]
