"""Regressions of torques on columns: what each hypothesis leaves of blocks that it was not fitted to.

All columns are multiplied with one another once, block by block in time; a hypothesis is then a small system of
equations. Squares count in units of the noise of each joint in each recording, which is what a regression leaves, and
a row counts as much as its share of independent ones.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from diffnea.identify.problem.measurements.noise import correlation_time
from diffnea.identify.solve.regression.bounded import bounded_minimum
from diffnea.identify.solve.regression.columns import Columns
from diffnea.identify.solve.regression.rival_columns import BENDING, PLACED

# Columns in the unit of torques, which a gain divides.
_PHYSICAL = ("file", "bodies", "gain", "calibration", PLACED, BENDING)
# Coefficients that cannot be negative; rotors are added to the file's, of which they can take away no more than all.
_POSITIVE = ("viscous", "coulomb", "grease", "coupling")
# Of torques: what explains less is of no use, however exact the data.
_LEAST_NOISE = 1e-3
# Rounds of noise and estimate in turn.
_REWEIGHTED = 4
# How firmly the weights of a machine without any drive are held: its equations say nothing of their size. A joint's
# may become this small beside the others.
_HELD, _LEAST_SIZE = 1e6, 1e-2
# Blocks in time at least, and folds of them that are left out in turn.
_BLOCKS, FOLDS = 16, 8
# The correlation of n pairs of white noise is within this by √n in 95 of 100 cases (Bartlett).
_BARTLETT = 1.96
# So many independent rows of all recordings stand beside those of one, where its noise is told.
_SHARED = 10.0


class _Equations(NamedTuple):
    """Of least squares: products of the columns with each other and with what is wanted, and the square of that."""

    matrix: Float[np.ndarray, "p p"]
    gradient: Float[np.ndarray, " p"]
    square: float

    def left(self, x: Float[np.ndarray, " p"]) -> float:
        """Squared residuals."""
        return float(self.square + 2 * self.gradient @ x + x @ self.matrix @ x)


class Regression:
    """Regressions of some of the columns; `scale` is command by torque of each joint, `late` the place of the delay."""

    def __init__(self, table: Columns):
        self.table, first = table, 0
        self._places: dict[str, slice] = {}
        for name, part in table.parts.items():
            self._places[name] = slice(first, first + part.shape[2])
            first += part.shape[2]
        self._whole = np.concatenate([*table.parts.values(), table.wanted], axis=2)
        self._wanted, counted = first, self._whole * table.kept[..., None]
        self._recordings = [np.flatnonzero(table.segment == k) for k in np.unique(table.segment)]
        blocks = [np.array_split(rows, max(1, -(-_BLOCKS // len(self._recordings)))) for rows in self._recordings]
        self._owner = np.repeat(np.arange(len(blocks)), [len(several) for several in blocks])
        flat = [block for several in blocks for block in several]
        products = [np.einsum("rjp,rjq->jpq", counted[rows], counted[rows], optimize=True) for rows in flat]
        self._blocks = flat
        self._products = np.stack(products)  # (block, n, column, column)
        self._scale, self.late = np.ones(self._whole.shape[1]), 0
        self._weight = np.tile(1 / self.size(), (len(self._recordings), 1))  # (recording, n)
        self.rows = 2.0  # independent ones
        self._sums: np.ndarray | None = None
        self._totals: dict[bool | None, np.ndarray] = {}
        self._by_joint = np.ascontiguousarray(self._whole[..., : self._wanted].swapaxes(0, 1))

    # What can be set -------------------------------------------------------------------------------------------------

    @property
    def scale(self) -> Float[np.ndarray, " n"]:
        """Command by torque of each joint."""
        return self._scale

    @scale.setter
    def scale(self, scale: Float[np.ndarray, " n"]) -> None:
        self._scale = scale
        self._forget()

    def settle(self, names: Sequence[str]) -> None:
        """Noise, and the number of independent rows, by what these parts leave."""
        memory = np.ones(1)
        for _ in range(_REWEIGHTED):
            x = self._solved(names, self._equations(names))
            memory = self._weigh(self.residual(names) / self._taken(x), len(x))
            self._forget()
        self.rows = max(float(np.sum(self.table.kept.sum(0) / memory)), 2.0)

    # What is told ----------------------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """Of all parts that may be taken."""
        return tuple(name for name in self.table.parts if name not in ("file", "bodies"))

    def left(self, names: Sequence[str]) -> float:
        """Squared residuals in units of their noise, and what bodies pay for leaving the file."""
        found = self._equations(names)
        matrix = found.matrix + self._prior(found.matrix, self._columns(names))
        return found._replace(matrix=matrix).left(self._solved(names, found))

    def left_out(self, names: Sequence[str], in_one_piece: bool = False) -> Float[np.ndarray, " fold"]:
        """Squared residuals in units of their noise, of each fold as predicted from the others.

        A fold is every so many blocks in time, or a stretch in one piece, in which joints are where they were not.
        """
        equations = [self._equations(names, total) for total in self._folds(in_one_piece)]
        inside, outside = equations[:FOLDS], equations[FOLDS:]
        return np.array([left.left(self._solved(names, kept)) for left, kept in zip(inside, outside, strict=True)])

    def left_by_joint(self, names: Sequence[str], in_one_piece: bool = False) -> Float[np.ndarray, "fold n"]:
        """Mean squared residuals of each joint in each fold as predicted from the others, in the unit of commands."""
        found, factor, fold = [], self._factors(), self._fold(in_one_piece)
        for k, kept in enumerate(self._folds(in_one_piece)[FOLDS:]):
            solution = np.zeros(self._whole.shape[2])
            solution[self._columns(names)] = self._solved(names, self._equations(names, kept))
            solution[self._places["file"]], solution[self._wanted + self.late] = 1.0, -1.0
            columns, here = factor * solution, np.flatnonzero(fold == k)
            squares = np.einsum("jp,jpq,jq->j", columns, self._products[here].sum(0), columns, optimize=True)
            count = sum((self.table.kept[self._blocks[block]].sum(0) for block in here), np.zeros(len(squares)))
            found.append(squares / np.maximum(count, 1))
        return np.array(found)

    def coefficients(self, names: Sequence[str], part: str) -> np.ndarray:
        """Of one of the parts, in the unit of commands."""
        first, count = list(self._columns(names)).index(self._places[part].start), self.table.parts[part].shape[2]
        return self._solved(names, self._equations(names))[first : first + count]

    def residual(self, names: Sequence[str]) -> Float[np.ndarray, "row n"]:
        """In the unit of commands."""
        solution = np.zeros(self._wanted)
        solution[self._columns(names)] = self._solved(names, self._equations(names))
        solution[self._places["file"]] = 1.0
        explained = np.matmul(self._by_joint, (self._factors()[:, : self._wanted] * solution)[..., None])[..., 0].T
        return self._whole[..., self._wanted + self.late] - explained

    def share(self, names: Sequence[str]) -> Float[np.ndarray, " n"]:
        """Of each joint's torques, what is left; of one without a command, of those that the found bodies take."""
        wrong, kept = self.residual(names), self.table.kept
        left = np.sum(wrong**2 * kept, axis=0) / np.maximum(kept.sum(0), 1)
        return np.sqrt(left) / (self.size() * self._taken(self._solved(names, self._equations(names))))

    def lasting(self, names: Sequence[str]) -> Float[np.ndarray, " n"]:
        """Of that, what lasts: noise is another in every row, what a model lacks is alike in neighbours, so that the
        correlation of neighbours is its share of the variance; within Bartlett's band it is chance.

        Without order in time all counts.
        """
        if not self.table.ordered:
            return self.share(names)
        wrong, kept, segment = self.residual(names), self.table.kept, self.table.segment
        pairs = kept[:-1] & kept[1:] & (segment[:-1] == segment[1:])[:, None]
        both = np.sum(pairs * wrong[:-1] * wrong[1:], axis=0)
        squares = np.sum(pairs * (wrong[:-1] ** 2 + wrong[1:] ** 2) / 2, axis=0)
        alike = both / np.maximum(squares, 1e-300) - _BARTLETT / np.sqrt(np.maximum(pairs.sum(0), 1))
        return self.share(names) * np.sqrt(np.clip(alike, 0.0, 1.0))

    def foretold(self, names: Sequence[str], parts: Mapping[str, np.ndarray]) -> Float[np.ndarray, " n"]:
        """The standard error of torques of other motion, whose columns these are, in the unit of commands."""
        chosen, found = self._columns(names), self._equations(names)
        matrix = found.matrix + self._prior(found.matrix, chosen)
        scale = np.sqrt(np.maximum(np.diagonal(matrix), 1e-300))
        values, vectors = np.linalg.eigh(matrix / np.outer(scale, scale))
        root = vectors / np.sqrt(np.maximum(values, 1e-12 * values[-1])) / scale[:, None]
        rows = np.concatenate([parts[name] for name in self.table.parts], axis=2) * self._factors()[:, : self._wanted]
        return np.sqrt(np.mean(np.sum((rows[..., chosen] @ root) ** 2, axis=2), axis=0))

    def size(self) -> Float[np.ndarray, " n"]:
        """Of each joint's torques, in the unit of commands."""
        given = np.sqrt(np.mean(self.table.wanted[..., 0] ** 2, axis=0))
        return np.where(self.table.driven, given, self.table.size * self._scale) + 1e-300

    def weights(self) -> Float[np.ndarray, "row n"]:
        """One over the noise of each row, with the root of its correlation time; 0 where a row does not count."""
        found = np.zeros(self.table.kept.shape)
        for k, rows in enumerate(self._recordings):
            found[rows] = self._weight[k]
        return found * self.table.kept

    # How -------------------------------------------------------------------------------------------------------------

    def _weigh(self, wrong: Float[np.ndarray, "row n"], unknowns: int) -> Float[np.ndarray, " n"]:
        """One over the standard deviation of each joint's residuals in each recording, times the root of their
        correlation time, which is returned; what unknowns have taken away is given back."""
        kept, count = self.table.kept, int(self.table.kept.sum())
        more, memory = count / max(count - unknowns, count / 4), np.ones(wrong.shape[1])
        for j in range(wrong.shape[1]):
            series = [wrong[rows[kept[rows, j]], j] for rows in self._recordings]
            squares, counts = np.array([each @ each for each in series]), np.array(list(map(len, series)))
            if self.table.ordered:
                usual = np.sqrt(squares / np.maximum(counts, 1)) + 1e-300
                memory[j] = correlation_time([x / size for x, size in zip(series, usual, strict=True) if len(x)])
            # A recording with few independent rows has the noise of all.
            common, shared = squares.sum() / max(counts.sum(), 1), _SHARED * memory[j]
            noise = np.sqrt(more * memory[j] * (squares + shared * common) / (counts + shared))
            self._weight[:, j] = 1 / np.maximum(noise, max(_LEAST_NOISE * self.size()[j], 1e-12))
        return memory

    def _taken(self, x: Float[np.ndarray, " columns"]) -> Float[np.ndarray, " n"]:
        """What bodies make of each passive joint's torques, by the file's: noise grows and vanishes with them."""
        bodies = self.table.sizes @ x[: self.table.sizes.shape[1]]
        return np.where(self.table.driven, 1.0, np.maximum(1 + bodies, _LEAST_SIZE))

    def _columns(self, names: Sequence[str]) -> np.ndarray:
        """Where bodies and these parts stand."""
        places = [self._places[name] for name in ("bodies", *names)]
        return np.concatenate([np.arange(place.start, place.stop) for place in places])

    def _factors(self) -> Float[np.ndarray, "n columns"]:
        """What columns are multiplied with, joint by joint: those of torques are divided by the gain."""
        factor = np.ones((len(self._scale), self._whole.shape[2]))
        for name, place in self._places.items():
            if name.split()[0] in _PHYSICAL:
                factor[:, place] = self._scale[:, None]
        return factor

    def _forget(self) -> None:
        """What was summed with other weights."""
        self._sums, self._totals = None, {}

    def _of_blocks(self) -> Float[np.ndarray, "block column column"]:
        """Weighted products of all columns, block by block."""
        found = self._sums
        if found is None:
            factor = self._factors()
            weighted = self._products * (self._weight[self._owner] ** 2)[..., None, None]
            found = self._sums = np.einsum("bjpq,jp,jq->bpq", weighted, factor, factor, optimize=True)
        return found

    def _fold(self, in_one_piece: bool) -> Int[np.ndarray, " block"]:
        """Of each block."""
        blocks = np.arange(len(self._owner))
        return blocks * FOLDS // len(blocks) if in_one_piece else blocks % FOLDS

    def _folds(self, in_one_piece: bool) -> Float[np.ndarray, "folds column column"]:
        """Sums over the blocks of each fold, and then over all but those."""
        if in_one_piece not in self._totals:
            within = self._fold(in_one_piece) == np.arange(FOLDS)[:, None]
            chosen = np.concatenate([within, ~within]).astype(float)
            self._totals[in_one_piece] = np.tensordot(chosen, self._of_blocks(), 1)
        return self._totals[in_one_piece]

    def _equations(self, names: Sequence[str], summed: Float[np.ndarray, "column column"] | None = None) -> _Equations:
        """Of blocks that are summed, by default all."""
        if summed is None:
            if None not in self._totals:
                self._totals[None] = self._of_blocks().sum(0)
            summed = self._totals[None]
        chosen, u, file = self._columns(names), self._wanted + self.late, self._places["file"].start
        places = np.concatenate([chosen, [u, file]])
        total = summed[places[:, None], places]
        square = total[-2, -2] - 2 * total[-2, -1] + total[-1, -1]
        return _Equations(total[:-2, :-2], total[:-2, -1] - total[:-2, -2], float(square))

    def _solved(self, names: Sequence[str], found: _Equations) -> Float[np.ndarray, " columns"]:
        chosen = self._columns(names)
        return bounded_minimum(found.matrix + self._prior(found.matrix, chosen), found.gradient, self._lower[chosen])

    @property
    def _lower(self) -> Float[np.ndarray, " columns"]:
        """Below which coefficients cannot be."""
        found = np.full(self._whole.shape[2], -np.inf)
        for name, here in self._places.items():
            if name == "armature":
                found[here] = -self._scale * self.table.rotors
            elif name.split()[0] in _POSITIVE:
                found[here] = 0.0
        return found

    @property
    def _precision(self) -> Float[np.ndarray, " columns"]:
        """Of single numbers: bodies and placements are in units of their expected change, torques at rest no larger
        than all torques, zeros within a radian; the rest is free."""
        found, n = np.zeros(self._whole.shape[2]), len(self._scale)
        for name, here in self._places.items():
            if name in ("bodies", "calibration", PLACED):
                found[here] = 1.0
            elif name in ("constant", "offset"):
                found[here] = np.tile(1 / self.size() ** 2, (here.stop - here.start) // n)
        return found

    def _prior(self, matrix: Float[np.ndarray, "p p"], chosen: np.ndarray) -> Float[np.ndarray, "p p"]:
        """Bodies near the file's; of a machine without any drive with weights of the file's size on average over its
        joints, which the equations leave open: bodies that vanish would explain them all."""
        bodies = self.table.parts["bodies"].shape[2]
        found = np.diag(1e-10 * np.diagonal(matrix) + self._precision[chosen])
        for root in [] if self.table.driven.any() else np.unique(self.table.root):
            row = self.table.sizes[self.table.root == root].mean(0)
            along = row / max(float(np.linalg.norm(row)), 1e-300)
            within = float(along @ matrix[:bodies, :bodies] @ along)
            found[:bodies, :bodies] += _HELD * max(within, 1.0) * np.outer(along, along)
        return found
