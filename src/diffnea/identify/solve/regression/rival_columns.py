"""Columns of what would explain a record otherwise: joints placed elsewhere or that bend, friction that changes.

Friction that changes does so by the course of each recording. The other two move the states that bodies see, and
torques follow to first order. Where a motor turns its link through a spring k, the link lags by the spring's torque
over k. That torque is the motor's, less what its rotor and its friction take: four signals, of which the regression
finds the sizes, each moves the link with its two derivatives.
"""

from collections.abc import Iterator
from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from diffnea import batches
from diffnea.identify.problem.measurements.noise import drawn_noise, is_noisy
from diffnea.identify.solve.regression.columns import FILE_WIDTH, More
from diffnea.identify.solve.regression.pieces import Piece
from diffnea.parameters.bodies import scale
from diffnea.recordings.signal.smoothing import low_pass_gain
from diffnea.recordings.signal.terms import WIDER
from diffnea.robot import Robot

# Names of these columns; bending with its joint's number.
PLACED, BENDING, DRIFTING, READ_NOISE = "placement", "bending", "drifting", "noise"
# Placements move by this share of their expected change, and states by this, to see what torques do.
SMALL_MOVE = 1e-6
# Differences of fourth order: weights of two samples before to two after, of the first and of the second derivative.
FIRST_DIFFERENCE, SECOND_DIFFERENCE = np.array([1, -8, 0, 8, -1]) / 12, np.array([-1, 16, -30, 16, -1]) / 12

_inverse = eqx.filter_jit(batches.inverse_dynamics)  # traced, so that one kernel serves every placement


def rival_columns(driven: Bool[np.ndarray, " n"], late: int) -> More:
    """Of all joints' placements, of each driven joint's bending, commands late by so many samples, of friction that
    grows or falls in the course of each recording, and of noise."""

    def more(robot: Robot, piece: Piece) -> dict[str, np.ndarray]:
        found = {READ_NOISE: _noise(robot, piece), DRIFTING: _drifting(piece)}
        if moves(robot):
            found[PLACED] = _placements(robot, piece)
        for j in np.flatnonzero(driven) if piece.rows.low_pass is not None else ():  # clear of reversals
            found[bending(int(j))] = _bending(robot, piece, int(j), late)
        return found

    return more


def bending(joint: int) -> str:
    """The name of the columns of a joint that bends."""
    return f"{BENDING} {joint}"


def moves(robot: Robot) -> list[tuple[int, str]]:
    """What each column of placements moves: the joint, and "m" or "rad"; joints at the base have nothing to be off."""
    inner = [j for j, parent in enumerate(robot.tree.parents) if parent >= 0]
    return [(j, unit) for j in inner for unit in ("m", "m", "m", "rad", "rad", "rad")]


def expected_move(robot: Robot, unit: str) -> float:
    """As far as files are off, one unit of a column of placements: a share of a link's length, or of a radian."""
    return FILE_WIDTH * (scale(robot).length if unit == "m" else 1.0)


# How -------------------------------------------------------------------------------------------------------------


def _placements(robot: Robot, piece: Piece) -> Float[np.ndarray, "sample n k"]:
    states = [jnp.asarray(getattr(piece.batch, key)) for key in ("q", "qd", "qdd")]
    here = np.asarray(_inverse(robot, *states))
    found = [(np.asarray(_inverse(moved, *states)) - here) / SMALL_MOVE for moved in _moved(robot)]
    return np.stack(found, axis=2)


def _moved(robot: Robot) -> Iterator[Robot]:
    """The robot with each placement a little moved."""
    place, rotation = robot.placement, np.asarray(robot.placement.rotation, float)
    for column, (j, unit) in enumerate(moves(robot)):
        axis, step = column % 3, SMALL_MOVE * expected_move(robot, unit)
        if unit == "m":
            yield replace(robot, placement=replace(place, translation=place.translation.at[j, axis].add(step)))
        else:
            turned = jnp.asarray(place.rotation).at[j].set(rotation[j] @ _turn(axis, step))
            yield replace(robot, placement=replace(place, rotation=turned))


def _turn(axis: int, angle: float) -> Float[np.ndarray, "3 3"]:
    """A small turn about x, y or z."""
    one, other = (axis + 1) % 3, (axis + 2) % 3
    found = np.eye(3)
    found[[one, other], [one, other]] = np.cos(angle)
    found[other, one], found[one, other] = np.sin(angle), -np.sin(angle)
    return found


def _drifting(piece: Piece) -> Float[np.ndarray, "sample n two_n"]:
    """Each joint's dry and viscous friction, by the course."""
    each = np.eye(piece.batch.q.shape[1])
    rubs = [
        piece.course[:, None, None] * signal[:, :, None] * each for signal in (piece.batch.joints_way, piece.batch.qd)
    ]
    return np.concatenate(rubs, axis=2)


def _bending(robot: Robot, piece: Piece, joint: int, late: int) -> Float[np.ndarray, "sample n 4"]:
    """What the spring's torque, of motor, rotor, viscous and dry friction, does to all torques by moving the link."""
    batch, n = piece.batch, robot.num_joints
    torque = np.stack([batch.u[:, late], batch.qdd, batch.qd, batch.joints_way])[:, :, joint]
    each, links = np.eye(n)[joint], replace(robot, armature=jnp.zeros_like(robot.armature))
    return np.stack([_displaced(links, piece, np.outer(-one, each)) for one in torque], axis=2)


def _displaced(robot: Robot, piece: Piece, by: Float[np.ndarray, "sample n"]) -> Float[np.ndarray, "sample n"]:
    """How torques change where all positions are moved so far, with the rates of that, up to what is compared."""
    assert piece.dt is not None
    by = _smooth(by, piece)
    rates = (
        by,
        _difference(by, piece.segment, FIRST_DIFFERENCE) / piece.dt,
        _difference(by, piece.segment, SECOND_DIFFERENCE) / piece.dt**2,
    )
    return _changed(robot, piece, rates, SMALL_MOVE / max(float(by.std()), 1e-300))


def _changed(robot: Robot, piece: Piece, moves: tuple[np.ndarray, ...], step: float) -> Float[np.ndarray, "sample n"]:
    states = [np.asarray(getattr(piece.batch, key)) for key in ("q", "qd", "qdd")]
    here, there = (
        np.asarray(
            _inverse(robot, *(jnp.asarray(state + size * move) for state, move in zip(states, moves, strict=True)))
        )
        for size in (0.0, step)
    )
    return (there - here) / step


def _smooth(values: Float[np.ndarray, "sample n"], piece: Piece) -> Float[np.ndarray, "sample n"]:
    """Without what is above any frequency that is compared, each recording mirrored at its ends."""
    found, corner = values.copy(), piece.rows.wide / WIDER
    for k in np.unique(piece.segment) if 0 < corner < np.pi else ():
        here = piece.segment == k
        count, whole = int(here.sum()), np.concatenate([values[here][::-1], values[here], values[here][::-1]])
        gain = low_pass_gain(2 * np.pi * np.fft.rfftfreq(len(whole)), corner)
        found[here] = np.fft.irfft(np.fft.rfft(whole, axis=0) * gain[:, None], len(whole), axis=0)[count : 2 * count]
    return found


def _difference(
    values: Float[np.ndarray, "sample n"], segment: Int[np.ndarray, " sample"], weights: Float[np.ndarray, "5"]
) -> Float[np.ndarray, "sample n"]:
    """A derivative, sample by sample, within each recording."""
    found = np.zeros_like(values)
    for k in np.unique(segment):
        here = segment == k
        padded = np.pad(values[here], ((2, 2), (0, 0)), "edge")
        found[here] = sum(w * padded[i : i + int(here.sum())] for i, w in enumerate(weights))
    return found


def _noise(robot: Robot, piece: Piece) -> Float[np.ndarray, "sample n 1"]:
    """What noise as that of the readings makes of the file's torques."""
    if not is_noisy(piece.rows):
        return np.zeros((*np.shape(piece.batch.q), 1))
    noise = drawn_noise(piece.rows, len(piece.batch.q), 0)
    return _changed(robot, piece, noise, 1.0)[:, :, None]
