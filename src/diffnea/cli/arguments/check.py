"""The arguments of `diffnea check`."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from tyro.conf import Positional

from diffnea.cli.arguments import AUTO, Base, File, Flag, Several, SomeWords, Words


@dataclass(frozen=True)
class CheckArguments:
    """Look recordings over before fitting: sampling, noise, delay, and what they can and cannot identify.

    What they determine is worked out around the robot as ROBOT gives it, for the same LEARN and ACTUATOR as a fit. If
    ROBOT is the folder of a fit, then around what was learned.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "diffnea check panda.urdf monday.mcap --measured --lock panda_finger_joint1",
        "diffnea check arm.urdf run1.csv run2.csv --out check.html",
        "diffnea check out/ carrying.csv --learn payload",
    )

    robot: Positional[str]
    """The robot file, the name of a robot that comes with diffnea, or the folder of a fit."""
    recordings: Positional[Several]
    """What to look over."""
    learn: Words = (AUTO,)
    """As for a fit: auto, or any of inertia, kinematics, armature, calibration, actuator; or payload alone."""
    actuator: str = AUTO
    """As for a fit: auto chooses by evidence; or parts joined by +."""
    loss: Literal["auto", "acceleration", "torque", "trajectory"] = AUTO
    """As for a fit: what it would compare."""
    columns: File = None
    """A TOML file that says which columns of the logs are what."""
    measured: Flag = False
    """The logs' inputs are torques measured at each sample, as ROS efforts are, not commands with zero-order hold."""

    goals: Flag = False
    """The logs' inputs are position goals of servos, in the units of positions."""
    lock: SomeWords = ()
    """Joints that are held still, as finger or wrist=0.5 (rad or m); for those that the log does not have."""
    base: Base = None
    """Whether the root is free to move, where the file says otherwise: floating for the URDF of a legged robot, fixed
    for one on a stand."""
    loose: Flag = False
    """Joints that follow others (mimic, equalities) move by themselves, and loops are open."""
    feet: SomeWords = ()
    """Feet of a free base that touch the ground, as for a fit: FL=FL_calf:0,0,-0.213:0.022."""
    out: File = None
    """A page to write, with pictures: check.html."""
    all: Flag = False
    """Print base parameters and everything that the data do not tell, too."""
    json: Flag = False
    """Print the result as one JSON object."""
    quiet: Flag = False
    """Print the outcome in one line, and no progress or notes."""
    debug: Flag = False
    """Show where in the program an error came from."""
