"""Which friction and rotors a free robot's joints have: what predicts blocks of time that were left out.

All rows are multiplied out once, block by block; a hypothesis is a small system of equations under the prior of the
robot file. One that has more is taken where the blocks left out are predicted better by more than a standard error.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Float

from diffnea.identify.floating.linear_equations import LinearEquations
from diffnea.identify.floating.linear_rows import LinearRows
from diffnea.identify.floating.motion_columns import Beside
from diffnea.identify.notes import Note, note
from diffnea.identify.options import SolveOptions
from diffnea.identify.problem.parameter import places
from diffnea.identify.problem.unknowns import unknowns
from diffnea.identify.solve.file_prior import file_prior
from diffnea.identify.solve.regression.blocks import FOLDS
from diffnea.robot import Robot

# Actuators that are linear in their coefficients, by what is compared: simplest first.
FRICTION_TRIED = ("ideal", "viscous", "coulomb", "viscous+coulomb")
TIME_BLOCKS = 24
# Expected distance of files here: a tenth, looser than at first, since no evidence corrects it.
STRENGTH = 100.0
NOISE_ROUNDS = 3
FAR = 1e-4


@dataclass(frozen=True)
class Chosen:
    """An actuator, whether rotors are learned, and why."""

    actuator: str
    armature: bool
    notes: tuple[Note, ...]


def choose(robot: Robot, rows: Sequence[LinearRows], beside: Beside, options: SolveOptions) -> Chosen:
    """The simplest of the hypotheses that predicts as well as any; noise is what the richest of them leaves."""
    richest = unknowns(robot, ("inertia", "armature", "actuator"), FRICTION_TRIED[-1], jax.random.key(0))
    whole = _Whole.of(LinearEquations(richest, beside), rows, robot.num_joints, options)
    tried = {
        (name, armature): whole.with_parts(name, armature) for name in FRICTION_TRIED for armature in (False, True)
    }
    scale = tried[FRICTION_TRIED[-1], True].noise()
    left = {key: each.left_out(scale) for key, each in tried.items()}
    best = min(left, key=lambda key: left[key].sum())
    for key in sorted(left, key=_parts):
        worse = left[key] - left[best]
        if worse.sum() <= np.sqrt(len(worse) * np.var(worse, ddof=1)):
            best = key
            break
    gain = float(left["ideal", False].sum() - left[best].sum()) / 2
    said = [note("chosen", actuator=best[0] + ("+armature" if best[1] else ""))]
    said += [note("chosen-part", _words(*best), gain=gain)] if best != ("ideal", False) else []
    return Chosen(*best, tuple(said))


def _parts(key: tuple[str, bool]) -> int:
    return (key[0] != "ideal") + key[0].count("+") + key[1]


def _words(name: str, armature: bool) -> str:
    rubs = [] if name == "ideal" else [f"{name} friction"]
    return " with ".join([*rubs, *(["rotors of their own"] if armature else [])])


@dataclass(frozen=True)
class _Whole:
    """The equations about the given robot with everything that may be learned, linear in θ, under the file's prior."""

    equations: LinearEquations
    rows: Sequence[LinearRows]
    firm: np.ndarray
    slopes: np.ndarray
    phi: np.ndarray

    @classmethod
    def of(cls, equations: LinearEquations, rows: Sequence[LinearRows], joints: int, options: SolveOptions) -> "_Whole":
        theta, free = equations.start, equations.free
        prior = equations.with_beside(file_prior(free, np.ones(joints), options))
        prior = prior.with_strength(np.full(len(prior.body), STRENGTH))
        firm = prior.normal(theta[None]).matrix[0]
        rubs = places(free.parameters, kind="actuator")
        firm[rubs, rubs] *= FAR  # a linear step of a logarithm may have to go far
        return cls(equations, rows, firm, equations.slopes(theta), equations.phi(theta))

    def with_parts(self, name: str, armature: bool) -> "_Hypothesis":
        """Some of it: rotors as the file has them, and friction that is none, are left out."""
        several, phi = self.equations.free.parameters, self.phi.copy()
        kept = np.ones(len(self.firm), bool)
        if not armature:
            kept[places(several, kind="armature")] = False
        for part in ("Viscous", "Coulomb"):
            if part.lower() not in name:
                out = places(several, part=part)
                kept[out] = False
                phi[np.any(self.slopes[:, out] != 0, axis=1)] = 0.0
        blocks = []
        for each in self.rows:
            left = each.table[:, :, :-1] @ phi - each.table[:, :, -1]
            columns = np.concatenate([each.table[:, :, :-1] @ self.slopes[:, kept], left[:, :, None]], axis=2)
            for part in np.array_split(np.arange(len(columns)), TIME_BLOCKS):
                blocks.append((columns[part], each.weight[part]))
        return _Hypothesis(tuple(blocks), self.firm[np.ix_(kept, kept)])


@dataclass(frozen=True)
class _Hypothesis:
    """One way that joints may rub: columns in θ with what is left at its start, block by block, and a prior."""

    blocks: tuple[tuple[np.ndarray, np.ndarray], ...]
    firm: np.ndarray

    def noise(self) -> Float[np.ndarray, " v"]:
        """One over what is left of each equation."""
        scale = np.ones(self.blocks[0][1].shape[1])
        for _ in range(NOISE_ROUNDS):
            step = np.append(self._solved(np.sum(self._grams(scale), axis=0)), 1.0)
            left = np.concatenate([weight * (columns @ step) for columns, weight in self.blocks])
            scale = 1 / np.maximum(np.sqrt(np.mean(left**2, axis=0)), 1e-6)
        return scale

    def left_out(self, scale: Float[np.ndarray, " v"]) -> Float[np.ndarray, " fold"]:
        """Squared residuals in units of the noise, of each fold as predicted from the others."""
        grams = self._grams(scale)
        folds = [np.sum(grams[fold::FOLDS], axis=0) for fold in range(FOLDS)]
        total = np.sum(folds, axis=0)
        steps = [np.append(self._solved(total - fold), 1.0) for fold in folds]
        return np.array([step @ fold @ step for fold, step in zip(folds, steps, strict=True)])

    def _grams(self, scale: Float[np.ndarray, " v"]) -> list[np.ndarray]:
        flat = [
            (columns * (weight * scale)[:, :, None]).reshape(-1, columns.shape[2]) for columns, weight in self.blocks
        ]
        return [each.T @ each for each in flat]

    def _solved(self, gram: np.ndarray) -> np.ndarray:
        size = np.sqrt(np.maximum(np.diagonal(gram)[:-1] + np.diagonal(self.firm), 1e-300))
        matrix = (gram[:-1, :-1] + self.firm) / np.outer(size, size)
        return -np.linalg.lstsq(matrix, gram[:-1, -1] / size, rcond=1e-12)[0] / size
