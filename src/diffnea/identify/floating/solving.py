"""The estimate: data and robot file weighed by evidence; and the problem at its solution."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from diffnea.identify.floating.linear_equations import LinearEquations
from diffnea.identify.floating.linear_rows import LinearRows, stacked
from diffnea.identify.floating.stretches import Stretch
from diffnea.identify.options import SolveOptions
from diffnea.identify.problem.linearised import Linearised, Motion
from diffnea.identify.solve.evidence import Posterior, weigh
from diffnea.identify.solve.file_prior import file_prior


@dataclass(frozen=True)
class Solved:
    """θ with how it was weighed, and the equations it is of."""

    equations: LinearEquations
    posterior: Posterior

    @property
    def own(self) -> Float[np.ndarray, " p"]:
        """θ of robot and actuator, without those beside."""
        return self.posterior.theta[: self.equations.free.size]

    @property
    def beside(self) -> dict[str, list[float]]:
        """What was found of an inertial sensor and of feet, each with its standard deviation."""
        own, labels = self.equations.free.size, self.equations.beside.labels
        spread = np.sqrt(np.diagonal(np.linalg.pinv(self.posterior.precision, hermitian=True)))[own:]
        pairs = zip(self.posterior.theta[own:].tolist(), spread.tolist(), strict=True)
        return dict(zip(labels, map(list, pairs), strict=True))

    @property
    def covariance(self) -> Float[np.ndarray, "m m"]:
        """Of φ, as if noise were white: `D P⁻¹ Dᵀ` with D the slopes of φ and P the posterior's precision."""
        D = self.equations.slopes(self.posterior.theta)
        return (D @ np.linalg.pinv(self.posterior.precision, hermitian=True) @ D.T).astype(np.float32)


def solve(
    equations: LinearEquations, rows: Sequence[LinearRows], torque: Float[np.ndarray, " n"], options: SolveOptions
) -> Solved:
    """From the robot as given to the posterior's mode; `torque` is the usual size of each joint's."""
    prior = equations.with_beside(file_prior(equations.free, torque, options))
    return Solved(equations, weigh(equations, rows, equations.start, prior, options))


def linearised(solved: Solved, stretches: Sequence[Stretch]) -> Linearised:
    """Rows and slopes at the solution, in units of their noise."""
    equations, rows, theta = solved.equations, solved.posterior.rows, solved.posterior.theta
    own = equations.free.size
    residuals, jacobian, joint, sample, segment = stacked(rows, equations.phi(theta), equations.slopes(theta))
    size = np.sqrt(solved.posterior.variance)
    return Linearised(
        theta=theta,
        jacobian=jacobian / size,
        residuals=residuals / size,
        joint=joint,
        sample=sample,
        segment=segment,
        labels=equations.labels,
        unpack=lambda theta: equations.free.model(theta[:own]),
        learned=equations.free.learned,
        dt=rows[0].dt,
        motion=_motion(stretches),
    )


def _motion(stretches: Sequence[Stretch]) -> Motion:
    q, u = (np.concatenate([getattr(each, key) for each in stretches]) for key in ("q", "u"))
    return Motion(q.min(0), q.max(0), np.zeros(q.shape[1]), np.any(u != 0, axis=0))
