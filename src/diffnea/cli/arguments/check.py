"""The arguments of `diffnea check`."""

from dataclasses import dataclass
from typing import Literal

from tyro.conf import Positional

from diffnea.cli.arguments import AUTO


@dataclass(frozen=True)
class CheckArguments:
    """Look recordings over before fitting: sampling, noise, delay, and what they can and cannot identify.

    What they determine is worked out around the robot as ROBOT gives it, for the same LEARN and ACTUATOR as a fit. If
    ROBOT is the folder of a fit, then around what was learned.
    """

    robot: Positional[str]
    """The robot file, the name of a robot that comes with diffnea, or the folder of a fit."""
    recordings: Positional[tuple[str, ...]]
    """What to look over."""
    learn: tuple[str, ...] = (AUTO,)
    """As for a fit: auto, or any of inertia, kinematics, armature, calibration, actuator; or payload alone."""
    actuator: str = AUTO
    """As for a fit: auto chooses by evidence; or parts joined by +."""
    loss: Literal["auto", "acceleration", "torque", "trajectory"] = AUTO
    """As for a fit: what it would compare."""
    columns: str | None = None
    """A TOML file that says which columns of the logs are what."""
    measured: bool = False
    """The logs' inputs are torques measured at each sample, as ROS efforts are, not commands with zero-order hold."""

    goals: bool = False
    """The logs' inputs are position goals of servos, in the units of positions."""
    lock: tuple[str, ...] = ()
    """Joints that are held still, as finger or wrist=0.5 (rad or m); for those that the log does not have."""
    out: str | None = None
    """A page to write, with pictures: check.html."""
    all: bool = False
    """Print base parameters and everything that the data do not tell, too."""
    json: bool = False
    """Print the result as one JSON object."""
    debug: bool = False
    """Show where in the program an error came from."""
