"""What a motion tells of a robot with a free base: six equations more, and with feet fewer by what these can do."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea import dynamics, kernels
from diffnea.excitation.information import Information, Torques, knowable
from diffnea.excitation.riding import BASE, LEAST_LOAD, RUBS, InTheAir, OnFeet, Ridden, weightless
from diffnea.identify.determine.analyse import analyse
from diffnea.identify.determine.combinations import Identifiability
from diffnea.identify.floating.linear_equations import LinearEquations
from diffnea.identify.floating.linear_rows import LinearRows, stacked
from diffnea.identify.floating.motion_columns import Beside
from diffnea.identify.problem.linearised import Linearised, Motion
from diffnea.identify.problem.residuals import Form
from diffnea.identify.problem.unknowns import Unknowns
from diffnea.models import inverse
from diffnea.robot import Robot

# A little of the contacts' own size keeps their forces unique.
LITTLE = 1e-9
# Samples that intervals are worked out from; noise counts as that of all.
ENOUGH = 400


@lru_cache(maxsize=16)
def _kernel(form: Form) -> Callable[..., tuple[Array, Array]]:
    """The wrench and the torques that a motion takes, friction included, and how they change with θ, of one sample."""

    def taken(theta, leaves, q, qd, qdd):
        model = form.model(theta, leaves)
        needed = inverse(replace(model, robot=weightless(model.robot)), q, qd, qdd)
        rubs = model.actuator(jnp.zeros_like(qd[BASE:]), q[BASE + 1 :], qd[BASE:])
        return jnp.concatenate([needed[:BASE], needed[BASE:] - rubs])

    def slopes(theta, leaves, q, qd, qdd):
        found, pull = jax.vjp(lambda theta: taken(theta, leaves, q, qd, qdd), theta)
        return found, jax.vmap(lambda unit: pull(unit)[0])(jnp.eye(len(qd), dtype=qd.dtype))

    return kernels.compile(slopes)


@dataclass(frozen=True)
class FreeInformation(Information):
    """As `Information`, of coordinates from which the base's motion follows."""

    riding: InTheAir | OnFeet

    @property
    def smooth(self) -> bool:
        """Newton's steps of legs are not differentiated."""
        return isinstance(self.riding, InTheAir)

    def torques(self, q, qd, qdd) -> Torques:
        """Slopes and torques of many samples, with what feet do taken out of the slopes."""
        ridden = self.riding(jnp.asarray(q), jnp.asarray(qd), jnp.asarray(qdd))
        leaves, structure, masks = self.free.nameless()
        function, theta = _kernel(Form.of("torque", structure, masks)), jnp.asarray(self.theta)
        states = ridden.q, ridden.qd, ridden.qdd
        needed, slopes = jax.vmap(function, (None, None, 0, 0, 0))(theta, leaves, *states)
        forces = _forces(ridden.reach[:, :, :BASE], needed[:, :BASE])
        drive = needed[:, BASE:] - jnp.einsum("tcj,tc->tj", ridden.reach[:, :, BASE:], forces)
        joints = ridden.q[:, BASE + 1 :], ridden.qd[:, BASE:], ridden.qdd[:, BASE:]
        return Torques(_projected(slopes, ridden, self.noise), drive, joints, self._slipping(ridden, forces))

    def _slipping(self, ridden: Ridden, forces: Float[Array, "time c"]) -> Float[Array, "time k"]:
        """How far feet are beyond what they can do, as a share of the weight on each; negative where all is well."""
        feet = ridden.reach.shape[1] // 3
        if not feet:
            return jnp.zeros((len(forces), 0))
        robot = self.riding.robot
        share = float(np.sum(np.asarray(robot.inertia.mass)) * np.linalg.norm(np.asarray(robot.gravity))) / feet
        each = forces.reshape(len(forces), feet, 3)
        normal = jnp.einsum("tfi,ti->tf", each, ridden.up)
        along = each - normal[:, :, None] * ridden.up[:, None]
        sideways = jnp.sqrt(jnp.sum(along**2, axis=2) + (1e-3 * share) ** 2)
        return jnp.concatenate([LEAST_LOAD - normal / share, (sideways - RUBS * normal) / (RUBS * share)], axis=1)


def _forces(reach: Float[Array, "time c 6"], wrench: Float[Array, "time 6"]) -> Float[Array, "time c"]:
    """The smallest forces of feet that bring the wrench on the base."""
    if not reach.shape[1]:
        return jnp.zeros((len(wrench), 0))
    both = jnp.einsum("tci,tcj->tij", reach, reach)
    return jnp.einsum("tci,ti->tc", reach, jnp.linalg.solve(both, wrench[:, :, None])[:, :, 0])


def _projected(slopes: Float[Array, "time v p"], ridden: Ridden, noise: Float[np.ndarray, " v"]) -> Array:
    """What forces of feet cannot reach, of rows in units of their noise."""
    if not ridden.reach.shape[1]:
        return slopes
    size = jnp.asarray(noise)
    C, rows = ridden.reach / size, slopes / size[:, None]
    both = jnp.einsum("tcv,tdv->tcd", C, C)
    little = LITTLE * jnp.trace(both, axis1=1, axis2=2)[:, None, None] * jnp.eye(both.shape[1])
    taken = jnp.einsum("tcv,tcp->tvp", C, jnp.linalg.solve(both + little, jnp.einsum("tcv,tvp->tcp", C, rows)))
    return (rows - taken) * size[:, None]


def free_information(
    free: Unknowns,
    riding: InTheAir | OnFeet,
    effort: Float[np.ndarray, " n"],
    share: float,
    states: Float[np.ndarray, "three sample k"],
) -> FreeInformation:
    """Noise of joints is a share of their effort, that of the base the same share of what its links take of it."""
    ridden = riding(*map(jnp.asarray, states))
    robot = weightless(riding.robot)
    taken = np.asarray(jax.vmap(lambda *row: _taken(robot, *row))(ridden.q, ridden.qd, ridden.qdd))
    noise = share * np.concatenate([np.sqrt(np.mean(taken**2, axis=0)) + 1e-9, effort])
    whole = FreeInformation(free, free.start, noise, np.eye(free.size), riding)
    return replace(whole, directions=knowable(whole, states))


def _taken(robot: Robot, q, qd, qdd) -> Float[Array, "6"]:
    """What the joints' accelerations alone take of the base: in free flight all of it together is nothing."""
    alone = jnp.concatenate([jnp.zeros(BASE, qdd.dtype), qdd[BASE:]])
    return dynamics.rnea(robot, q, qd, alone)[:BASE]


def free_expectation(told: FreeInformation, motion: tuple[np.ndarray, ...], dt: float, seed: int) -> Identifiability:
    """The intervals that a motion would give, by the linear theory at the given robot."""
    every = max(1, len(motion[0]) // ENOUGH)
    some = tuple(jnp.asarray(each[::every]) for each in motion)
    torques = told.torques(*some)
    equations = LinearEquations(told.free, Beside())
    slopes = np.asarray(torques.slopes)
    weight = np.tile(np.sqrt(every) / told.noise, (len(slopes), 1))
    count = np.arange(len(slopes))
    # Rows of θ itself: their slopes stand where those of φ do.
    table = np.concatenate([slopes, np.zeros((*slopes.shape[:2], 1))], axis=2)
    rows = LinearRows(table, weight, count, np.zeros(len(slopes), int), every * dt)
    _, jacobian, equation, sample, segment = stacked([rows], np.zeros(told.free.size), np.eye(told.free.size))
    drawn = np.random.default_rng(seed).normal(size=len(jacobian))
    assert torques.joints is not None
    q = np.asarray(torques.joints[0])
    driven = np.ones(q.shape[1], bool)
    return analyse(
        Linearised(
            theta=told.theta,
            jacobian=jacobian,
            residuals=drawn,
            joint=equation,
            sample=sample,
            segment=segment,
            labels=equations.labels,
            unpack=told.free.model,
            learned=told.free.learned,
            dt=every * dt,
            motion=Motion(q.min(0), q.max(0), np.zeros(q.shape[1]), driven),
        )
    )
