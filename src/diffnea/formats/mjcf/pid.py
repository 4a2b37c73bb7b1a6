"""Servos with an integral term or a rate limit of their goals: MuJoCo's plugin `mujoco.pid`, read and written.

With gear G its force on the joint is `G (kp (u − G q) − kd G q̇ + ki ∫ (u − G q) dt)`, u at most `slewmax` fast and the
integral's force within ±imax. Other plugins are left out.
"""

from typing import Any

import numpy as np

from diffnea.formats.description import Servo
from diffnea.formats.mjcf.servos import bounds_of, goals_of, servo_attributes
from diffnea.formats.mjcf.text import tag
from diffnea.formats.xml_text import format_numbers

PLUGIN = "mujoco.pid"
EXTENSION = ("<extension>", f'  <plugin plugin="{PLUGIN}"/>', "</extension>")


def read_pid(model: Any, spec: Any, i: int) -> Servo | None:
    """What an actuator is that the plugin drives; None where it is none, or one with more to it."""
    plugin = spec.actuators[i].plugin
    if not plugin.active or plugin.plugin_name != PLUGIN or not plugin.config:
        return None
    config = {key: float(value) for key, value in plugin.config.items() if value}
    gear = float(model.actuator_gear[i, 0])
    if gear == 0 or set(config) - {"kp", "kd", "ki", "imax", "slewmax"}:
        return None
    bounds = bounds_of(model, i, gear)
    summed = abs(gear) * config.get("imax", np.inf)
    if config.get("ki") and np.isfinite(summed) and not np.isclose(summed, bounds["limit"]):
        return None  # the integral would end elsewhere than at the torque limit
    gains = (gear**2 * config.get(key, 0.0) for key in ("kp", "kd"))
    return Servo(
        *gains,
        **bounds,
        **goals_of(model, i, 1 / gear, 0.0, "position"),
        scale=1 / gear,
        integral=gear**2 * config.get("ki", 0.0),
        goal_speed=config.get("slewmax", np.inf) / abs(gear),
    )


def needs_pid(servo: Servo | None) -> bool:
    """Whether a `position` actuator cannot hold it."""
    return servo is not None and bool(servo.integral > 0 or np.isfinite(servo.goal_speed))


def servo_lines(servo: Servo, name: str, joint: str, **others: float) -> list[str]:
    """The element that is this servo, goals as commands."""
    values = servo_attributes(servo)
    if not needs_pid(servo):
        return [tag("position", name=name, joint=joint, **others, **values)]
    config = {"kp": values.pop("kp"), "kd": values.pop("kv")}
    states = 0
    if servo.integral > 0:
        config["ki"] = format_numbers(servo.integral)
        states += 1
        if np.isfinite(servo.limit):
            config["imax"] = format_numbers(servo.limit)
    if np.isfinite(servo.goal_speed):
        config["slewmax"] = format_numbers(servo.goal_speed)
        states += 1
    head = tag("plugin", name=name, joint=joint, plugin=PLUGIN, actdim=str(states), **others, **values)
    inner = [f"  {tag('config', key=key, value=value)}" for key, value in config.items()]
    return [head.removesuffix("/>") + ">", *inner, "</plugin>"]
