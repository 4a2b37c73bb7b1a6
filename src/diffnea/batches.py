"""The dynamics of a robot with any leading batch axes."""

import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, ArrayLike, Float, Real

from diffnea import dynamics, loops, manifold
from diffnea.arrays import Rows, numbers
from diffnea.batching import batched
from diffnea.robot import Robot


def forward_dynamics(
    robot: Robot,
    q: Real[ArrayLike, "*#batch nq"] | Rows,
    qd: Real[ArrayLike, "*#batch n"] | Rows,
    tau: Real[ArrayLike, "*#batch n"] | Rows,
) -> Float[Array, "*batch n"]:
    """Joint accelerations under joint torques `tau` (composite rigid body algorithm, factored along the tree).

    Args:
        robot: the robot.
        q: joint positions, with any leading batch axes.
        qd: joint velocities.
        tau: torques on the joints, N·m or N.
    """
    return batched(dynamics.forward, robot, q=q, qd=qd, tau=tau)


def inverse_dynamics(
    robot: Robot,
    q: Real[ArrayLike, "*#batch nq"] | Rows,
    qd: Real[ArrayLike, "*#batch n"] | Rows,
    qdd: Real[ArrayLike, "*#batch n"] | Rows,
) -> Float[Array, "*batch n"]:
    """The joint torques that give the accelerations `qdd` (recursive Newton-Euler algorithm).

    Args:
        robot: the robot.
        q: joint positions, with any leading batch axes.
        qd: joint velocities.
        qdd: joint accelerations.
    """
    return batched(dynamics.rnea, robot, q=q, qd=qd, qdd=qdd)


def mass_matrix(robot: Robot, q: Real[ArrayLike, "*batch nq"] | Rows) -> Float[Array, "*batch n n"]:
    """The joint-space mass matrix, armature on its diagonal (composite rigid body algorithm).

    Args:
        robot: the robot.
        q: joint positions, with any leading batch axes.
    """
    return batched(dynamics.crba, robot, q=q)


def bias_torque(
    robot: Robot, q: Real[ArrayLike, "*#batch nq"] | Rows, qd: Real[ArrayLike, "*#batch n"] | Rows
) -> Float[Array, "*batch n"]:
    """Coriolis, centrifugal and gravity torques together: `inverse_dynamics` at zero acceleration.

    Args:
        robot: the robot.
        q: joint positions, with any leading batch axes.
        qd: joint velocities.
    """
    return batched(dynamics.bias, robot, q=q, qd=qd)


def gravity_torque(robot: Robot, q: Real[ArrayLike, "*batch nq"] | Rows) -> Float[Array, "*batch n"]:
    """The torques that hold the robot still against gravity.

    Args:
        robot: the robot.
        q: joint positions, with any leading batch axes.
    """
    return batched(dynamics.holding, robot, q=q)


def coriolis_matrix(
    robot: Robot, q: Real[ArrayLike, "*#batch nq"] | Rows, qd: Real[ArrayLike, "*#batch n"] | Rows
) -> Float[Array, "*batch n n"]:
    """`C` with `C q̇` the Coriolis and centrifugal torques and `Ṁ − 2C` skew-symmetric.

    Args:
        robot: the robot.
        q: joint positions, with any leading batch axes.
        qd: joint velocities.
    """
    return batched(dynamics.christoffel, robot, q=q, qd=qd)


def energy(
    robot: Robot, q: Real[ArrayLike, "*#batch nq"] | Rows, qd: Real[ArrayLike, "*#batch n"] | Rows
) -> dynamics.Energy:
    """Kinetic and potential energy in joules, rotors included.

    Args:
        robot: the robot.
        q: joint positions, with any leading batch axes.
        qd: joint velocities.
    """
    return batched(dynamics.energies, robot, q=q, qd=qd)


def forward_kinematics(robot: Robot, q: Real[ArrayLike, "*batch nq"] | Rows) -> Float[Array, "*batch links 4 4"]:
    """World poses of the links' frames as homogeneous matrices, one a moving link.

    Args:
        robot: the robot.
        q: joint positions, with any leading batch axes.
    """
    return batched(dynamics.file_poses, robot, q=q)


def regressor(
    robot: Robot,
    q: Real[ArrayLike, "*#batch nq"] | Rows,
    qd: Real[ArrayLike, "*#batch n"] | Rows,
    qdd: Real[ArrayLike, "*#batch n"] | Rows,
) -> Float[Array, "*batch n p"]:
    """`Y` with `Y @ inertial_parameters(robot)` the torques of the links; rotors add `armature · qdd`.

    Args:
        robot: the robot.
        q: joint positions, with any leading batch axes.
        qd: joint velocities.
        qdd: joint accelerations.
    """
    return batched(dynamics.rnea_jacobian, robot, q=q, qd=qd, qdd=qdd)


def integrate(
    robot: Robot,
    q: Real[ArrayLike, "*#batch nq"] | Rows,
    qd: Real[ArrayLike, "*#batch n"] | Rows,
    dt: Real[ArrayLike, ""],
) -> Float[Array, "*batch nq"]:
    """Where `q` gets in `dt` seconds at constant velocities `qd`; quaternions come out with length one.

    Args:
        robot: the robot.
        q: joint positions, with any leading batch axes.
        qd: joint velocities.
        dt: seconds.
    """
    return batched(manifold.displace, robot, q=q, step=numbers("qd", qd) * jnp.asarray(dt))


def difference(
    robot: Robot, q0: Real[ArrayLike, "*#batch nq"] | Rows, q1: Real[ArrayLike, "*#batch nq"] | Rows
) -> Float[Array, "*batch n"]:
    """The constant velocities that lead from `q0` to `q1` in one second, turning the shorter way.

    Args:
        robot: the robot.
        q0: where it begins, with any leading batch axes.
        q1: where it ends.
    """
    return batched(manifold.difference, robot, q0=q0, q1=q1)


# Newton's method from near by doubles its digits at each step; from afar it may need more, and shorter ones.
CLOSING_STEPS, CLOSED, SHARES = 50, 1e-13, (1.0, 0.5, 0.2, 0.05)


def close_loops(
    robot: Robot, q: Real[ArrayLike, "*#batch nq"] | Rows, qd: Real[ArrayLike, "*#batch n"] | Rows | None = None
) -> Float[Array, "*batch nq"] | tuple[Float[Array, "*batch nq"], Float[Array, "*batch n"]]:
    """A `q` near by with all loops closed; with `qd` a pair, and velocities that keep them so.

    Newton's method along the shortest steps by the mass matrix. A robot without loops keeps what it is given.

    Args:
        robot: the robot.
        q: joint positions, with any leading batch axes.
        qd: joint velocities, or None.
    """
    place, speed = numbers("q", q), None if qd is None else numbers("qd", qd)
    if robot.loops is None:
        return place if speed is None else (place, speed)
    still = jnp.zeros(robot.num_velocities, place.dtype)
    for _ in range(CLOSING_STEPS):
        near = batched(dynamics.projected, robot, q=place, qd=still)[0]
        step = difference(robot, place, near)
        tried = jnp.stack([integrate(robot, place, step, share) for share in SHARES])
        left = jnp.max(jnp.abs(batched(loops.gap, robot, q=tried)), axis=-1)
        best = jnp.argmin(left, axis=0)
        place = jnp.take_along_axis(tried, best[None, ..., None], axis=0)[0]
        if not isinstance(left, Tracer) and float(jnp.abs(step).max()) < CLOSED:
            break
    return place if speed is None else (place, batched(dynamics.projected, robot, q=place, qd=speed)[1])


def inertial_parameters(robot: Robot) -> Float[Array, " p"]:
    """Ten numbers a link: m, m·c, then J's xx, xy, yy, xz, yz, zz at the link's origin in the link's axes.

    Args:
        robot: the robot.
    """
    return robot.inertia.parameters.reshape(-1)
