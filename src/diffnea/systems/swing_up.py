"""An energy controller that swings a pole up and lets it fall, again and again."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffnea import dynamics
from diffnea.robot import Robot


class SwingUp(eqx.Module):
    """A feedback law `(t, q, qd) -> u` for a driven joint that carries a free pole.

    For `pumping` seconds the driven joint accelerates with the pole's swing while the pole's energy is below that of
    the upright rest, and a spring and a damper hold it near `centre`; for `falling` seconds nothing drives it. The
    input that gives the wanted acceleration comes from the robot's own equations (partial feedback linearisation).
    """

    robot: Robot
    limit: Float[Array, ""]
    strength: Float[Array, ""]  # the acceleration that pumps
    stiffness: Float[Array, ""]
    slowing: Float[Array, ""]
    centre: Float[Array, ""]
    pumping: Float[Array, ""]
    falling: Float[Array, ""]
    overshoot: Float[Array, ""]  # energy beyond the upright rest that is aimed at, as a share of the swing

    def __call__(self, t: Float[Array, ""], q: Float[Array, "2"], qd: Float[Array, "2"]) -> Float[Array, "2"]:
        mass, bias = dynamics.crba(self.robot, q), dynamics.bias(self.robot, q, qd)
        wanted = self._pump(mass, q, qd) - self.stiffness * (q[0] - self.centre) - self.slowing * qd[0]
        answer = -(mass[1, 0] * wanted + bias[1]) / mass[1, 1]  # the free pole's acceleration
        u = mass[0, 0] * wanted + mass[0, 1] * answer + bias[0] + self.robot.damping[0] * qd[0]
        u = jnp.clip(u, -self.limit, self.limit)
        period = self.pumping + self.falling
        driving = t - period * jnp.floor(t / period) < self.pumping  # kernels have floor, not mod
        return jnp.stack([jnp.where(driving, u, jnp.zeros_like(u)), jnp.zeros_like(u)])

    def _pump(self, mass, q, qd):
        """Accelerate so that the coupling does work on the pole until it could just stand upright."""
        upright = q.at[1].set(jnp.pi)
        top = dynamics.energies(self.robot, upright, jnp.zeros_like(q)).potential
        hanging = dynamics.energies(self.robot, q.at[1].set(0.0), jnp.zeros_like(q)).potential
        here = dynamics.energies(self.robot, q, jnp.zeros_like(q)).potential
        missing = (top - here - mass[1, 1] * qd[1] ** 2 / 2) / (top - hanging)  # 1 hanging at rest, 0 upright
        pace = jnp.sqrt((top - hanging) / (2 * mass[1, 1]))
        rhythm = -jnp.tanh(3 * mass[0, 1] * qd[1] / (mass[1, 1] * pace))
        return self.strength * jnp.clip(4 * (missing + self.overshoot), -0.3, 1.0) * rhythm


def swing_up(
    robot: Robot, *, limit: float, strength: float, stiffness: float, slowing: float, overshoot: float
) -> SwingUp:
    """The controller for a robot of two joints, of which the first is driven."""
    numbers = (limit, strength, stiffness, slowing, 0.0, 6.0, 4.0, overshoot)
    return SwingUp(robot, *(jnp.asarray(number, robot.axis.dtype) for number in numbers))


def varied(controller: SwingUp, key: jax.Array, reach: float) -> SwingUp:
    """The same controller with its strength, centre and times drawn anew, so that recordings differ.

    Args:
        controller: to begin with.
        key: as `jax.random.key(0)`.
        reach: how far the driven joint may go, m or rad.
    """
    strength, centre, pumping, falling = jax.random.uniform(key, (4,), controller.strength.dtype)
    return replace(
        controller,
        strength=controller.strength * (0.6 + 0.6 * strength),
        centre=reach * (2 * centre - 1),
        pumping=controller.pumping * (0.6 + 0.6 * pumping),
        falling=controller.falling * (0.5 + 0.7 * falling),
    )
