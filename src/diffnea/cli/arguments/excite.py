"""The arguments of `diffnea excite`."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from tyro.conf import Positional

from diffnea.cli.arguments import AUTO, Base, File, Files, Flag, Number, SomeWords, Words


@dataclass(frozen=True)
class ExciteArguments:
    """Plan a motion that determines what is missing: a Fourier series from rest to rest, within the robot's limits.

    Position, velocity and torque limits are those of the robot file. The CSV has q, qd, qdd to follow and u, the torque
    it takes. With --recordings it also says which intervals shrink, and by how much.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "diffnea excite staubli_tx40 --seconds 20",
        "diffnea excite arm.urdf --recordings run1.csv --out next.csv",
        "diffnea excite go2.xml --seconds 15",
    )

    robot: Positional[str]
    """The robot file, or the name of a robot that comes with diffnea. All its joints must be driven."""
    recordings: Files = ()
    """What was recorded so far."""
    learn: Words = (AUTO,)
    """As for a fit: auto, or any of inertia, kinematics, armature, calibration, actuator."""
    actuator: str = AUTO
    """As for a fit: auto chooses by evidence where --recordings tell, else viscous; or parts joined by +."""
    criterion: Literal["D", "E"] = "D"
    """D: all combinations together; E: the one that is known least."""
    seconds: float = 10.0
    """How long the motion lasts."""
    bandwidth: float = 1.0
    """Its highest frequency in Hz."""
    rate: float = 250.0
    """Samples a second in the file."""
    acceleration: Number = None
    """A limit of accelerations, rad/s² or m/s², which robot files do not have."""
    noise: float = 0.01
    """Torque noise to expect, as a share of each joint's effort, where no recordings tell."""
    columns: File = None
    """A TOML file that says which columns of the recordings are what."""
    measured: Flag = False
    """The logs' inputs are torques measured at each sample, as ROS efforts are, not commands with zero-order hold."""

    goals: Flag = False
    """The logs' inputs are position goals of servos, in the units of positions."""
    lock: SomeWords = ()
    """Joints that are held still, as finger or wrist=0.5 (rad or m); as a gripper on an arm."""
    base: Base = None
    """Whether the root is free to move, where the file says otherwise: floating for the URDF of a legged robot, fixed
    for one on a stand. A free robot is planned for in the air, at rest before; or on its feet."""
    feet: SomeWords = ()
    """Point feet that a free base stands on, as for a fit: FL=FL_calf:0,0,-0.213:0.022. They stay where they are."""
    stance: str = ""
    """Where the joints are when it stands, rad or m with commas in their order; a part of them repeats, leg by leg."""
    seed: int = 0
    """Of the random motions that the search begins with."""
    out: str = "excitation.csv"
    """The motion to write: .csv or .npz."""
    all: Flag = False
    """Print base parameters and everything that the data do not tell, too."""
    json: Flag = False
    """Print the result as one JSON object."""
    quiet: Flag = False
    """Print the outcome in one line, and no progress or notes."""
    debug: Flag = False
    """Show where in the program an error came from."""
