"""Linearised: a fitted problem at its solution, everything that an analysis of what the data determine needs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Array, Float, Int


@dataclass(frozen=True)
class Linearised:
    """Residuals and their Jacobian in the learned numbers θ, one row a sample and joint, and where each row is from.

    Residuals are normalised: each joint's are divided by its scale. `unpack(theta)` is the model of θ, a function of
    JAX that can be differentiated. `dt` is the time between samples, None where they have no order in time.
    """

    theta: Float[np.ndarray, " p"]
    jacobian: Float[np.ndarray, "rows p"]
    residuals: Float[np.ndarray, " rows"]
    joint: Int[np.ndarray, " rows"]
    sample: Int[np.ndarray, " rows"]  # index in time within the recording
    segment: Int[np.ndarray, " rows"]  # which recording
    labels: tuple[str, ...]
    unpack: Callable[[Float[Array, " p"]], Any]
    learned: tuple[str, ...]  # parts: any of inertia, kinematics, actuator
    dt: float | None
