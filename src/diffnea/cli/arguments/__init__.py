"""What each command is asked for, one dataclass a command; light, so that help and typing errors are quick."""

from typing import Annotated, Literal

from tyro.conf import arg

AUTO = "auto"
# Words that are known without looking at anything: what --learn takes, and the parts of actuators.
LEARN = ("inertia", "kinematics", "armature", "calibration", "actuator", "friction", "payload", AUTO)
ACTUATORS = tuple(
    "ideal viscous coulomb stribeck grease nn-friction nn-residual nn-torque motor constant offset delay gain coupling "
    "differential ripple servo play load lead limit profile integral".split()
)

# How help names what is given, and no word on defaults that are nothing.
File = Annotated[str | None, arg(metavar="FILE", help_behavior_hint="")]
Number = Annotated[float | None, arg(metavar="NUMBER", help_behavior_hint="")]
Count = Annotated[int | None, arg(metavar="COUNT", help_behavior_hint="")]
Base = Annotated[Literal["floating", "fixed"] | None, arg(metavar="{floating,fixed}", help_behavior_hint="")]
Text = Annotated[str | None, arg(metavar="TEXT", help_behavior_hint="")]
Flag = Annotated[bool, arg(help_behavior_hint="")]
Words = Annotated[tuple[str, ...], arg(metavar="NAME [NAME ...]")]
SomeWords = Annotated[tuple[str, ...], arg(metavar="[NAME ...]", help_behavior_hint="")]
Settings = Annotated[tuple[str, ...], arg(metavar="[NAME=NUMBER ...]", help_behavior_hint="")]
Files = Annotated[tuple[str, ...], arg(metavar="[FILE ...]", help_behavior_hint="")]
Several = Annotated[tuple[str, ...], arg(help_behavior_hint="")]  # named by its field
Numbers = Annotated[tuple[float, ...], arg(metavar="[NUMBER ...]", help_behavior_hint="")]
