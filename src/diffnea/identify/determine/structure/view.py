"""A problem in physical coordinates, and which sums of them some recording could determine."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from diffnea.identify.determine.structure.base_parameters import Echelon
from diffnea.identify.determine.structure.coordinates import Coordinates


@dataclass(frozen=True)
class View:
    """Coordinates, the structure's sums of them, and the Jacobian of the residuals in these sums."""

    coordinates: Coordinates
    jacobian: Float[np.ndarray, "rows r"]
    steps: Float[np.ndarray, "p r"]  # of θ with each of the sums
    structure: Echelon
    exact: float  # what is this close to zero, relative to its size, is rounding
    reference: int | None = None  # what forces are divided by, where their scale is not known
    why: str = ""  # the code of the note on that
    fixed: tuple[str, ...] = ()  # what of the robot file sets the scale, where only that does

    @property
    def sizes(self) -> Float[np.ndarray, " r"]:
        """The natural size of each of the structure's sums."""
        return np.max(np.abs(self.structure.rows) * self.coordinates.scales, axis=1, initial=0.0)
