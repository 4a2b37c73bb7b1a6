"""The arguments of `diffnea fit`."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from tyro.conf import Positional

from diffnea.cli.arguments import AUTO, Base, File, Files, Flag, Settings, Several, SomeWords, Words


@dataclass(frozen=True)
class FitArguments:
    """Learn a robot's physics from recordings, and write the identified robot file.

    A part of the data is kept back; the verdict rests on how well the learned model predicts that part. A fit that is
    not accepted leaves rejected.urdf in place of identified.urdf, and exit code 3. ROBOT is a URDF or MJCF file, the
    name of a robot that comes with diffnea, or the folder of an earlier fit, whose robot and actuator are taken.
    RECORDINGS are .csv, .npz, .parquet, .mat, .mcap or .db3 files, or parts of a public data set, as
    quanser_cartpole:train.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "diffnea fit arm.urdf run1.csv run2.csv",
        "diffnea fit panda.urdf monday.mcap --measured --lock panda_finger_joint1 panda_finger_joint2",
        "diffnea fit cartpole quanser_cartpole:train --test quanser_cartpole:test",
        "diffnea fit out/ carrying.csv --learn payload --out payload/",
    )

    robot: Positional[str]
    """The robot file to start from, or the folder of an earlier fit."""
    recordings: Positional[Several]
    """What to learn from."""
    learn: Words = (AUTO,)
    """auto is inertia, actuator and what evidence asks for. Or any of inertia, kinematics, armature, calibration (zero
    positions of the joints), actuator; or friction (the actuator alone); or payload alone: what the last link (of a
    free base: the trunk) carries beyond the robot, best from an earlier fit. A named actuator is always learned."""
    links: SomeWords = ()
    """Links whose inertia is learned; by default all."""
    joints: SomeWords = ()
    """Joints whose placement, armature or zero position is learned; by default all."""
    actuator: str = AUTO
    """auto chooses by evidence on the training data, and says what. Or parts joined by +: ideal viscous coulomb
    stribeck grease nn-friction nn-residual nn-torque motor constant offset delay gain coupling differential ripple; for
    logs of position goals servo play load lead limit."""
    set: Settings = ()
    """Coefficients of the actuator that are known, as delay=2 torque_constant=0.042; one number, or one a joint with
    commas."""
    method: Literal["auto", "adam", "lm", "linear"] = "auto"
    """How to search."""
    loss: Literal["auto", "acceleration", "torque", "trajectory"] = AUTO
    """What to compare; auto takes torques where every joint is driven, else trajectories."""
    start: Literal["nominal", "random"] = "nominal"
    """Start from the robot file's numbers, or from random ones."""
    test: Files = ()
    """Recordings for the verdict; without them a part of RECORDINGS is kept back."""
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
    """Of a robot with a free base that stands or walks, what touches the ground, as FL=FL_calf:0,0,-0.213:0.022: a
    name, a link, a point in its frame and a radius (m). Without feet it is in the air."""
    robust: Flag = False
    """Weight outliers down."""
    seed: int = 0
    """Of everything random."""
    out: str = "out"
    """The folder to write to."""
    all: Flag = False
    """Print base parameters and everything that the data do not tell, too."""
    json: Flag = False
    """Print the result as one JSON object."""
    quiet: Flag = False
    """Print the outcome in one line, and no progress or notes."""
    debug: Flag = False
    """Show where in the program an error came from."""
