"""The one place that calls diffnea: robots, recordings, fits, truths in the form of a fit, and what a fit says."""

import inspect
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import diffnea as dn
from benchmarks.outside.robots import Machine, urdf
from benchmarks.outside.simulate import Experiment, Log, machine_of
from diffnea import actuators
from diffnea.identify.judge.windows import without_delay
from diffnea.simulate.delay import delayed, weights

NO_FRICTION = 1e-12  # an actuator has no exact zero
# Kinds of numbers, by how the formula of one that belongs to an actuator begins.
OF_ACTUATORS = {
    "static": "static friction|f_s",
    "kinetic": "(kinetic|Coulomb) friction|f_k",
    "Stribeck velocity": "Stribeck velocity|v_s",
    "viscous": "viscous|damping",
    "delay": "(input )?delay",
    "gain": "(command )?gain|torque per volt",
}
KINDS = (
    "inertial",
    "gravity",
    "armature",
    "viscous",
    "kinetic",
    "static",
    "Stribeck velocity",
    "delay",
    "gain",
    "other",
)


def load(machine: Machine) -> dn.Robot:
    """The machine's file, read by diffnea."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{machine.name}.urdf"
        path.write_text(urdf(machine))
        return dn.load_robot(path)


def recording(log: Log, machine: Machine, measured: bool = False, **changes: Any) -> dn.Recording:
    """What a user would load: times, positions and inputs."""
    fields = {"time": log.time, "q": log.q, "u": log.u, "joint_names": machine.joint_names, "driven": machine.driven}
    found = dn.Recording(**{**fields, **changes})
    return dn.recordings.as_held(found) if measured else found


def fit_with(robot: dn.Robot, recordings: list[dn.Recording], **options: Any) -> dn.Fit:
    """A fit with stated options."""
    _double()
    return dn.fit(robot, recordings, **options)


def fit_as_a_user(robot: dn.Robot, recordings: list[dn.Recording]) -> dn.Fit:
    """A fit with the package's defaults; where these leave friction out, with friction and torques."""
    _double()
    automatic = inspect.signature(dn.fit).parameters["actuator"].default == "auto"
    options: dict[str, Any] = {} if automatic else {"actuator": "stribeck", "loss": "torque"}
    return dn.fit(robot, recordings, **options)


def _double() -> None:
    jax.config.update("jax_enable_x64", True)


# Truth -----------------------------------------------------------------------------------------------------------


def truth_like(found: Any, experiment: Experiment) -> dn.Model:
    """The true robot with the true actuator, in the parts that a fitted model has."""
    machine = machine_of(experiment)
    parts = found.actuator.parts if hasattr(found.actuator, "parts") else (found.actuator,)
    true = [_part(part, experiment, machine) for part in parts]
    return dn.Model(load(machine), actuators.combine(*true))


def _part(part: Any, experiment: Experiment, machine: Machine) -> Any:
    friction, count = machine.friction, machine.count
    if isinstance(part, actuators.Viscous):
        return actuators.Viscous.of(friction.viscous)
    if isinstance(part, actuators.Coulomb):  # what is left of dry friction at speed
        return actuators.Coulomb.of(np.maximum(friction.kinetic, NO_FRICTION))
    if isinstance(part, actuators.Stribeck):
        dry = np.maximum(friction.static, NO_FRICTION), np.maximum(friction.kinetic, NO_FRICTION)
        return actuators.Stribeck.of(*dry, friction.viscous, 1 / friction.speed**2)
    if isinstance(part, actuators.Delay):
        shape = np.full(count, experiment.delay) if np.size(part.raw) > 1 else experiment.delay
        return actuators.Delay.of(shape, count, part.most_delay)
    if isinstance(part, actuators.Gain):
        return actuators.Gain.of(np.full(count, experiment.gain), driven=part.driven)
    if isinstance(part, actuators.Ideal):
        return part
    raise NotImplementedError(f"{type(part).__name__} is in no simulated machine")


@dataclass(frozen=True)
class Number:
    """A number that a fit gives an interval for, beside the truth."""

    formula: str
    kind: str
    value: float
    lower: float
    upper: float
    true: float

    @property
    def held(self) -> bool:
        """Whether the truth is within; a bound that is infinite or missing leaves that side open."""
        return not self.true < self.lower and not self.true > self.upper


def numbers(fit: dn.Fit, experiment: Experiment) -> list[Number]:
    """Everything in `fit.identifiable`, with the truth; what has none, as the speed of no friction, is left out."""
    truth = truth_like(fit.model, experiment)
    smooth = experiment.friction != "dry"
    found = []
    for each in fit.identifiable:
        kind = kind_of(each.kind, each.formula)
        if smooth and "Stribeck velocity" in each.formula:
            continue
        lower = -np.inf if each.lower is None else float(each.lower)
        upper = np.inf if each.upper is None else float(each.upper)
        found.append(Number(each.formula, kind, float(each.value), lower, upper, float(each.of(truth))))
    return found


def kind_of(kind: str, formula: str) -> str:
    """The row of the table that a number belongs to."""
    if kind != "actuator":
        return {"inertia": "inertial"}.get(kind, kind if kind in KINDS else "other")
    return next((name for name, words in OF_ACTUATORS.items() if re.match(rf"\(?({words})", formula)), "other")


# What a fit says -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    """A fit's verdict, with all that it says beside it."""

    verdict: str
    codes: tuple[str, ...]
    text: str


def said_by(fit: dn.Fit) -> Said:
    """Verdict, codes of all notes, and every sentence."""
    items = [*fit.verdict.notes, *fit.notes]
    return Said(fit.verdict.status, tuple(item.code for item in items), "\n".join(map(str, items)))


# Prediction ------------------------------------------------------------------------------------------------------

WINDOW = 0.5  # s
MOST = 3.0  # spreads: what is further off is as wrong
SLOW = 3.0  # Stribeck velocities; below these the sign of friction is not compared


def rollout_error(model: Any, log: Log, rate: int) -> float:
    """Root mean square over windows of 0.5 s of the error in spreads, from true states, each at most 3.

    Commands of before a window arrive in it where the model has learned that they come late.
    """
    steps = round(WINDOW * rate)
    starts = np.arange(rate // 2, len(log.time) - steps, steps)
    prompt, late = without_delay(model)
    arrived = log.u if late is None else np.asarray(delayed(jnp.asarray(log.u), weights(late.delay, late.most)))
    u = np.stack([arrived[k : k + steps + 1] for k in starts])
    with np.errstate(all="ignore"):
        run = dn.rollout(prompt, log.true_q[starts], log.true_qd[starts], u, dt=1 / rate)
    true = np.stack([log.true_q[k : k + steps + 1] for k in starts])
    off = (np.asarray(run.q) - true) / log.true_q.std(0)
    each = np.sqrt(np.mean(np.minimum(np.nan_to_num(np.abs(off), nan=MOST, posinf=MOST), MOST) ** 2, axis=(1, 2)))
    return float(np.sqrt(np.mean(each**2)))


def torque_error(model: Any, log: Log, machine: Machine, size: np.ndarray) -> float:
    """Of true motion, what force is left over, as a share of the inputs' `size`; worst joint with a motor."""
    slips = np.all(np.abs(log.true_qd) > SLOW * np.maximum(machine.friction.speed, 1e-3), axis=1)
    q, v, a, u = (rows[slips] for rows in (log.true_q, log.true_qd, log.true_qdd, log.u))
    acts = jax.vmap(model.actuator)(u, q, v)
    left = np.asarray(dn.inverse_dynamics(model.robot, q, v, a)) - np.asarray(acts)
    share = np.sqrt(np.mean(np.square(left), axis=0)) / size
    return float(np.max(np.nan_to_num(share[machine.driven], nan=np.inf)))
