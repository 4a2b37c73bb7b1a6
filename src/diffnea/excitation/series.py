"""Motions as Fourier series of limited bandwidth that begin and end at rest."""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import null_space


@dataclass(frozen=True)
class Basis:
    """Shapes of one period: each column begins and ends with velocity and acceleration zero, and is at most 1 high."""

    q: Float[np.ndarray, "time k"]
    qd: Float[np.ndarray, "time k"]
    qdd: Float[np.ndarray, "time k"]

    @property
    def size(self) -> int:
        """How many shapes there are."""
        return self.q.shape[1]

    def motion(
        self, centre: Float[Array, " n"], weights: Float[Array, "k n"]
    ) -> tuple[Float[Array, "time n"], Float[Array, "time n"], Float[Array, "time n"]]:
        """Positions, velocities and accelerations: the centre plus the shapes times their weights."""
        q, qd, qdd = (jnp.asarray(shapes) @ weights for shapes in (self.q, self.qd, self.qdd))
        return centre[None] + q, qd, qdd


def harmonics(seconds: float, bandwidth: float) -> int:
    """How many waves of the bandwidth go into the time; at least three are needed to move and be at rest."""
    return math.floor(seconds * bandwidth + 1e-9)


def basis(time: Float[np.ndarray, " time"], seconds: float, count: int) -> Basis:
    """The shapes of `count` harmonics at these times.

    Sines with Σ k a_k = 0 have no velocity at the ends, cosines with Σ k² b_k = 0 no acceleration; the rest of both is
    zero there by itself.
    """
    if count < 3:
        raise ValueError(f"excite: only {count} waves fit; give more seconds or more bandwidth, for 3 at least")
    k = np.arange(1, count + 1)
    pace = 2 * np.pi * k / seconds
    sines, cosines = null_space(k[None].astype(float)), null_space(k[None].astype(float) ** 2)
    phase = time[:, None] * pace
    sin, cos = np.sin(phase), np.cos(phase)
    q = np.concatenate([sin @ sines, cos @ cosines], axis=1)
    qd = np.concatenate([(cos * pace) @ sines, (-sin * pace) @ cosines], axis=1)
    qdd = np.concatenate([(-sin * pace**2) @ sines, (-cos * pace**2) @ cosines], axis=1)
    # Sizes from a fixed grid, so that the same weights are the same motion at any rate.
    whole = np.linspace(0, seconds, 64 * count)[:, None] * pace
    height = np.concatenate([np.abs(np.sin(whole) @ sines).max(0), np.abs(np.cos(whole) @ cosines).max(0)])
    return Basis(q / height, qd / height, qdd / height)
