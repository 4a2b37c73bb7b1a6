"""What a fit of servos lowers: the mean over motions and joints of RMS errors of whole motions, and its slopes.

The mean of RMS errors is robust: one motion that meets what the model lacks counts once, not by its square. Whole
roll-outs under dry friction are rough in the small; differences over a few per cent of each number see past that.
"""

from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea.identify.servo.lanes import Lanes, Predictor
from diffnea.identify.servo.loop_unknowns import EXPECTED, SPREAD, STEP, Freedom

# Models side by side: with lanes of motions they fill every register. Fewer are filled up: one shape is compiled.
BLOCK = 4
# RMS errors are rounded off below this, in rad: a fifth of what encoders of such servos resolve.
LEAST_RMS = 3e-4
# How much of the RMS errors' own curvature counts; all of it would leave nothing where one number explains a motion.
CURVED = 0.9
# What a number pays for being as far from its anchor as is expected, in rad of the loss.
PRIOR = 1e-5


@dataclass(frozen=True)
class Compared:
    """Predictions of one θ: errors in rad of every so many rows, RMS errors of motions and joints, and the loss."""

    errors: Float[np.ndarray, "row n"]
    rms: Float[np.ndarray, "motion n"]
    loss: float


@dataclass
class Objective:
    """Mean RMS error of all motions as a function of θ, with what θ pays for being far from what is expected."""

    data: Lanes
    free: Freedom
    predictor: Predictor = field(init=False)

    def __post_init__(self) -> None:
        self.start, self.anchor = self.free.start, self.free.expected
        self.predictor = Predictor(self.data, self.free.model(jnp.asarray(self.start)))
        self.spread, self.expected = self.free.scales(SPREAD), self.free.anchored.scales(EXPECTED)

    def compared(self, thetas: Float[np.ndarray, "k p"]) -> list[Compared]:
        """Of several θ, a block of models at a time."""
        found = []
        for first in range(0, len(thetas), BLOCK):
            block = thetas[first : first + BLOCK]
            padded = np.concatenate([block, np.repeat(block[-1:], BLOCK - len(block), 0)])
            errors, squares = self.predictor.compared(self.free.models(padded))
            for theta, error, mean in zip(block, errors, squares, strict=False):
                rms = np.sqrt(mean + LEAST_RMS**2)
                found.append(Compared(error, rms, self._loss(theta, rms)))
        return found

    def losses(self, thetas: Float[np.ndarray, "k p"]) -> Float[np.ndarray, " k"]:
        """Of several θ."""
        return np.array([each.loss for each in self.compared(thetas)])

    def _loss(self, theta: Float[np.ndarray, " p"], rms: Float[np.ndarray, "motion n"]) -> float:
        return float(rms.mean() + PRIOR * np.sum(((theta - self.anchor) / self.expected) ** 2))

    def slopes(self, theta: Float[np.ndarray, " p"], here: Compared) -> Float[np.ndarray, "p row n"]:
        """How errors change with each entry of θ, in units of its spread."""
        steps = self.free.scales(STEP)
        moved = self.compared(theta + np.diag(steps))
        found = np.empty((len(theta), *here.errors.shape), np.float32)
        for k, each in enumerate(moved):
            change = (each.errors - here.errors) * np.float32(self.spread[k] / steps[k])
            found[k] = np.where(np.isfinite(change), change, 0.0)
        return found

    def normal_equations(
        self, theta: Float[np.ndarray, " p"], here: Compared, slopes: Float[np.ndarray, "p row n"]
    ) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, "p p"]]:
        """Gradient and Gauss-Newton's Hessian of the loss, in units of the spreads.

        `mean RMS = Σ √(Σ r²/N) / B` has the slopes `Σ s`, s = Jᵀr / (N RMS B), and, without second derivatives of r,
        the Hessian `Σ JᵀJ / (N RMS B) − s sᵀ B / RMS`, each term of which is positive semidefinite.
        """
        motion, rms = self.data.compared_motion, here.rms
        rows = np.bincount(motion, minlength=self.data.count)
        weight = (1 / (np.maximum(rows, 1)[:, None] * rms * rms.size))[motion].astype(np.float32)
        share = self.spread / self.expected
        gradient = 2 * PRIOR * share * (theta - self.anchor) / self.expected
        hessian = 2 * PRIOR * np.diag(share**2)
        edges = np.flatnonzero(np.diff(motion, prepend=-1))
        for j in range(rms.shape[1]):
            of_joint, own = np.ascontiguousarray(slopes[:, :, j]), weight[:, j]
            hessian = hessian + ((of_joint * own) @ of_joint.T).astype(float)
            each = np.add.reduceat(of_joint * (own * here.errors[:, j]), edges, axis=1).astype(float)
            rank = each * np.sqrt(CURVED * rms.size / rms[motion[edges], j])
            gradient, hessian = gradient + each.sum(1), hessian - rank @ rank.T
        return gradient, hessian
