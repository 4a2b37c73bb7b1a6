"""diffnea: learn the physics of a robot from its recordings."""

from importlib.metadata import version as _version

from diffnea import actuators, parameters, recordings, systems
from diffnea.batches import (
    bias_torque,
    coriolis_matrix,
    difference,
    energy,
    forward_dynamics,
    gravity_torque,
    inertial_parameters,
    integrate,
    inverse_dynamics,
    mass_matrix,
    regressor,
)
from diffnea.dynamics import Energy
from diffnea.errors import DiffneaError
from diffnea.formats import RobotFileError, load_robot, save_robot
from diffnea.frames import forward_kinematics, jacobian
from diffnea.identify import Fit, FitFileError, fit, load_fit
from diffnea.kernels import backends
from diffnea.models import FeedForward, Model
from diffnea.orders import from_mujoco, from_pinocchio, to_mujoco, to_pinocchio
from diffnea.recordings import (
    Recording,
    RecordingError,
    Samples,
    load_recording,
    load_recordings,
    save_recording,
)
from diffnea.robot import Limits, Robot, Tree
from diffnea.rollout import Rollout, rollout
from diffnea.spatial import Inertia, Transform

__version__ = _version("diffnea")
__all__ = [
    "DiffneaError",
    "Energy",
    "FeedForward",
    "Fit",
    "FitFileError",
    "Inertia",
    "Limits",
    "Model",
    "Recording",
    "RecordingError",
    "Robot",
    "RobotFileError",
    "Rollout",
    "Samples",
    "Transform",
    "Tree",
    "actuators",
    "backends",
    "bias_torque",
    "coriolis_matrix",
    "difference",
    "energy",
    "fit",
    "forward_dynamics",
    "forward_kinematics",
    "from_mujoco",
    "from_pinocchio",
    "gravity_torque",
    "inertial_parameters",
    "integrate",
    "inverse_dynamics",
    "jacobian",
    "load_fit",
    "load_recording",
    "load_recordings",
    "load_robot",
    "make_env",
    "mass_matrix",
    "parameters",
    "recordings",
    "regressor",
    "rollout",
    "save_recording",
    "save_robot",
    "systems",
    "to_mujoco",
    "to_pinocchio",
]


def make_env(model, **options):
    """A Gymnasium environment of a fit, a model or a robot; see `diffnea.environment.make_env`."""
    from diffnea.environment import make_env as make

    return make(model, **options)
