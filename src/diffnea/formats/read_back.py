"""What was written, read back and compared: no file is put in place that does not say what the robot is."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from diffnea.formats.description import Curve, Description, RobotFileError, Servo
from diffnea.formats.revision import Curves, Servos
from diffnea.robot import Robot, astype, pulled

# How far numbers may move by the change of frames and units that a file asks for.
_READ_BACK = {"float64": 1e-9, "float32": 1e-5}
# A body's lift is a share of its weight; that of a link changes with the masses of the bodies that make it up.
_LIFT = 1e-2


def curves_of(description: Description) -> dict[str, Curve]:
    """Friction that changes with speed, by joint."""
    return {joint.name: joint.curve for joint in description.joints if joint.curve is not None}


def servos_of(description: Description) -> dict[str, Servo]:
    """Servos, by joint."""
    return {joint.name: joint.servo for joint in description.joints if joint.servo is not None}


def verify(robot: Robot, back: Robot, kind: str) -> None:
    """Refuse to write a file that does not say what the robot is; MJCF may number the joints in another order."""
    names, found = robot.tree.joint_names, back.tree.joint_names
    if sorted(found) != sorted(names) or _movers(back) != _movers(robot):
        raise RobotFileError(f"its joints do not survive as {kind.upper()}: {', '.join(found)} came back")
    back = back if robot.lift is not None else pulled(back)  # it was fitted as gravity pulls it, and the file lifts it
    dtype = robot.inertia.mass.dtype
    order = [found.index(name) for name in names]
    found, wanted = _leaves(astype(back, dtype), kind), _leaves(robot, kind)
    for name in {**wanted, **found}:
        if name not in found or name not in wanted:
            raise RobotFileError(f"its {name} cannot be written as {kind.upper()}: it would be lost")
        other, value = _in_order(name, found[name], order), wanted[name]
        if other.shape != value.shape:
            raise RobotFileError(f"its {name} cannot be written as {kind.upper()}: it would be read back differently")
        share = _LIFT if name.startswith("lift.") else _READ_BACK[dtype.name]
        bound = share * max(np.abs(value[np.isfinite(value)]).max(initial=0.0), 1e-12)
        if not np.allclose(other, value, rtol=0.0, atol=bound):
            raise RobotFileError(f"its {name} cannot be written as {kind.upper()}: it would be read back differently")


def _in_order(name: str, numbers: np.ndarray, order: list[int]) -> np.ndarray:
    """What was read back, its links in the robot's order."""
    if name == "tendons.weights":
        return numbers[:, order]
    return numbers if name == "gravity" or name.startswith(("couplings.", "tendons.", "loops.")) else numbers[order]


def verify_servos(written: Description, wanted: Servos | None) -> None:
    """Refuse to write a file whose servos would be read back as others; old releases of MuJoCo have no delay."""
    found = servos_of(written)
    for name, servo in (wanted or {}).items():
        same = name in found and all(
            np.isclose(getattr(found[name], key), getattr(servo, key), rtol=1e-9, atol=0.0)
            for key in ("stiffness", "damping", "limit", "lag", "integral", "goal_speed")
        )
        if not same:
            raise RobotFileError(f'the servo of joint "{name}" cannot be written: it would be read back differently')


def verify_curves(written: Description, wanted: Curves | None) -> None:
    """Refuse to write a file whose friction would be read back as another."""
    found = curves_of(written)
    for name in () if wanted is None else {*found, *wanted}:
        both = [list(vars(curves[name]).values()) for curves in (found, wanted or {}) if name in curves]
        if len(both) < 2 or not np.allclose(*both, rtol=_READ_BACK["float64"], atol=0.0):
            raise RobotFileError(f'the friction of joint "{name}" cannot be written: it would be read back differently')


def _movers(robot: Robot) -> dict[str, str | None]:
    """Which joint each joint hangs on."""
    names = robot.tree.joint_names
    return {name: names[p] if p >= 0 else None for name, p in zip(names, robot.tree.parents, strict=True)}


def _leaves(robot: Robot, kind: str) -> dict[str, np.ndarray]:
    """A robot's numbers by name, less what the format has no place for: speed limits in MJCF, frame offsets in URDF."""
    lost = {"urdf": "frame_offset", "mjcf": "limits.velocity"}[kind]
    single = np.isin(np.arange(robot.num_links), robot.tree.layout.single)[:, None]
    robot = replace(robot, axis=jnp.where(single, robot.axis, 0.0))  # balls and free links have no use for an axis
    leaves = jax.tree_util.tree_leaves_with_path(robot)
    named = {jax.tree_util.keystr(path).strip("."): np.asarray(leaf, float) for path, leaf in leaves}
    return {name: leaf for name, leaf in named.items() if name != lost}
