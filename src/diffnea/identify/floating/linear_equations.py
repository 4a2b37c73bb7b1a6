"""Linear equations in the numbers θ of a fit: φ(θ) bends, the equations do not; products of columns hold all data.

θ are the unknowns of robot and actuator, and behind them those beside: of an inertial sensor and of feet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea.identify.floating.column_noise import without_noise
from diffnea.identify.floating.linear_rows import LinearRows
from diffnea.identify.floating.motion_columns import Beside, numbers
from diffnea.identify.problem.least_squares import Normal, Problem
from diffnea.identify.problem.prior import Prior
from diffnea.identify.problem.unknowns import Unknowns


@dataclass(frozen=True)
class LinearEquations:
    """`A φ(θ) = b`: residuals and problems of linear rows, as `evidence.weigh` asks for them."""

    free: Unknowns
    beside: Beside

    @property
    def start(self) -> Float[np.ndarray, " p"]:
        """θ of robot and actuator as given, sensor and feet as they say."""
        return np.concatenate([self.free.start, np.zeros(len(self.beside.labels))])

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each entry of θ."""
        return (*self.free.labels, *self.beside.labels)

    @cached_property
    def _bent(self):
        own = self.free.size

        def phi(theta):
            return jnp.concatenate([numbers(self.free.model(theta[:own])), theta[own:]])

        return jax.jit(phi), jax.jit(jax.jacrev(phi))

    def phi(self, theta: Float[np.ndarray, " p"]) -> Float[np.ndarray, " m"]:
        """The physical numbers that equations are linear in."""
        return np.asarray(self._bent[0](jnp.asarray(theta)))

    def slopes(self, theta: Float[np.ndarray, " p"]) -> Float[np.ndarray, "m p"]:
        """∂φ/∂θ."""
        return np.asarray(self._bent[1](jnp.asarray(theta)))

    def residuals(self, rows: LinearRows, theta: Float[np.ndarray, " p"]) -> Float[np.ndarray, "row v"]:
        """The weighted residuals of one θ."""
        return rows.left(self.phi(theta))

    def problem(self, rows: Sequence[LinearRows]) -> Problem:
        """The mean squared weighted residual as a least-squares problem."""
        G, count = products(rows), max(sum(each.count for each in rows), 1)

        def loss(points: np.ndarray) -> np.ndarray:
            several = [np.append(self.phi(theta), -1.0) for theta in points]
            return np.array([max(float(x @ G @ x), 0.0) for x in several]) / count

        def normal(points: np.ndarray) -> Normal:
            found = []
            for theta in points:
                x, D = np.append(self.phi(theta), -1.0), self.slopes(theta)
                found.append((max(float(x @ G @ x), 0.0), D.T @ (G[:-1] @ x), D.T @ G[:-1, :-1] @ D))
            squares, gradient, matrix = (np.stack(values) / count for values in zip(*found, strict=True))
            return Normal(squares, gradient, matrix)

        return Problem(loss, normal, count)

    def with_beside(self, prior: Prior) -> Prior:
        """The prior of robot and actuator, sensor and feet near what they say."""
        none = np.zeros(len(self.beside.labels))
        return replace(
            prior,
            centre=np.concatenate([prior.centre, none]),
            precision=np.concatenate([prior.precision, 1 / np.square(self.beside.expected)]),
            positive=np.concatenate([prior.positive, none.astype(bool)]),
        )


def products(rows: Sequence[LinearRows]) -> Float[np.ndarray, "m m"]:
    """Products of all weighted columns, b among them, without what noise in them has added."""
    gram = np.sum([_weighted(each).sum(0) for each in rows], axis=0)
    noise = [
        np.einsum("vkl,v->kl", each.noise, _equation_weights(each) ** 2) for each in rows if each.noise is not None
    ]
    return without_noise(gram, np.sum(noise, axis=0)) if noise else gram


def _weighted(rows: LinearRows) -> Float[np.ndarray, "v m m"]:
    table = np.moveaxis(rows.table * rows.weight[:, :, None], 1, 0)
    return np.swapaxes(table, 1, 2) @ table


def _equation_weights(rows: LinearRows) -> Float[np.ndarray, " v"]:
    """The usual weight of each equation's rows."""
    return np.sqrt(np.mean(rows.weight**2, axis=0))
