"""`diffnea fit`: from a robot file and recordings to an identified robot file, or a rejected one, with the verdict."""

import time
from dataclasses import dataclass
from typing import Any

from diffnea import identify, report
from diffnea.cli import inputs, outputs
from diffnea.cli.arguments.fit import FitArguments
from diffnea.cli.feet import feet_of
from diffnea.cli.words.results import fit_in_words
from diffnea.cli.words.suspicions import refuse_wrong_goals, suspicions, timing
from diffnea.excitation.choosing import AUTO
from diffnea.identify.judge.verdict import ACCEPTED
from diffnea.robot import Robot
from diffnea.text import count

FRICTION = "stribeck"  # of --learn friction, where no actuator is asked for
NOT_ACCEPTED = 3  # the exit code


@dataclass(frozen=True)
class Fit(FitArguments):
    """The command; its fields are those of its arguments."""

    def run(self) -> dict[str, Any]:
        inputs.double_precision()
        outputs.check_folder(self.out)
        began = time.perf_counter()
        begun = inputs.read_start(self.robot, self.lock, True, self.base, self.loose)
        robot = begun.robot
        data = inputs.read_recordings(self.recordings, robot, self.columns, self.measured, self.goals)
        test = inputs.read_recordings(self.test, robot, self.columns, self.measured, self.goals) if self.test else None
        refuse_wrong_goals([*data, *(test or ())], robot)
        learn, actuator = self._chosen(begun.fit is not None)
        samples = sum(map(len, data))
        doing, silent = f"learning {robot.name} from {count(samples, 'sample')}", self.json or self.quiet
        with inputs.watching(doing, silent) as watch:
            fit = identify.fit(
                begun.fit or robot,
                data,
                learn=learn,
                actuator=actuator,
                method=self.method,
                loss=self.loss,
                start=self.start,
                seed=self.seed,
                test=test,
                robust=self.robust or None,
                links=self.links or None,
                joints=self.joints or None,
                known=_known(self.set),
                feet=feet_of(self.feet),
                progress=watch,
            )
            _tell(watch, "working out what the data determine")
            saved = fit.save(self.out)
            _tell(watch, "drawing the page")
            drawn = report.save_page(fit, self.out)
        suspected = [*_rejected(self.robot, begun.fit), *suspicions([*data, *(test or ())], robot)]
        suspected += timing(data) if fit.config["loss"] == "torque" else []
        found = self._result(fit, robot, len(data), samples, suspected)
        written = {"lacking": list(saved.lacking), "files": sorted([*saved.files, drawn.name])}
        return found | written | {"seconds": round(time.perf_counter() - began, 2)}

    def _chosen(self, goes_on: bool) -> tuple[tuple[str, ...] | None, str]:
        """What to learn and the actuator, with friction spelled out; a fit that goes on has an actuator already."""
        if "friction" not in self.learn:
            return inputs.parts_to_learn(self.learn), self.actuator
        learn = tuple("actuator" if part == "friction" else part for part in self.learn)
        return learn, FRICTION if self.actuator == AUTO and not goes_on else self.actuator

    def _result(
        self, fit: identify.Fit, robot: Robot, recordings: int, samples: int, suspected: list[str]
    ) -> dict[str, Any]:
        return {
            "out": self.out,
            "robot": self.robot,
            "joints": list(robot.joint_names),
            "sliding": [robot.tree.kinds[link] == "prismatic" for link in robot.joint_links],
            "recordings": recordings,
            "samples": samples,
            "actuator": fit.config["actuator"],
            "learned": fit.config["learn"],
            "verdict": fit.verdict.status,
            "reasons": list(fit.verdict.reasons),
            "reason_codes": list(fit.verdict.codes),
            "status": fit.status,
            "metrics": fit.metrics.to_dict(),
            "payload": None if fit.payload is None else fit.payload.to_dict(),
            "identifiable": [each.to_dict() for each in fit.identifiable],
            "unknown": list(map(str, fit.unknown)),
            "table": fit.table.to_dicts(),
            "unknown_codes": [each.code for each in fit.unknown],
            "notes": list(map(str, fit.notes)),
            "note_codes": [each.code for each in fit.notes],
            "suspicions": suspected,
        }

    def summary(self, result: dict[str, Any]) -> str:
        """The result for a person."""
        return fit_in_words(result, self.all)

    def outcome(self, result: dict[str, Any]) -> str:
        """Where it is, and the verdict."""
        return f"{result['out']}: {result['verdict']}"

    def exit_code(self, result: dict[str, Any]) -> int:
        """3 where a fit was made and not accepted, so that a script does not go on with it."""
        return 0 if result["verdict"] == ACCEPTED else NOT_ACCEPTED


def _rejected(name: str, earlier: identify.Fit | None) -> list[str]:
    """A start that was not accepted is worth a word."""
    if earlier is None or earlier.verdict == ACCEPTED:
        return []
    return [f"{name}: this start is a fit that was not accepted ({earlier.verdict.status})"]


def _tell(watch: inputs.Watch | None, stage: str) -> None:
    if watch is not None:
        watch(stage, 0, 0, float("nan"))


def _known(settings: tuple[str, ...]) -> dict[str, list[float]]:
    """As "delay=2" and "viscous=0.1,0.2"."""
    found = {}
    for setting in settings:
        name, _, values = setting.partition("=")
        try:
            found[name] = [float(value) for value in values.split(",")]
        except ValueError:
            raise ValueError(f'fit: --set has "{setting}"; give NAME=NUMBER, or a number a joint with commas') from None
    return found
