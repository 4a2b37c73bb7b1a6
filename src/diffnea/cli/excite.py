"""`diffnea excite`: a motion to record that tells the most about the robot."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from tyro.conf import Positional

from diffnea.cli import inputs, outputs
from diffnea.cli.words import excite_in_words
from diffnea.excitation import Expectation, chosen, design, expectation
from diffnea.excitation.choosing import AUTO
from diffnea.recordings import save_recording


@dataclass(frozen=True)
class Excite:
    """Plan a motion that determines what is missing: a Fourier series from rest to rest, within the robot's limits.

    Position, velocity and torque limits are those of the robot file. The CSV has q, qd, qdd to follow and u, the torque
    it takes. With --recordings it also says which intervals shrink, and by how much.
    """

    robot: Positional[str]
    """The robot file, or the name of a robot that comes with diffnea. All its joints must be driven."""
    recordings: tuple[str, ...] = ()
    """What was recorded so far."""
    learn: tuple[str, ...] = (AUTO,)
    """As for a fit: auto, or any of inertia, kinematics, armature, calibration, actuator."""
    actuator: str = AUTO
    """As for a fit: auto chooses by evidence where --recordings tell, else viscous; or parts joined by +."""
    criterion: Literal["D", "E"] = "D"
    """D: all combinations together; E: the one that is known least."""
    seconds: float = 10.0
    """How long the motion lasts."""
    bandwidth: float = 1.0
    """Its highest frequency in Hz."""
    rate: float = 250.0
    """Samples a second in the file."""
    acceleration: float | None = None
    """A limit of accelerations, rad/s² or m/s², which robot files do not have."""
    noise: float = 0.01
    """Torque noise to expect, as a share of each joint's effort, where no recordings tell."""
    columns: str | None = None
    """A TOML file that says which columns of the recordings are what."""
    measured: bool = False
    """The logs' inputs are torques measured at each sample, as ROS efforts are, not commands with zero-order hold."""

    goals: bool = False
    """The logs' inputs are position goals of servos, in the units of positions."""
    lock: tuple[str, ...] = ()
    """Joints that are held still, as finger or wrist=0.5 (rad or m); as a gripper on an arm."""
    seed: int = 0
    """Of the random motions that the search begins with."""
    out: str = "excitation.csv"
    """The motion to write: .csv or .npz."""
    all: bool = False
    """Print base parameters and everything that the data do not tell, too."""
    json: bool = False
    """Print the result as one JSON object."""
    debug: bool = False
    """Show where in the program an error came from."""

    def run(self) -> dict[str, Any]:
        inputs.double_precision()
        outputs.check_recording(self.out)
        robot = inputs.read_robot(self.robot, lock=self.lock)
        told = self.columns, self.measured, self.goals
        recorded = inputs.read_recordings(self.recordings, robot, *told) if self.recordings else []
        with inputs.at_work(f"planning {self.seconds:g} s for {robot.name}", self.json):
            choice = chosen(robot, recorded, inputs.parts_to_learn(self.learn), self.actuator, "torque", self.seed)
            task: dict[str, Any] = {"learn": choice.learn, "actuator": choice.actuator}
            task |= {"noise": self.noise, "seed": self.seed}
            found = design(
                robot,
                seconds=self.seconds,
                bandwidth=self.bandwidth,
                rate=self.rate,
                criterion=self.criterion,
                acceleration=self.acceleration,
                **task,
            )
            save_recording(found.recording, self.out)
            told = expectation(robot, found.recording, recorded, **task)
        return {
            "out": self.out,
            "robot": self.robot,
            "joints": list(robot.joint_names),
            "samples": len(found.recording),
            "seconds": found.recording.duration,
            "criterion": self.criterion,
            "actuator": choice.actuator,
            "notes": list(map(str, choice.notes)),
            # Information goes with the inverse square of intervals.
            "narrower": float(np.exp((found.score - np.mean(found.starts)) / 2)),
            "used": found.used,
            **_told(told),
        }

    def summary(self, result: dict[str, Any]) -> str:
        """The result for a person."""
        return excite_in_words(result, self.all)


def _told(told: Expectation) -> dict[str, Any]:
    """Intervals after the motion, each beside that before where the recordings determine the same combination."""
    before = {} if told.before is None else {each.formula: each.std for each in told.before.combinations}
    rows = [{**each.to_dict(), "before": before.get(each.formula)} for each in told.after.combinations]
    return {
        "rank": told.after.rank,
        "structural_rank": told.after.structural_rank,
        "rank_before": None if told.before is None else told.before.rank,
        "combinations": rows,
        "unknown": list(map(str, told.after.unknown)),
    }
