"""Request: what was asked of a fit, and its data as the fit sees them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from diffnea.actuators import AbstractActuator
from diffnea.files import Json
from diffnea.identify.floating.contacts import Foot
from diffnea.identify.options import Options
from diffnea.identify.problem.measurements.tracks import Data, Split, split
from diffnea.identify.progress import stage
from diffnea.models import FeedForward
from diffnea.recordings import as_list
from diffnea.robot import Robot

# Residuals for each number to learn, at least.
ROWS_A_NUMBER = 2


@dataclass(frozen=True)
class Request:
    """What was asked for, as `fit` takes it."""

    given: Robot | FeedForward
    data: Data
    learn: tuple[str, ...] | None
    actuator: str | AbstractActuator
    method: str
    loss: str
    start: str
    seed: int
    test: Data | None
    robust: bool | None
    starts: int | None
    steps: int | None
    links: tuple[str, ...] | None
    joints: tuple[str, ...] | None
    known: Json
    options: Options
    feet: Mapping[str, Foot] = field(default_factory=dict)  # of a free base, by name

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The robot's, or numbers for a network."""
        given = self.given
        return given.joint_names if isinstance(given, Robot) else tuple(map(str, range(given.num_joints)))

    @property
    def from_file(self) -> bool:
        """Whether the robot's own numbers are worth something."""
        return self.start == "nominal" and isinstance(self.given, Robot)

    @property
    def compares_torques(self) -> bool:
        """Whether a fit is of torques."""
        return self.loss == "torque" or self.method == "linear"

    @property
    def measured(self) -> bool:
        """Whether inputs are known to be measured, not commanded."""
        return any(getattr(each, "measured", False) for each in as_list(self.data))

    @property
    def goals(self) -> bool:
        """Whether the recordings say that their inputs are position goals."""
        return any(getattr(each, "input_kind", "command") == "goal" for each in as_list(self.data))

    def prepared(self) -> Split:
        """The data in the robot's order, differentiated and divided."""
        names = self.given.joint_names if isinstance(self.given, Robot) else None
        with stage("preparing data"):
            return split(self.data, self.test, names, self.given.num_joints, self.seed, self.options.problem)

    def config(self, named: tuple[str, ...], parts: Split) -> Json:
        """What was fitted to what, for people; `named` are the parts that were learned."""
        asked = ("method", "loss", "start", "seed", "robust", "starts", "steps")
        return {
            "robot": getattr(self.given, "name", type(self.given).__name__),
            "learn": list(named),
            "links": self.links and list(self.links),
            "joints": self.joints and list(self.joints),
            "known": {name: np.asarray(value).tolist() for name, value in self.known.items()} or None,
            "actuator": self.actuator if isinstance(self.actuator, str) else type(self.actuator).__name__,
            **{name: getattr(self, name) for name in asked},
            "slip": parts.slip and list(parts.slip),
            "hold": parts.hold and list(parts.hold),
            "samples": sum(map(len, (*parts.fitted, *parts.test))),
            "recordings": list(dict.fromkeys(track.name for track in (*parts.fitted, *parts.test))),
        }
