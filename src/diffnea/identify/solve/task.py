"""What a search is given, and what it finds."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from diffnea.identify.notes import Note
from diffnea.identify.options import SolveOptions
from diffnea.identify.problem.measurements.rows import Batch, Rows
from diffnea.identify.problem.prior import Prior
from diffnea.identify.problem.unknowns import Unknowns
from diffnea.identify.solve.evidence import Posterior


@dataclass(frozen=True)
class Found:
    """The θ that was found, the losses on the way, and how it went, in words."""

    theta: Float[np.ndarray, " p"]
    loss: float
    history: tuple[float, ...]
    converged: bool
    notes: tuple[Note, ...]
    rows: tuple[Rows, ...]  # all fitted data, outliers weighted down
    posterior: Posterior | None = None  # where a robot file was weighed against the data

    @property
    def finite(self) -> bool:
        """Whether there is a model at all."""
        return bool(np.isfinite(self.loss))


@dataclass(frozen=True)
class Task:
    """What is to be fitted: training part, validation part, and both; from which starts.

    The parts and `whole` are samples as they are, `rows` what the last steps see of both.
    """

    loss: str
    free: Unknowns
    train: Batch
    validation: Batch
    rows: tuple[Rows, ...]  # of both
    whole: Batch
    starts: Float[np.ndarray, "starts p"]
    prior: Prior | None  # the robot file, where it may be worth something
    seed: int
    options: SolveOptions
    robust: bool = False
    torque: Float[np.ndarray, " n"] | None = None  # what torque residuals are multiplied with; None for networks
    rough: bool = False  # another loss goes on from what is found: no more than a good start is needed
