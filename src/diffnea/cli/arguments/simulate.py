"""The arguments of `diffnea simulate`."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from tyro.conf import Positional

from diffnea.cli.arguments import Base, File, Flag, Number, Numbers


@dataclass(frozen=True)
class SimulateArguments:
    """Roll a robot or a fit out and write what happens as a recording.

    A robot file moves with the damping and friction it states, a fit with the actuator that was learned. With --input
    the commands of a recording drive it, from that recording's first state; without, it moves freely from --q and --qd.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "diffnea simulate cartpole --q 0 3 --seconds 10",
        "diffnea simulate out/ --input run1.csv --out predicted.csv",
    )

    model: Positional[str]
    """A robot file, the name of a robot that comes with diffnea, or the folder of a fit."""
    seconds: Number = None
    """How long; by default as long as the input, else 5."""
    input: File = None
    """A recording whose commands are given."""
    q: Numbers = ()
    """Positions to start from, rad or m, one a joint; by default the input's first, else zero. Of a robot with a free
    base also all of q: x y z, quaternion w x y z, joints."""
    qd: Numbers = ()
    """Velocities to start with."""
    base: Base = None
    """Whether the root is free to move, where the file says otherwise."""
    loose: Flag = False
    """Joints that follow others (mimic, equalities) move by themselves, and loops are open."""
    dt: float = 1 / 250
    """Time step in seconds, where no input gives one."""
    integrator: Literal["auto", "rk4"] = "auto"
    """auto keeps the energy guarantee; rk4 is Runge-Kutta's."""
    columns: File = None
    """A TOML file that says which columns of the input are what."""
    out: str = "simulated.csv"
    """The recording to write: .csv or .npz."""
    json: Flag = False
    """Print the result as one JSON object."""
    quiet: Flag = False
    """Print the outcome in one line, and no progress or notes."""
    debug: Flag = False
    """Show where in the program an error came from."""
