"""`diffnea excite`: a motion to record that tells the most about the robot."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from diffnea.cli import inputs, outputs
from diffnea.cli.arguments.excite import ExciteArguments
from diffnea.cli.feet import feet_of
from diffnea.cli.words.results import excite_in_words
from diffnea.excitation import Expectation, chosen, design, expectation
from diffnea.recordings import save_recording


@dataclass(frozen=True)
class Excite(ExciteArguments):
    """The command; its fields are those of its arguments."""

    def run(self) -> dict[str, Any]:
        inputs.double_precision()
        outputs.check_recording(self.out)
        robot = inputs.read_robot(self.robot, lock=self.lock, base=self.base)
        feet = feet_of(self.feet)
        if feet and robot.base == "fixed":
            raise ValueError("excite: feet are for a robot with a free base; leave --feet out")
        if self.recordings and robot.base == "floating":
            raise ValueError("excite: of a free base motions are planned without recordings; leave --recordings out")
        told = self.columns, self.measured, self.goals
        recorded = inputs.read_recordings(self.recordings, robot, *told) if self.recordings else []
        with inputs.at_work(f"planning {self.seconds:g} s for {robot.name}", self.json or self.quiet):
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
                feet=tuple(feet.values()),
                stance=_numbers(self.stance),
                **task,
            )
            save_recording(found.recording, self.out)
            told = (
                Expectation(None, found.told) if found.told else expectation(robot, found.recording, recorded, **task)
            )
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


def _numbers(stance: str) -> tuple[float, ...]:
    try:
        return tuple(float(each) for each in stance.split(",")) if stance else ()
    except ValueError:
        raise ValueError(f'excite: --stance has "{stance}"; give angles with commas, as 0,0.9,-1.8') from None


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
