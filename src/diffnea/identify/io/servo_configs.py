"""Learned servos as other programs are told them: actuators of mjlab and of Isaac Lab, parameters of BAM.

Each holds a part of the model; what it lacks stands in the file itself.
"""

import json
from typing import NamedTuple

import numpy as np

from diffnea.actuators import Combined, Load, Stribeck
from diffnea.formats import Servo
from diffnea.models import Model
from diffnea.robot import Robot

MJLAB, ISAAC_LAB, BAM = FILES = ("servo_mjlab.py", "servo_isaaclab.py", "servo_bam.json")


class _Row(NamedTuple):
    """One joint's servo, and what the robot file has of its joint."""

    joint: str
    servo: Servo
    armature: float
    friction: float
    viscous: float


def servo_configs(model: Model, robot: Robot, servos: dict[str, Servo]) -> dict[str, str]:
    """The text of each file by its name; `robot` has friction as a line, under the usual load."""
    columns = (np.asarray(each, float)[robot.joint_links] for each in (robot.armature, robot.friction, robot.damping))
    numbers = dict(zip(robot.joint_names, zip(*columns, strict=True), strict=True))
    rows = [_Row(name, servo, *map(float, numbers[name])) for name, servo in servos.items()]
    return {MJLAB: _mjlab(rows), ISAAC_LAB: _isaac_lab(rows), BAM: _bam(model, rows)}


def _number(value: float) -> str:
    return f"{value:.6g}"


def _mjlab(rows: list[_Row]) -> str:
    lines = [
        '"""Actuators of mjlab, as learned by diffnea; viscous friction is part of the damping, its clip included.',
        "",
        "Not held: play, friction that changes with load or speed, profiles of goals, integral terms.",
        "Delays are whole steps of the simulation.",
        '"""',
        "",
        "from mjlab.actuator import BuiltinPositionActuatorCfg",
        "",
        "TIMESTEP = 0.005  # of your simulation, s",
        "ACTUATORS = (",
    ]
    for row in rows:
        values = {
            "stiffness": row.servo.stiffness,
            "damping": row.servo.damping + row.viscous,
            **({"effort_limit": row.servo.limit} if np.isfinite(row.servo.limit) else {}),
            "armature": row.armature,
            "frictionloss": row.friction,
        }
        lines += ["    BuiltinPositionActuatorCfg(", f"        target_names_expr=({row.joint!r},),"]
        lines += [f"        {key}={_number(value)}," for key, value in values.items()]
        steps = f"round({_number(row.servo.delay)} / TIMESTEP)"
        lines += [f"        delay_min_lag={steps},", f"        delay_max_lag={steps},", "    ),"]
    return "\n".join([*lines, ")", ""])


def _isaac_lab(rows: list[_Row]) -> str:
    lines = [
        '"""Actuators of Isaac Lab, as learned by diffnea: `actuators=ACTUATORS` of an ArticulationCfg.',
        "",
        "Not held: play, friction that changes with load or speed, profiles of goals, integral terms.",
        "Delays are whole steps of the simulation.",
        '"""',
        "",
        "from isaaclab.actuators import DelayedPDActuatorCfg",
        "",
        "TIMESTEP = 0.005  # of your simulation, s",
        "ACTUATORS = {",
    ]
    for row in rows:
        values = {
            "stiffness": row.servo.stiffness,
            "damping": row.servo.damping,
            **({"effort_limit": row.servo.limit} if np.isfinite(row.servo.limit) else {}),
            "armature": row.armature,
            "friction": row.friction,
            "dynamic_friction": row.friction,
            "viscous_friction": row.viscous,
        }
        lines += [f"    {row.joint!r}: DelayedPDActuatorCfg(", f"        joint_names_expr=[{row.joint!r}],"]
        lines += [f"        {key}={_number(value)}," for key, value in values.items()]
        steps = f"round({_number(row.servo.delay)} / TIMESTEP)"
        lines += [f"        min_delay={steps},", f"        max_delay={steps},", "    ),"]
    return "\n".join([*lines, "}", ""])


def _bam(model: Model, rows: list[_Row]) -> str:
    """Friction, armature and delay by joint; kt and R, the voltage side, are not in a log of goals."""
    actuator, joints = model.actuator, model.robot.joint_names
    parts = actuator.parts if isinstance(actuator, Combined) else (actuator,)
    bends = next((part for part in parts if isinstance(part, Stribeck)), None)
    loads = next((part for part in parts if isinstance(part, Load)), None)
    found = {}
    for row in rows:
        k = joints.index(row.joint)
        entry: dict[str, object] = {
            "model": "m5" if loads is not None else "m2" if bends is not None else "m1",
            "actuator": None,  # BAM's name of the servo, which brings its firmware
            "armature": row.armature,
            "friction_base": row.friction if bends is None else float(bends.kinetic[k]),
            "friction_viscous": row.viscous,
            "command_delay": row.servo.delay,
            "q_offset": 0.0,
        }
        if bends is not None:
            speed = float(bends.shape[k]) ** -0.5
            entry |= {"friction_stribeck": max(float(bends.static[k] - bends.kinetic[k]), 0.0)}
            entry |= {"dtheta_stribeck": speed, "alpha": 2.0}
        if loads is not None:
            named = {each.name: np.asarray(each.values, float) for each in loads.physical()}
            entry["load_friction_motor"] = float(named["friction by the servo's torque"][k])
            entry["load_friction_external"] = float(named["friction by the load"][k])
        entry["lacking"] = (
            f"kt and R: a log of goals tells kp = {row.servo.stiffness:.4g} N·m/rad and kd = {row.servo.damping:.4g} "
            "N·m·s/rad only; play"
        )
        found[row.joint] = entry
    return json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
