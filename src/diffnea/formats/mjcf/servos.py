"""Servos of MJCF files: `position`, `velocity` and `intvelocity` actuators on joints, and `general` ones like them.

An actuator with gear G sees `l = G q` and its rate, and its force acts on the joint times G:

    τ = G (g u + b₀ + b₁ G q + b₂ G q̇),

which is `kp (goal − q) − kd q̇` with `kp = −b₁ G²`, `kd = −b₂ G²` and `goal = (g u + b₀) / (−b₁ G)`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffnea.formats.description import Servo
from diffnea.formats.mjcf.compiler import mujoco
from diffnea.formats.xml_text import format_numbers

# Times that a written delay may be of: steps of the simulation from this one on, in s.
FINEST_STEP = 1e-3


def read_servos(
    model: Any, joints: Sequence[str], on_joints: Sequence[int], plugged: Callable[[int], Servo | None]
) -> dict[int, tuple[str, Servo]]:
    """By actuator, the joint that it drives and the servo that it is; joints with several of them have none.

    `plugged` says what an actuator of a plugin is.
    """
    found, mj = {}, mujoco()
    single = (int(mj.mjtJoint.mjJNT_HINGE), int(mj.mjtJoint.mjJNT_SLIDE))
    for i in on_joints:
        servo = None
        if int(model.jnt_type[model.actuator_trnid[i, 0]]) in single:
            servo = _servo(model, i) if model.actuator_plugin[i] < 0 else plugged(i)
        if servo is not None:
            found[i] = (joints[model.actuator_trnid[i, 0]], servo)
    names = [name for name, _ in found.values()]
    return {i: (name, servo) for i, (name, servo) in found.items() if names.count(name) == 1}


def _servo(model: Any, i: int) -> Servo | None:
    """What an actuator is as a servo; None where it is none, or one with more to it."""
    mj = mujoco()
    kinds = {mj.mjtDyn.mjDYN_NONE: "none", mj.mjtDyn.mjDYN_INTEGRATOR: "rate", mj.mjtDyn.mjDYN_FILTEREXACT: "lag"}
    kinds[mj.mjtDyn.mjDYN_FILTER] = "lag"
    dynamics = kinds.get(mj.mjtDyn(model.actuator_dyntype[i]))
    fixed = model.actuator_gaintype[i] == mj.mjtGain.mjGAIN_FIXED
    if dynamics is None or not fixed or model.actuator_biastype[i] != mj.mjtBias.mjBIAS_AFFINE:
        return None
    gear, gain = float(model.actuator_gear[i, 0]), float(model.actuator_gainprm[i, 0])
    constant, by_length, by_rate = (float(value) for value in model.actuator_biasprm[i, :3])
    if gear == 0 or gain == 0 or by_length > 0 or by_rate > 0:
        return None
    bounds = bounds_of(model, i, gear)
    if by_length < 0:
        scale, offset = gain / (-by_length * gear), constant / (-by_length * gear)
        kind = "intvelocity" if dynamics == "rate" else "position"
        goals = goals_of(model, i, scale, offset, kind)
        lag = float(model.actuator_dynprm[i, 0]) if dynamics == "lag" else 0.0
        return Servo(
            -by_length * gear**2, -by_rate * gear**2, **bounds, **goals, kind=kind, scale=scale, offset=offset, lag=lag
        )
    if by_rate < 0 and constant == 0 and dynamics == "none":
        scale = gain / (-by_rate * gear)
        return Servo(
            0.0,
            -by_rate * gear**2,
            **bounds,
            **goals_of(model, i, scale, 0.0, "velocity"),
            kind="velocity",
            scale=scale,
        )
    return None


def bounds_of(model: Any, i: int, gear: float) -> dict[str, float]:
    """The most torque of an actuator, and its delay."""
    limited = bool(model.actuator_forcelimited[i])
    force = abs(gear) * float(np.abs(model.actuator_forcerange[i]).max()) if limited else np.inf
    delays = getattr(model, "actuator_delay", None)
    return {"limit": force, "delay": 0.0 if delays is None else float(delays[i])}


def goals_of(model: Any, i: int, scale: float, offset: float, kind: str) -> dict[str, float]:
    """The goals that commands can ask for; of a rate, those that its integral is kept to."""
    limited, ranges = model.actuator_ctrllimited, model.actuator_ctrlrange
    if kind == "intvelocity":
        limited, ranges = model.actuator_actlimited, model.actuator_actrange
    if not limited[i]:
        return {}
    lower, upper = sorted(scale * float(end) + offset for end in ranges[i])
    return {"lower": lower, "upper": upper}


# Written ---------------------------------------------------------------------------------------------------------


def servo_attributes(servo: Servo) -> dict[str, str]:
    """The attributes of a `position` actuator with gear 1 that is this servo, goals as commands."""
    found: dict[str, Any] = {"kp": servo.stiffness, "kv": servo.damping}
    if np.isfinite(servo.limit):
        found["forcerange"] = [-servo.limit, servo.limit]
    if np.isfinite([servo.lower, servo.upper]).all() and servo.lower < servo.upper:
        found["ctrlrange"] = [servo.lower, servo.upper]
    if servo.lag:
        found["timeconst"] = servo.lag
    texts = {key: format_numbers(value) for key, value in found.items()}
    if servo.delay and delays_are_known():
        texts |= {"delay": format_numbers(servo.delay), "nsample": str(int(np.ceil(servo.delay / FINEST_STEP)) + 1)}
    return texts


def delays_are_known() -> bool:
    """Whether this release of MuJoCo has actuators that act late."""
    return hasattr(mujoco().MjModel, "actuator_delay")
