"""`diffnea check`: what is wrong with recordings, and what they can and cannot identify."""

import shlex
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from diffnea import files, identify, report
from diffnea.actuators import AbstractActuator, for_robot
from diffnea.cli import inputs, outputs
from diffnea.cli.arguments.check import CheckArguments
from diffnea.cli.commands.simulate import stated_friction
from diffnea.cli.feet import feet_of
from diffnea.cli.registry import arguments_class
from diffnea.cli.words.check_verdict import verdict
from diffnea.cli.words.check_words import check_in_words
from diffnea.cli.words.suspicions import suspicions, unit_suspicions
from diffnea.excitation import foretold
from diffnea.excitation.choosing import AUTO
from diffnea.excitation.forecast import Foretold, around
from diffnea.identify.judge.mistakes.hints import hints
from diffnea.identify.notes import SCALES, Note
from diffnea.identify.payload import Payload
from diffnea.identify.problem.measurements.tracks import split
from diffnea.identify.solve.regression.choice import Choice
from diffnea.identify.solve.regression.part_search import MOST_DELAY
from diffnea.models import Model
from diffnea.recordings import Diagnosis, LimitContact, Recording, diagnose, limit_contacts
from diffnea.recordings.diagnosis.unit_signs import far_outside
from diffnea.robot import Robot

# A joint whose accelerations are less than this many times their noise tells little of its inertia.
_WEAK = 3.0
# A recorded velocity this late is not what it says, s.
_LATE = 2e-3
# What is told of data in a wrong unit.
_NOTHING: dict[str, Any] = {
    **dict.fromkeys(("actuator", "loss", "noise_variance", "effective_samples", "payload")),
    **{key: [] for key in ("notes", "hints", "hint_codes", "combinations", "unknown")},
    **dict.fromkeys(("rank", "structural_rank", "unknowns"), 0),
    "short_fit": False,
    "only_ratios": False,
}
# Arguments that a command to go on with has in its own way.
_OWN = ("robot", "recordings", "out", "all", "json", "quiet", "debug")


@dataclass(frozen=True)
class Check(CheckArguments):
    """The command; its fields are those of its arguments."""

    def run(self) -> dict[str, Any]:
        inputs.double_precision()
        if self.out is not None:
            outputs.check_file(self.out)
        begun = inputs.read_start(self.robot, self.lock, True, self.base, self.loose)
        robot = begun.robot
        data = inputs.read_recordings(self.recordings, robot, self.columns, self.measured, self.goals)
        with inputs.at_work(f"looking over {sum(map(len, data))} samples", self.json or self.quiet):
            diagnoses = [diagnose(recording) for recording in data]
            units = unit_suspicions(data, robot)
            told = _NOTHING if units else self._foretold(begun, data)
        result = {
            "robot": self.robot,
            "given": list(self.recordings),
            "joints": list(robot.joint_names),
            "sliding": [robot.tree.kinds[link] == "prismatic" for link in robot.joint_links],
            "all_driven": robot.base == "fixed" and bool(np.all(np.asarray(robot.joint_limits.effort) > 0)),
            "recordings": [finding(*pair, robot) for pair in zip(data, diagnoses, strict=True)],
            "stopped": bool(units),
            **told,
            "options": {command: _typed(self, command) for command in ("fit", "excite")},
            "report": self.out,
        }
        result["verdict"] = verdict(result, units)
        if self.out is not None:
            report.check(result, data, diagnoses, self.out)
        return result

    def _foretold(self, begun: inputs.Start, data: list[Recording]) -> dict[str, Any]:
        """What a fit would choose and determine, and hints at what is wrong."""
        if begun.robot.base == "floating":
            return self._of_free_base(begun.robot, data)
        (choice, told), payload = self._told(begun, data)
        hinted = () if "payload" in self.learn else _hints(begun.robot, data)
        hinted = [each for each in hinted if not _covered(each, choice)]
        return {
            "actuator": choice.actuator if isinstance(choice.actuator, str) else type(choice.actuator).__name__,
            "loss": choice.loss,
            "short_fit": _has_servos(choice.actuator),  # of which a robot file says nothing
            "only_ratios": any(each.code in SCALES for each in told.unknown),
            "notes": list(map(str, choice.notes)),
            "hints": list(map(str, hinted)),
            "hint_codes": [each.code for each in hinted],
            **told.to_dict(),
            "payload": None if payload is None else payload.to_dict(),
        }

    def _of_free_base(self, robot: Robot, data: list[Recording]) -> dict[str, Any]:
        """The same of a free base: its equations are linear, so that a fit takes no longer than a forecast."""
        if "payload" in self.learn:
            raise ValueError(
                "check: of a free base a payload is found as quickly as foretold: diffnea fit … --learn payload"
            )
        learn = inputs.parts_to_learn(self.learn)
        found = identify.fit(robot, data, learn=learn, actuator=self.actuator, loss=self.loss, feet=feet_of(self.feet))
        given = Model(robot, for_robot(found.config["actuator"], robot))
        return _NOTHING | {
            "actuator": found.config["actuator"],
            "loss": found.config["loss"],
            "notes": list(map(str, found.notes)),
            "combinations": [around(each, given).to_dict() for each in found.identifiable],
            "unknown": list(map(str, found.unknown)),
            **(found.known.counts or {}),
        }

    def _told(self, begun: inputs.Start, data: list[Recording]) -> tuple[Foretold, Payload | None]:
        """What a fit would determine; a payload is solved for, since that is as quick as to foretell it."""
        robot, own = begun.robot, begun.actuator if self.actuator == AUTO else None
        if "payload" not in self.learn:
            learn = inputs.parts_to_learn(self.learn)
            return foretold(robot, data, learn, own or self.actuator, self.loss), None
        found = identify.fit(begun.fit or robot, data, learn=self.learn, actuator=self.actuator)
        rubs = own or (stated_friction(robot) if self.actuator == AUTO else self.actuator)
        return foretold(robot, data, ("inertia",), rubs, "torque", links=robot.link_names[-1:]), found.payload

    def summary(self, result: dict[str, Any]) -> str:
        """The result for a person."""
        return check_in_words(result, self.all)

    def outcome(self, result: dict[str, Any]) -> str:
        """The verdict in one line."""
        said, verdict = {"good enough for": "good_for", "not for": "not_for"}, result["verdict"]
        return "; ".join(f"{head}: {', '.join(verdict[key])}" for head, key in said.items() if verdict[key])


def _has_servos(actuator: str | AbstractActuator) -> bool:
    return "servo" in actuator.split("+") if isinstance(actuator, str) else actuator.loop is not None


def _covered(hint: Note, choice: Choice) -> bool:
    """Whether a fit learns by itself what a hint asks for, since evidence chose it."""
    if hint.code == "hint-armature":
        return "armature" in (choice.learn or ())
    parts = choice.actuator.split("+") if isinstance(choice.actuator, str) else ()
    return hint.code == "hint-delay" and "delay" in parts and float(str(hint.values["samples"])) <= MOST_DELAY


def _typed(given: CheckArguments, command: str) -> str:
    """The options of this check that another command takes too, as they are typed; with a blank before each."""
    taken, words = {each.name: each for each in fields(arguments_class(command))}, []
    for each in fields(given):
        value, other = getattr(given, each.name), taken.get(each.name)
        if each.name in _OWN or other is None or value == other.default:
            continue
        several = value if isinstance(value, tuple) else (value,)
        words += [f"--{each.name}", *(() if value is True else map(shlex.quote, several))]
    return "".join(f" {word}" for word in words)


def _hints(robot: Robot, data: list[Recording]) -> tuple[Note, ...]:
    """What would explain these data far better than file and log as they are: a fit's hints, before any fit."""
    if any(recording.input_kind == "goal" for recording in data):
        return ()
    parts = split(data, None, robot.joint_names, robot.num_joints, 0)
    with np.errstate(all="ignore"):
        return hints(robot, (*parts.fitted, *parts.test))


def finding(recording: Recording, found: Diagnosis, robot: Robot) -> dict[str, Any]:
    """A recording's diagnosis, as plain numbers and as advice."""
    joints = [
        {**asdict(moved), "noise": smoothed.noise, "encoder_step": smoothed.step, "bandwidth": smoothed.bandwidth}
        for moved, smoothed in zip(found.excitation, found.smoothing.joints, strict=True)
    ]
    contacts = limit_contacts(recording, robot, [smoothed.noise for smoothed in found.smoothing.joints])
    wrong = far_outside(recording, robot)  # their cause is another, which the suspicions name
    contacts = [each for each in contacts if not wrong[robot.joint_names.index(each.joint)]]
    return {
        "name": recording.name,
        "sampling": asdict(found.sampling),
        "said": str(found.sampling),
        "joints": files.finite(joints),
        "saturation": [asdict(each) for each in found.saturation],
        "delays": [asdict(each) for each in found.delays],
        "velocity_lags": files.finite([asdict(lag) for lag in found.velocity_lags]),
        "limit_contacts": [asdict(each) for each in contacts],
        "problems": [*suspicions([recording], robot), *map(_stopped, contacts), *_problems(found, recording)],
        "notes": list(recording.notes),
    }


def _stopped(contact: LimitContact) -> str:
    return f"{contact}, where the force of the stop adds to its torque; keep away from the limit, or leave this out"


def _problems(found: Diagnosis, recording: Recording) -> list[str]:
    """What a person should know or change, a sentence each; of goals and positions nothing is differentiated."""
    said, goals = [], recording.input_kind == "goal"
    if not goals:
        said += [str(each) for each in found.saturation]
        said += [f"{each}; the positions are used instead" for each in found.velocity_lags if abs(each.lag) > _LATE]
    said += [f"{each}; learn it with +delay" for each in found.delays if each.seconds > max(_LATE, 3 * each.std)]
    for moved in found.excitation:
        if moved.moving == 0 or moved.lowest == moved.highest:
            said.append(f"{moved.joint}: it never moves")
        elif moved.signal_to_noise < _WEAK and not goals:
            said.append(
                f"{moved.joint}: accelerations are only {moved.signal_to_noise:.2g} times their noise; "
                "move it faster, or use the trajectory loss"
            )
    if found.sampling.gaps:
        said.append(f"{found.sampling.gaps} gaps in time split the recording")
    if not any(recording.driven):
        said.append("no joint has an input: masses and forces are known only up to a common factor")
    return said
