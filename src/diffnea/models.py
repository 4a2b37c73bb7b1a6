"""What predicts accelerations: a robot with actuators, or a plain network."""

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, Real

from diffnea import batching, dynamics, manifold
from diffnea.actuators import AbstractActuator, EnergyClass, Ideal, for_robot
from diffnea.actuators.networks import Network
from diffnea.actuators.on_joints import on_joints
from diffnea.arrays import Rows, numbers
from diffnea.batching import batched, check_lengths, in_any_frames
from diffnea.contact import Table
from diffnea.robot import Robot, require_single


class Linearised(NamedTuple):
    """`A = ∂f/∂x` and `B = ∂f/∂u` at a point."""

    A: Float[Array, "*batch m m"]
    B: Float[Array, "*batch m n"]


class AbstractModel(eqx.Module):
    """Predicts joint accelerations from positions, velocities and commands."""

    @property
    @abstractmethod
    def num_joints(self) -> int:
        """How many joints move."""

    @property
    def num_positions(self) -> int:
        """How long q is: a number a joint, and more for balls and free links."""
        return self.num_joints

    @property
    def num_velocities(self) -> int:
        """How long qd is."""
        return self.num_joints

    def displace(self, q: Float[Array, " nq"], step: Float[Array, " n"]) -> Float[Array, " nq"]:
        """`q ⊕ step`: where small or large steps of the velocities' kind lead."""
        return q + step

    def difference(self, q0: Float[Array, " nq"], q1: Float[Array, " nq"]) -> Float[Array, " n"]:
        """`q1 ⊖ q0`: the step that leads from one to the other."""
        return q1 - q0

    def rate(self, step: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, " n"]:
        """How a step from a place changes, where the velocities at its end are q̇."""
        return qd

    def close(self, q: Float[Array, " nq"], qd: Float[Array, " n"]) -> tuple[Float[Array, " nq"], Float[Array, " n"]]:
        """The state brought back to where loops are closed, after a step that left them open by a little."""
        return q, qd

    @property
    @abstractmethod
    def energy_class(self) -> EnergyClass:
        """What is known of the model's own energy without command."""

    @abstractmethod
    def predict(self, q: Float[Array, " nq"], qd: Float[Array, " n"], u: Float[Array, " joints"]) -> Float[Array, " n"]:
        """Joint accelerations of one sample."""

    def __call__(
        self,
        q: Real[ArrayLike, "*#batch nq"] | Rows,
        qd: Real[ArrayLike, "*#batch n"] | Rows,
        u: Real[ArrayLike, "*#batch joints"] | Rows,
    ) -> Float[Array, "*batch n"]:
        """Joint accelerations under the commands `u`."""
        return batched(acceleration, self, q=q, qd=qd, u=u)

    def step(
        self,
        q: Real[ArrayLike, "*#batch nq"] | Rows,
        qd: Real[ArrayLike, "*#batch n"] | Rows,
        u: Real[ArrayLike, "*#batch joints"] | Rows,
        dt: Real[ArrayLike, ""],
    ) -> tuple[Float[Array, "*batch n"], Float[Array, "*batch n"]]:
        """The next state: one step of `rollout` with its energy guarantee.

        Args:
            q: joint positions, with any leading batch axes.
            qd: joint velocities.
            u: the command, held over the step; an input delay is not in it, it needs the commands before.
            dt: the step in seconds.

        Returns:
            (q, qd) after the step.
        """
        from diffnea.simulate import step

        after = step(self, q, qd, u, dt)
        return after[0], after[1]

    def linearise(
        self,
        q: Real[ArrayLike, "*#batch nq"] | Rows,
        qd: Real[ArrayLike, "*#batch n"] | Rows,
        u: Real[ArrayLike, "*#batch joints"] | Rows,
        dt: float | None = None,
    ) -> "Linearised":
        """How the state x = (q, q̇) answers small changes about a point, for linear control.

        Args:
            q: joint positions, with any leading batch axes.
            qd: joint velocities.
            u: the command.
            dt: None for the differential equation, `ẋ ≈ f + A δx + B δu`; or a step in seconds, for `step`:
                `x⁺ ≈ f + A δx + B δu`.

        Returns:
            (A, B), of shapes (2n, 2n) and (2n, num_joints) behind the batch axes, n = num_velocities; balls and free
            links by small steps from q, as `difference` has them.
        """
        q, qd, u = (numbers(name, value).astype(float) for name, value in (("q", q), ("qd", qd), ("u", u)))
        check_lengths(self, {"q": q.shape, "qd": qd.shape, "u": u.shape})
        batch = np.broadcast_shapes(*(x.shape[:-1] for x in (q, qd, u)))
        rows = [jnp.broadcast_to(x, (*batch, x.shape[-1])) for x in (q, qd, u)]
        return Linearised(*jnp.vectorize(partial(self._slopes, dt), signature="(p),(v),(u)->(m,m),(m,u)")(*rows))

    def _slopes(
        self, dt: float | None, q: Float[Array, " nq"], qd: Float[Array, " n"], u: Float[Array, " joints"]
    ) -> tuple[Float[Array, "m m"], Float[Array, "m joints"]]:
        """`linearise` of one sample."""

        def change(moved, qd, u):
            at = self.displace(q, moved)
            if dt is None:
                return jnp.concatenate([self.rate(moved, qd), self(at, qd, u)])
            after, speed = self.step(at, qd, u, dt)
            return jnp.concatenate([self.difference(q, after), speed])

        by_q, by_qd, by_u = jax.jacfwd(change, (0, 1, 2))(jnp.zeros_like(qd), qd, u)
        return jnp.concatenate([by_q, by_qd], axis=1), by_u


@final
class Model(AbstractModel):
    """A robot and the actuators that drive it: `q̈ = forward dynamics under actuator(u, q, q̇)`.

    With `contact` the robot may touch a table.
    """

    robot: Robot
    actuator: AbstractActuator
    contact: Table | None

    def __init__(self, robot: Robot, actuator: AbstractActuator | str | None = None, contact: Table | None = None):
        """A model of a robot.

        Args:
            robot: the robot, as from `load_robot`.
            actuator: how commands become torques: an actuator, its name as for `actuators.make` (networks then start
                from seed 0), or None, where the command is the torque.
            contact: a table that the robot may touch.
        """
        if not isinstance(robot, Robot):
            raise TypeError(f"Model: robot is a {type(robot).__name__}; give a Robot, as load_robot reads it")
        if isinstance(actuator, str):
            actuator = for_robot(actuator, robot, key=jax.random.key(0))
        if not (actuator is None or isinstance(actuator, AbstractActuator)):
            raise TypeError(f"Model: actuator is a {type(actuator).__name__}; give a name or an actuator")
        self.robot, self.contact = robot, contact
        self.actuator = Ideal(robot.num_joints) if actuator is None else actuator
        if self.actuator.num_joints != robot.num_joints:
            raise ValueError(
                f'Model: the actuator is for {self.actuator.num_joints} joints, robot "{robot.name}" has '
                f"{robot.num_joints}; make both for the same"
            )
        if self.actuator.loop is not None:
            require_single(robot, "Model: a servo")

    @property
    def num_joints(self) -> int:
        return self.robot.num_joints

    @property
    def num_positions(self) -> int:
        return self.robot.num_positions

    @property
    def num_velocities(self) -> int:
        return self.robot.num_velocities

    @property
    def energy_class(self) -> EnergyClass:
        own = self.actuator.energy_class  # a robot by itself conserves energy
        return "unbounded" if self.robot.loops is not None and own != "conserving" else own

    def predict(self, q: Float[Array, " nq"], qd: Float[Array, " n"], u: Float[Array, " joints"]) -> Float[Array, " n"]:
        return constrained(self, q, qd, torques(self, q, qd, u), jnp.ones_like(qd))

    @property
    def forces(self) -> AbstractActuator:
        """The actuator as q and q̇ of the whole robot ask for it, balls and free links included."""
        return on_joints(self.actuator, self.robot)

    def displace(self, q: Float[Array, " nq"], step: Float[Array, " n"]) -> Float[Array, " nq"]:
        return manifold.displace(self.robot, q, step)

    def difference(self, q0: Float[Array, " nq"], q1: Float[Array, " nq"]) -> Float[Array, " n"]:
        return manifold.difference(self.robot, q0, q1)

    def rate(self, step: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, " n"]:
        return manifold.rate(self.robot, step, qd)

    def close(self, q: Float[Array, " nq"], qd: Float[Array, " n"]) -> tuple[Float[Array, " nq"], Float[Array, " n"]]:
        return (q, qd) if self.robot.loops is None else dynamics.projected(self.robot, q, qd)

    def inverse_dynamics(
        self,
        q: Real[ArrayLike, "*#batch nq"] | Rows,
        qd: Real[ArrayLike, "*#batch n"] | Rows,
        qdd: Real[ArrayLike, "*#batch n"] | Rows,
    ) -> Float[Array, "*batch n"]:
        """The command that gives the accelerations `qdd`: `model(q, qd, model.inverse_dynamics(q, qd, qdd)) == qdd`.

        Joints that no command reaches get 0; beyond saturation, and of networks, it is the nearest that Newton's method
        finds.

        Args:
            q: joint positions, with any leading batch axes.
            qd: joint velocities.
            qdd: joint accelerations.
        """
        return batched(command, self, q=q, qd=qd, qdd=qdd)

    def energy(
        self,
        q: Real[ArrayLike, "*#batch nq"] | Rows,
        qd: Real[ArrayLike, "*#batch n"] | Rows,
        u: Real[ArrayLike, "*#batch joints"] | Rows | None = None,
    ) -> Float[Array, "*batch"]:
        """The model's own energy in joules: kinetic and potential, and what its actuators store.

        Args:
            q: joint positions, with any leading batch axes.
            qd: joint velocities.
            u: goals of servos, where what is stored between them and the positions counts too.
        """
        if u is None:
            return batched(own_energy, self, q=q, qd=qd)
        return batched(held_energy, self, q=q, qd=qd, u=u)


@final
class FeedForward(AbstractModel):
    """A plain network from (q, q̇, u) to q̈; what goes in and comes out is normalised, by numbers that are not learned.

    Joints that turn without end (`wraps`) enter by sine and cosine, so that whole turns change nothing.
    """

    network: Network
    input_mean: Float[Array, " k"]
    input_scale: Float[Array, " k"]
    output_mean: Float[Array, " n"]
    output_scale: Float[Array, " n"]
    wraps: tuple[bool, ...] = eqx.field(static=True)

    @classmethod
    def for_samples(
        cls,
        q: Float[ArrayLike, "sample n"] | Rows,
        qd: Float[ArrayLike, "sample n"] | Rows,
        u: Float[ArrayLike, "sample n"] | Rows,
        qdd: Float[ArrayLike, "sample n"] | Rows,
        key: PRNGKeyArray,
        wraps: Sequence[bool] | np.ndarray | None = None,
        width: int = 32,
        depth: int = 2,
    ) -> "FeedForward":
        """A new network with the statistics of these samples.

        Args:
            q: joint positions, one row a sample.
            qd: joint velocities.
            u: the commands.
            qdd: joint accelerations.
            key: of the random weights, as `jax.random.key(0)`.
            wraps: which joints turn without end; None: none.
            width: units of a layer.
            depth: hidden layers.
        """
        q, qd, u, qdd = (jnp.asarray(array, dtype=float) for array in (q, qd, u, qdd))
        turns = _truths(wraps, q.shape[-1])
        inputs = jax.vmap(lambda *sample: _inputs(turns, *sample))(q, qd, u)
        network = Network.random(key, inputs.shape[-1], q.shape[-1], width, depth)
        return cls(network, *_statistics(inputs), *_statistics(qdd), turns)

    @property
    def num_joints(self) -> int:
        return len(self.wraps)

    @property
    def energy_class(self) -> EnergyClass:
        return "unbounded"

    def predict(self, q: Float[Array, " nq"], qd: Float[Array, " n"], u: Float[Array, " joints"]) -> Float[Array, " n"]:
        fixed = (self.input_mean, self.input_scale, self.output_mean, self.output_scale)
        input_mean, input_scale, output_mean, output_scale = map(_constant, fixed)
        normal = (_inputs(self.wraps, q, qd, u) - input_mean) / input_scale
        return output_mean + output_scale * self.network(normal)

    def learned(self) -> "FeedForward":
        """Which leaves are learned: True for the network, False for the statistics."""
        off = jax.tree.map(lambda _: False, self)
        return eqx.tree_at(lambda model: model.network, off, jax.tree.map(lambda _: True, self.network))


@jax.custom_jvp
def _constant(x: Float[Array, " k"]) -> Float[Array, " k"]:
    """What no gradient reaches; `stop_gradient` is a primitive that kernels do not have."""
    return x


_constant.defjvp(lambda primals, tangents: (primals[0], jnp.zeros_like(primals[0])))


def unlimited(robot: Robot) -> tuple[bool, ...]:
    """Which joints turn without end: continuous ones, and revolute ones without limits."""
    limits, kinds = robot.joint_limits, np.array(robot.tree.kinds)[robot.joint_links].tolist()
    free = np.isinf(np.asarray(limits.lower)) & np.isinf(np.asarray(limits.upper))
    return tuple(
        kind == "continuous" or (kind == "revolute" and bool(open_)) for kind, open_ in zip(kinds, free, strict=True)
    )


def _truths(wraps: Sequence[bool] | np.ndarray | None, count: int) -> tuple[bool, ...]:
    truths = (False,) * count if wraps is None else tuple(bool(truth) for truth in wraps)
    if len(truths) != count:
        raise ValueError(f"wraps has {len(truths)} entries; give {count}, one a joint")
    return truths


def _inputs(
    wraps: tuple[bool, ...], q: Float[Array, " nq"], qd: Float[Array, " n"], u: Float[Array, " joints"]
) -> Float[Array, " k"]:
    turning, others = np.flatnonzero(wraps), np.flatnonzero(np.logical_not(wraps))
    return jnp.concatenate([jnp.sin(q[turning]), jnp.cos(q[turning]), q[others], qd, u])


def _statistics(rows: Float[Array, "sample k"]) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """Mean and spread of each column; a column that does not vary, as a passive joint's command, is left as it is."""
    mean, spread = jnp.mean(rows, 0), jnp.std(rows, 0)
    return mean, jnp.where(spread > 1e-6 * (1e-6 + jnp.abs(mean)), spread, jnp.ones_like(spread))


@in_any_frames
def acceleration(
    model: AbstractModel, q: Float[Array, " nq"], qd: Float[Array, " n"], u: Float[Array, " joints"]
) -> Float[Array, " n"]:
    """Joint accelerations of one sample."""
    return model.predict(q, qd, u)


def in_canonical_frames(model: Any, dtype: Any) -> Any:
    """The model with its robot in canonical form, for motions alone; None if it has none, or touches a table."""
    frames_matter = isinstance(model, Model) and model.contact is not None
    return None if frames_matter else batching.in_canonical_frames(model, dtype)


# Commands are mostly a straight line to torques, where the first step arrives; saturation and networks take more.
NEWTON_STEPS = 4


def command(
    model: Model, q: Float[Array, " nq"], qd: Float[Array, " n"], qdd: Float[Array, " n"]
) -> Float[Array, " n"]:
    """The command of one sample that brings the torques of a motion, joint by joint (Newton's method)."""
    single = [part.v.start for part in manifold.parts(model.robot) if part.kind == "single"]
    driven = np.array(single, np.int32)  # all of q̇ but balls and free links
    wanted, u = inverse(model, q, qd, qdd)[driven], jnp.zeros(model.num_joints, q.dtype)
    for _ in range(NEWTON_STEPS):
        torque, slope = jax.jvp(lambda u: torques(model, q, qd, u)[driven], (u,), (jnp.ones_like(u),))
        reached = slope != 0
        u = u + jnp.where(reached, wanted - torque, 0.0) / jnp.where(reached, slope, 1.0)
    return u


def torques(
    model: Model, q: Float[Array, " nq"], qd: Float[Array, " n"], u: Float[Array, " joints"]
) -> Float[Array, " n"]:
    """The torques on the joints: of actuators, of friction that grows with load, and of a table that is touched."""
    tau, table = model.forces(u, q, qd), model.contact
    if table is not None:
        tau = tau - jax.grad(lambda step: table.potential(model.robot, model.displace(q, step)))(jnp.zeros_like(qd))
    if not model.forces.grows_with_load:
        return tau
    outside = -dynamics.bias(model.robot, q, qd)
    return tau - model.forces.loaded(model.forces.drive(u, q, qd), outside, qd) * jnp.sign(qd)


def own_energy(model: Model, q: Float[Array, " nq"], qd: Float[Array, " n"]) -> Float[Array, ""]:
    """The model's own energy of one sample."""
    kinetic, potential = energies(model, q, qd)
    return kinetic + potential


def held_energies(
    model: Model, q: Float[Array, " n"], qd: Float[Array, " n"], u: Float[Array, " n"]
) -> dynamics.Energy:
    """Kinetic and potential energy, with what servos store between held goals and positions."""
    kinetic, potential = energies(model, q, qd)
    loop = model.actuator.loop
    return dynamics.Energy(kinetic, potential if loop is None else potential + loop.energy(u - q))


def held_energy(model: Model, q: Float[Array, " n"], qd: Float[Array, " n"], u: Float[Array, " n"]) -> Float[Array, ""]:
    """The model's energy of one sample under held goals."""
    kinetic, potential = held_energies(model, q, qd, u)
    return kinetic + potential


# A robot's dynamics with the rotors of its actuators, which may turn with several joints: M + Sᵀ J S ------------------


def inverse(
    model: Model, q: Float[Array, " nq"], qd: Float[Array, " n"], qdd: Float[Array, " n"]
) -> Float[Array, " n"]:
    """The torques that a motion takes."""
    taken = dynamics.rnea(model.robot, q, qd, qdd)
    if not model.forces.turning:
        return taken
    turns = _turns(model, q)
    return taken + turns.T @ (model.forces.rotors * (turns @ qdd))


def mass(model: Model, q: Float[Array, " nq"]) -> Float[Array, "n n"]:
    """The mass matrix."""
    if not model.forces.turning:
        return dynamics.crba(model.robot, q)
    turns = _turns(model, q)
    return dynamics.crba(model.robot, q) + turns.T @ (model.forces.rotors[:, None] * turns)


def energies(model: Model, q: Float[Array, " nq"], qd: Float[Array, " n"]) -> dynamics.Energy:
    """Kinetic energy, and potential energy with what the actuators store."""
    kinetic, potential = dynamics.energies(model.robot, q, qd)
    if model.forces.turning:
        kinetic = kinetic + jnp.sum(model.forces.rotors * (_turns(model, q) @ qd) ** 2) / 2
    if model.contact is not None:
        potential = potential + model.contact.potential(model.robot, q)
    return dynamics.Energy(kinetic, potential + model.forces.potential(q))


def constrained(
    model: Model, q: Float[Array, " nq"], qd: Float[Array, " n"], tau: Float[Array, " n"], free: Float[Array, " n"]
) -> Float[Array, " n"]:
    """Accelerations under joint torques, with joints locked where `free` is 0.

    One rotor after the other (Sherman and Morrison): `x − W J (S x) / (1 + J S W)` with `W = M⁻¹ Sᵀ`.
    """
    qdd = dynamics.constrained(model.robot, q, qd, tau, free)
    if not model.forces.turning:
        return qdd
    turns, rotors = _turns(model, q), model.forces.rotors
    found = [qdd, *(dynamics.solve_mass(model.robot, q, row, free) for row in turns)]
    for k, row in enumerate(turns):
        pushed = found.pop(1)
        share = rotors[k] / (1 + rotors[k] * (row @ pushed))
        found = [x - share * (row @ x) * pushed for x in found]
    return found[0]


def _turns(model: Model, q: Float[Array, " nq"]) -> Float[Array, "k n"]:
    return jnp.asarray(np.array(model.forces.turning), q.dtype)
