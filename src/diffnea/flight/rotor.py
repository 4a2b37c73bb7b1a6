"""Rotor: from its command and the battery to its thrust, late and through a lag."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.signal import lfilter


@final
class Rotor(eqx.Module):
    """`a = k₁ y + k₂ y²` with `y = lagged command · (V / V₀)^β`: thrust per mass of the body, all rotors alike.

    Mass and thrust are known only together: nothing but their ratio moves a body that hangs on its rotors.
    """

    linear: Float[Array, ""]  # m/s² at full command
    quadratic: Float[Array, ""]
    exponent: Float[Array, ""]  # of the battery's voltage
    nominal: Float[Array, ""]  # V
    lag: Float[Array, ""]  # s, of the rotor and of the command on its way, which logs do not tell apart

    def driven(
        self,
        time: Float[np.ndarray, " time"],
        command: Float[np.ndarray, "time r"],
        battery: Float[np.ndarray, " time"],
    ) -> Float[np.ndarray, "time r"]:
        """y over time."""
        share = 1 - np.exp(-float(np.median(np.diff(time))) / max(float(self.lag), 1e-6))
        kept = lfilter([share], [1.0, share - 1.0], command, axis=0, zi=(1 - share) * command[:1])[0]
        return kept * ((battery / float(self.nominal)) ** float(self.exponent))[:, None]

    def thrust(self, driven: Float[Array, "*time r"]) -> Float[Array, "*time"]:
        """Of all rotors, per mass, m/s²."""
        return self.linear * jnp.sum(driven, axis=-1) + self.quadratic * jnp.sum(driven**2, axis=-1)
