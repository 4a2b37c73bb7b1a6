"""Linearised: a fitted problem at its solution, everything that an analysis of what the data determine needs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Array, Bool, Float, Int

from diffnea.actuators.base import Role
from diffnea.identify.problem.measurements.rows import Rows
from diffnea.identify.problem.torque_effect import TorqueEffect
from diffnea.models import Model


@dataclass(frozen=True)
class Motion:
    """What the joints did in the data: where they were, how well that was read, and whether they were commanded."""

    lower: Float[np.ndarray, " n"]
    upper: Float[np.ndarray, " n"]
    noise: Float[np.ndarray, " n"]  # standard deviation of a reading
    commanded: Bool[np.ndarray, " n"]

    @classmethod
    def of(cls, data: Sequence[Rows]) -> "Motion":
        """Of all samples."""
        q, u = (np.concatenate([np.asarray(getattr(rows.batch, key)) for rows in data]) for key in ("q", "u"))
        noise = np.max([np.zeros(q.shape[1]) if rows.noise is None else rows.noise for rows in data], axis=0)
        return cls(q.min(axis=0), q.max(axis=0), noise, np.any(u != 0, axis=(0, 1)))

    @property
    def middle(self) -> Float[np.ndarray, " n"]:
        """The pose in the middle of the motion, rounded so that it can be written down."""
        return np.round((self.lower + self.upper) / 2, 2)

    @property
    def moved(self) -> Bool[np.ndarray, " n"]:
        """Whether a joint went farther than noise reaches: to six standard deviations, with next to certainty."""
        return self.upper - self.lower > np.maximum(6 * self.noise, 1e-12)


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
    unpack: Callable[[Float[Array, " p"]], Model]
    learned: tuple[str, ...]  # parts: any of inertia, kinematics, actuator
    dt: float | None
    starts: Float[np.ndarray, "rows k"] | None = None  # segments are windows of one length: what each one's start spans
    rough: bool = False  # slopes are differences, of roll-outs that dry friction makes rough in the small
    zeros: Mapping[int, int] = field(default_factory=dict)  # where the zero positions of joints stand in θ
    curve: Mapping[Role, Int[np.ndarray, " n"]] = field(default_factory=dict)  # and those of their Stribeck curves
    motion: Motion | None = None
    scaled_by_inertia: tuple[int, ...] = ()  # joints of servos that no gravity acts on, by their place in q
    far: Bool[np.ndarray, " rows"] | None = None  # rows whose filter does not reach to a reversal; None: not known
    untimed: bool = False  # inputs were measured at some instant within a sample, and no delay is learned
    redrawn: Callable[[Callable[[Rows], Rows]], "Linearised"] | None = None  # the same with other data
    torques: Callable[[], "Linearised"] | None = None  # the torque equations of the same data, if this has others
    effect: TorqueEffect | None = None  # the data behind it, where torques can be tried on them

    def only(self, kept: Bool[np.ndarray, " rows"]) -> "Linearised":
        """The same with some of the rows."""
        names = ("jacobian", "residuals", "joint", "sample", "segment")
        redrawn = self.redrawn
        return replace(
            self,
            **{name: getattr(self, name)[kept] for name in names},
            far=None if self.far is None else self.far[kept],
            starts=None if self.starts is None else self.starts[kept],
            redrawn=None if redrawn is None else lambda change: redrawn(change).only(kept),
        )

    @property
    def equations(self) -> "Linearised":
        """The torque equations of the same data, where friction of a joint enters one equation only."""
        return self if self.torques is None else self.torques()
