"""`diffnea simulate`: what a robot file or a fit says will happen, as a recording."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from diffnea.actuators import AbstractActuator, Ideal, Stribeck, Viscous
from diffnea.cli import inputs, outputs
from diffnea.cli.arguments.simulate import SimulateArguments
from diffnea.models import Model
from diffnea.recordings import Recording, RecordingError, differentiate, is_regular, regular, save_recording
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
        model = read_model(self.model)
        driver = self._driver(model)
        steps, dt = self._length(driver)
        u = np.zeros((steps, model.num_joints)) if driver is None else driver.u[:steps]
        q0, qd0 = self._start("q", driver, model), self._start("qd", driver, model)
        run = rollout(model, q0, qd0, u, dt, self.integrator)
        recording = Recording(
            time=np.arange(steps) * dt,
            q=np.asarray(run.q),
            u=u,
            qd=np.asarray(run.qd),
            joint_names=model.robot.joint_names,
            driven=None if driver is None else driver.driven,
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

    def _start(self, key: str, driver: Recording | None, model: Model) -> np.ndarray:
        given = getattr(self, key)
        if given:
            if len(given) != model.num_joints:
                joints = ", ".join(model.robot.joint_names)
                raise ValueError(f"simulate: --{key} has {len(given)} numbers; give one for each of {joints}")
            return np.array(given)
        if driver is None:
            return np.zeros(model.num_joints)
        if key == "q":
            return driver.q[0]
        # The smoother leaves out a few samples at each end: its first velocity is that of soon after.
        return np.asarray(differentiate(driver).qd)[0] if driver.qd is None else driver.qd[0]

    def _result(self, recording: Recording, driver: Recording | None, diverged: Any, model: Model) -> dict[str, Any]:
        robot = model.robot
        result: dict[str, Any] = {
            "out": self.out,
            "model": self.model,
            "samples": len(recording),
            "seconds": recording.duration,
            "joints": list(robot.joint_names),
            "sliding": [kind == "prismatic" for kind in robot.tree.kinds],
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


def read_model(name: str) -> Model:
    """The model of a fit's folder, or a robot with the damping and friction that its file states."""
    start = inputs.read_start(name)
    return Model(start.robot, start.actuator or stated_friction(start.robot))


def stated_friction(robot: Robot) -> AbstractActuator:
    """The actuator of a robot file: its damping, and its dry friction at all speeds alike."""
    if np.any(np.asarray(robot.friction) > 0):
        return Stribeck.of(robot.friction, robot.friction, robot.damping, np.ones(robot.num_joints))
    return Viscous.of(robot.damping) if np.any(np.asarray(robot.damping) > 0) else Ideal(robot.num_joints)
