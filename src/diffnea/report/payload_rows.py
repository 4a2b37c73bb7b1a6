"""A payload as rows of a table, the same on the terminal and on pages."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from diffnea.identify.payload import Payload

AXES = ("xx", "xy", "yy", "xz", "yz", "zz")


class PayloadRow(NamedTuple):
    """One number of a payload with its 95 % interval."""

    name: str
    value: float
    lower: float
    upper: float
    unit: str


def payload_rows(found: Payload) -> Iterator[PayloadRow]:
    """Mass, centre of mass from the origin of the payload's frame, inertia about the centre."""
    parts = [("mass", found.mass, "kg"), ("com", found.com, "m"), ("inertia", found.inertia, "kg·m²")]
    names = {"mass": ["mass"], "com": [f"centre {axis}" for axis in "xyz"], "inertia": [f"inertia {a}" for a in AXES]}
    for part, estimate, unit in parts:
        columns = [np.ravel(each).tolist() for each in (estimate.value, estimate.lower, estimate.upper)]
        for name, value, lower, upper in zip(names[part], *columns, strict=True):
            yield PayloadRow(name, value, lower, upper, unit)
