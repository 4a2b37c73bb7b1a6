"""Roll, pitch and yaw ⇄ rotation: `R = R_z(yaw) R_y(pitch) R_x(roll)`, as in robot files."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def rotation(rpy: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """The rotation matrix of roll, pitch and yaw in radians."""
    cosine, sine = jnp.cos(rpy), jnp.sin(rpy)
    (cr, cp, cy), (sr, sp, sy) = (cosine[0], cosine[1], cosine[2]), (sine[0], sine[1], sine[2])
    rows = [
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ]
    return jnp.stack([jnp.stack(row) for row in rows])


def roll_pitch_yaw(R: Float[Array, "3 3"]) -> Float[Array, "3"]:
    """Angles of a rotation; yaw is zero at gimbal lock, where roll and yaw turn about the same axis."""
    locked = (R[0, 0] == 0) & (R[1, 0] == 0)  # there the angle has no slope, also where it is not taken
    yaw = jnp.arctan2(jnp.where(locked, 0, R[1, 0]), jnp.where(locked, 1, R[0, 0]))
    c, s = jnp.cos(yaw), jnp.sin(yaw)
    unyawed = c * R[0] + s * R[1], c * R[1] - s * R[0]
    return jnp.stack([jnp.arctan2(-unyawed[1][2], unyawed[1][1]), jnp.arctan2(-R[2, 0], unyawed[0][0]), yaw])
