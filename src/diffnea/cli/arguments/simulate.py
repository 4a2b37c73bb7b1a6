"""The arguments of `diffnea simulate`."""

from dataclasses import dataclass
from typing import Literal

from tyro.conf import Positional


@dataclass(frozen=True)
class SimulateArguments:
    """Roll a robot or a fit out and write what happens as a recording.

    A robot file moves with the damping and friction it states, a fit with the actuator that was learned. With --input
    the commands of a recording drive it, from that recording's first state; without, it moves freely from --q and --qd.
    """

    model: Positional[str]
    """A robot file, the name of a robot that comes with diffnea, or the folder of a fit."""
    seconds: float | None = None
    """How long; by default as long as the input, else 5."""
    input: str | None = None
    """A recording whose commands are given."""
    q: tuple[float, ...] = ()
    """Positions to start from, rad or m, one a joint; by default the input's first, else zero."""
    qd: tuple[float, ...] = ()
    """Velocities to start with."""
    dt: float = 1 / 250
    """Time step in seconds, where no input gives one."""
    integrator: Literal["auto", "rk4"] = "auto"
    """auto keeps the energy guarantee; rk4 is Runge-Kutta's."""
    columns: str | None = None
    """A TOML file that says which columns of the input are what."""
    out: str = "simulated.csv"
    """The recording to write: .csv or .npz."""
    json: bool = False
    """Print the result as one JSON object."""
    debug: bool = False
    """Show where in the program an error came from."""
