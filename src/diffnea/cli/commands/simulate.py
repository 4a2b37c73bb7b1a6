"""`diffnea simulate`: what a robot file or a fit says will happen, as a recording."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from diffnea import manifold
from diffnea.actuators import AbstractActuator, Ideal, Stribeck, Viscous
from diffnea.batches import close_loops, difference
from diffnea.cli import inputs, outputs
from diffnea.cli.arguments.simulate import SimulateArguments
from diffnea.coupled import felt_damping, felt_friction
from diffnea.models import Model
from diffnea.recordings import BaseMotion, Recording, RecordingError, differentiate, is_regular, regular, save_recording
from diffnea.robot import Robot
from diffnea.simulate import rollout
from diffnea.text import aligned, length

_MOST_SAMPLES = 10_000_000


@dataclass(frozen=True)
class Simulate(SimulateArguments):
    """The command; its fields are those of its arguments."""

    def run(self) -> dict[str, Any]:
        inputs.double_precision()
        outputs.check_recording(self.out)
        model = read_model(self.model, self.base, self.loose)
        driver = self._driver(model)
        steps, dt = self._length(driver)
        u = np.zeros((steps, model.num_joints)) if driver is None else driver.u[:steps]
        q0, qd0 = self._start(driver, model)
        gain = None if driver is None or driver.gain is None or model.actuator.loop is None else driver.gain[:steps]
        run = rollout(model, q0, qd0, u, dt, self.integrator, gain=gain)
        recording = Recording(
            time=np.arange(steps) * dt,
            q=np.asarray(run.q)[:, places(model.robot)],
            u=u,
            qd=np.asarray(run.qd)[:, rates(model.robot)],
            base=_base(model.robot, np.asarray(run.q)),
            joint_names=model.robot.joint_names,
            driven=None if driver is None else driver.driven,
            input_kind="command" if driver is None else driver.input_kind,
            gain=gain,
        )
        save_recording(recording, self.out)
        return self._result(recording, driver, run.diverged_at, model)

    def _driver(self, model: Model) -> Recording | None:
        """The input, on a regular grid, with a velocity to start from."""
        if self.input is None:
            return None
        (given,) = inputs.read_recordings((self.input,), model.robot, self.columns)
        pieces = [given] if is_regular(given) else regular(given)
        if len(pieces) > 1:
            raise RecordingError(f"{self.input}: has {len(pieces) - 1} gaps in time; give a stretch without gaps")
        return pieces[0]

    def _length(self, driver: Recording | None) -> tuple[int, float]:
        dt = self.dt if driver is None else driver.dt
        seconds = self.seconds if self.seconds is not None else 5.0 if driver is None else driver.duration
        if not (0 < dt < np.inf and 0 < seconds < np.inf and seconds / dt <= _MOST_SAMPLES):
            raise ValueError(f"simulate: {seconds:g} s in steps of {dt:g} s; give both above zero, 10⁷ steps at most")
        steps = round(seconds / dt) + 1
        if driver is not None and steps > len(driver):
            raise ValueError(f"simulate: the input lasts {driver.duration:g} s; give --seconds up to that")
        return steps, dt

    def _start(self, driver: Recording | None, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """Where it begins: as asked for, as the input does, or with all joints at zero and loops closed."""
        robot = model.robot
        q, qd = np.array(manifold.neutral(robot), float), np.zeros(robot.num_velocities)
        if driver is not None:
            q[places(robot)], qd[rates(robot)] = driver.q[0], _first_velocity(driver)
            if robot.base == "floating" and driver.base is not None and driver.base.has_pose:
                seen = driver.base.signals
                pose = np.column_stack([seen["position"], seen["quaternion"]])[:2]
                ends = np.tile(q, (2, 1))
                ends[:, :7] = pose
                q[:7], qd[:6] = pose[0], np.asarray(difference(robot, *ends))[:6] / driver.dt
        for key, start, own in (("q", q, places(robot)), ("qd", qd, rates(robot))):
            given = getattr(self, key)
            if given and len(given) not in (len(start), len(own)):
                joints = ", ".join(robot.joint_names)
                every = "" if len(start) == len(own) else f", or all {len(start)} of {key}"
                raise ValueError(f"simulate: --{key} has {len(given)} numbers; give one for each of {joints}{every}")
            if given:
                start[own if len(given) == len(own) else slice(None)] = given
        if robot.loops is None:
            return q, qd
        closed, moving = close_loops(robot, q, qd)
        return np.asarray(closed), np.asarray(moving)

    def _result(self, recording: Recording, driver: Recording | None, diverged: Any, model: Model) -> dict[str, Any]:
        robot = model.robot
        result: dict[str, Any] = {
            "out": self.out,
            "model": self.model,
            "samples": len(recording),
            "seconds": recording.duration,
            "joints": list(robot.joint_names),
            "sliding": [robot.tree.kinds[link] == "prismatic" for link in robot.joint_links],
            "last": recording.q[-1].tolist(),
            "diverged_at": None if diverged is None else float(jnp.min(diverged)),
            "error": None,
        }
        if driver is not None:
            wrong = recording.q - driver.q[: len(recording)]
            result["error"] = np.sqrt(np.mean(wrong**2, axis=0)).tolist()
        return result

    def summary(self, result: dict[str, Any]) -> str:
        """The result for a person."""
        rows = [["", *result["joints"]]]
        rows.append(["at the end", *(map(length, result["last"], result["sliding"]))])
        if result["error"] is not None:
            rows.append(["off the input's own motion (RMS)", *map(length, result["error"], result["sliding"])])
        head = f"{result['out']}: {result['samples']} samples, {result['seconds']:g} s of {result['model']}"
        lost = result["diverged_at"]
        return "\n".join([head, *aligned(rows), *([f"diverged at {lost:g} s"] if lost is not None else [])])


def places(robot: Robot) -> list[int]:
    """Where the joints of one coordinate stand in q."""
    return [part.q.start for part in manifold.parts(robot) if part.kind == "single"]


def rates(robot: Robot) -> list[int]:
    """Where their velocities stand in q̇."""
    return [part.v.start for part in manifold.parts(robot) if part.kind == "single"]


def _base(robot: Robot, q: np.ndarray) -> BaseMotion | None:
    return BaseMotion(q[:, :3], q[:, 3:7]) if robot.base == "floating" else None


def _first_velocity(driver: Recording) -> np.ndarray:
    """The smoother leaves out a few samples at each end: its first velocity is that of soon after."""
    return np.asarray(differentiate(driver).qd)[0] if driver.qd is None else driver.qd[0]


def read_model(name: str, base: str | None = None, loose: bool = False) -> Model:
    """The model of a fit's folder, or a robot with the damping and friction that its file states."""
    if Path(name).is_dir():
        start = inputs.read_start(name, (), True, base, loose)
        return Model(start.robot, start.actuator or stated_friction(start.robot))
    robot = inputs.read_robot(name, base=base, loose=loose)
    for link, (joint, kind) in enumerate(zip(robot.tree.joint_names, robot.tree.kinds, strict=True)):
        if kind == "ball" or (kind == "free" and link):
            raise ValueError(f'{name}: joint "{joint}" is {kind}, for which recordings have no columns; lock it')
    return Model(robot, stated_friction(robot))


def stated_friction(robot: Robot) -> AbstractActuator:
    """The actuator of a robot file: its damping, and its dry friction at all speeds alike."""
    dry, viscous = felt_friction(robot), felt_damping(robot)
    if np.any(dry > 0):
        return Stribeck.of(dry, dry, viscous, np.ones(robot.num_joints))
    return Viscous.of(viscous) if np.any(viscous > 0) else Ideal(robot.num_joints)
