"""A payload: mass, centre and inertia of what a robot carries beyond its model, in the flange's frame, with intervals.

Torques are linear in the ten inertial numbers of a body. What the earlier model is not sure of counts as its own
covariance says: its physical numbers may move with the payload's, but pay for it.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from diffnea.files import Json


class Estimate(np.ndarray):
    """Numbers with a 95 % interval each: `estimate.lower`, `estimate.upper`."""

    lower: Float[np.ndarray, "*shape"]
    upper: Float[np.ndarray, "*shape"]

    def __new__(cls, value: object, lower: object, upper: object) -> "Estimate":
        made = np.asarray(value, float).view(cls)
        made.lower, made.upper = np.asarray(lower, float), np.asarray(upper, float)
        return made

    def __array_finalize__(self, other: object) -> None:
        """What is computed from an estimate has no interval until one is worked out for it."""
        self.lower = self.upper = np.full(self.shape, np.nan)

    @property
    def value(self) -> Float[np.ndarray, "*shape"]:
        """The numbers alone."""
        return np.asarray(self)


@dataclass(frozen=True)
class Payload:
    """What is carried: kg, m and kg·m² about its own centre of mass, in the axes of a frame of the robot's file."""

    mass: Estimate  # ()
    com: Estimate  # (3,)
    inertia: Estimate  # (6,): xx, xy, yy, xz, yz, zz
    frame: str

    def to_dict(self) -> Json:
        """For JSON."""
        parts = {"mass": self.mass, "com": self.com, "inertia": self.inertia}
        return {"frame": self.frame} | {
            name: {"value": each.value.tolist(), "lower": each.lower.tolist(), "upper": each.upper.tolist()}
            for name, each in parts.items()
        }

    @classmethod
    def from_dict(cls, data: dict) -> "Payload":
        """Read it back.

        Args:
            data: what `to_dict` made.
        """
        parts = [Estimate(*(data[name][key] for key in ("value", "lower", "upper"))) for name in _PARTS]
        return cls(*parts, frame=str(data["frame"]))

    def __str__(self) -> str:
        half = float(self.mass.upper - self.mass.lower) / 2
        where = ", ".join(f"{value:.4g}" for value in self.com.tolist())
        off = ", ".join(f"{half:.2g}" for half in ((self.com.upper - self.com.lower) / 2).tolist())
        return f"payload: {float(self.mass):.4g} ± {half:.2g} kg at ({where}) ± ({off}) m of {self.frame}"


_PARTS = ("mass", "com", "inertia")
