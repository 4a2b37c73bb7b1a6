"""Base parameters: which columns of a Jacobian are independent, and the sums in which the others enter."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

# Coefficients that are this close to a small whole number are that number.
_SNAP = 1e-6
# Columns shorter than this many roundings of the longest are zero.
_ROUNDINGS = 16


@dataclass(frozen=True)
class Echelon:
    """Columns split into independent ones and others, `A[:, dependent] = A[:, independent] @ mixing`."""

    independent: tuple[int, ...]
    dependent: tuple[int, ...]
    mixing: Float[np.ndarray, "r d"]

    @property
    def rows(self) -> Float[np.ndarray, "r k"]:
        """The sums that the rows of A determine, in reduced echelon form: 1 at their own column."""
        combined = np.zeros((len(self.independent), len(self.independent) + len(self.dependent)))
        combined[:, self.independent] = np.eye(len(self.independent))
        combined[:, self.dependent] = self.mixing
        return combined

    @property
    def null(self) -> Float[np.ndarray, "d k"]:
        """The directions that A does not see, each one dependent column against independent ones."""
        directions = np.zeros((len(self.dependent), len(self.independent) + len(self.dependent)))
        directions[:, self.dependent] = np.eye(len(self.dependent))
        directions[:, self.independent] = -self.mixing.T
        return directions


def echelon(A: Float[np.ndarray, "rows k"], tolerance: float, least: float = 0.0, pivoted: bool = False) -> Echelon:
    """Columns in order, each kept if it is not a sum of those before it.

    A column is a sum of others when what remains of it is below `tolerance` of its length, or below `least`. With
    `pivoted`, a column whose remainder is below a third of the largest waits: for columns that are nearly alike.
    """
    small = np.asarray(np.linalg.qr(A, mode="r")) if len(A) > A.shape[1] else np.array(A)
    lengths = np.linalg.norm(small, axis=0)
    rounding = _ROUNDINGS * np.finfo(small.dtype).eps * lengths.max(initial=0.0)
    floor = np.maximum(tolerance * lengths, max(least, rounding, 1e-300))
    waiting, independent = list(range(A.shape[1])), []
    basis, rest = np.zeros((small.shape[0], 0)), small.copy()
    while True:
        left = np.linalg.norm(rest, axis=0)
        waiting = [i for i in waiting if left[i] > floor[i]]
        if not waiting:
            break
        enough = max(left[i] for i in waiting) / 3 if pivoted else 0.0
        chosen = next(i for i in waiting if left[i] >= enough)
        waiting.remove(chosen)
        independent.append(chosen)
        direction = rest[:, chosen] / left[chosen]
        direction -= basis @ (basis.T @ direction)  # once more, against rounding
        direction /= np.linalg.norm(direction)
        basis = np.column_stack([basis, direction])
        rest -= np.outer(direction, direction @ rest)
    independent.sort()
    dependent = [i for i in range(A.shape[1]) if i not in independent]
    mixing = np.linalg.lstsq(small[:, independent], small[:, dependent], rcond=None)[0]
    return Echelon(tuple(independent), tuple(dependent), mixing)


def unscaled(found: Echelon, scales: Float[np.ndarray, " k"]) -> Echelon:
    """The same of columns that had been multiplied by `scales`; near whole numbers are made whole."""
    mixing = np.where(np.abs(found.mixing) < _SNAP, 0.0, found.mixing)
    mixing = mixing * scales[list(found.independent)][:, None] / scales[list(found.dependent)]
    whole = np.round(mixing)
    mixing = np.where((np.abs(mixing - whole) < _SNAP) & (whole != 0), whole, mixing)
    return Echelon(found.independent, found.dependent, mixing)
