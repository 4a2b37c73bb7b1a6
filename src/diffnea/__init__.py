"""diffnea: learn the physics of a robot from its recordings.

Names are imported when they are first asked for, so that the command line answers at once.
"""

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diffnea import actuators, parameters, recordings, systems
    from diffnea.batches import (
        bias_torque,
        close_loops,
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
    from diffnea.environment import make_env
    from diffnea.errors import DiffneaError
    from diffnea.formats import RobotFileError, load_robot, save_robot
    from diffnea.frames import forward_kinematics, jacobian
    from diffnea.identify import Fit, FitFileError, Foot, fit, load_fit
    from diffnea.kernels import backends
    from diffnea.models import FeedForward, Model
    from diffnea.orders import from_mujoco, from_pinocchio, to_mujoco, to_pinocchio
    from diffnea.recordings import (
        BaseMotion,
        Recording,
        RecordingError,
        Samples,
        load_recording,
        load_recordings,
        save_recording,
    )
    from diffnea.robot import Limits, Robot, Tree
    from diffnea.simulate import Rollout, rollout
    from diffnea.spatial import Inertia, Transform

__version__ = _version("diffnea")
__all__ = [
    "BaseMotion",
    "DiffneaError",
    "Energy",
    "FeedForward",
    "Fit",
    "FitFileError",
    "Foot",
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
    "close_loops",
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
# Where each name is at home.
_HOMES = {
    "BaseMotion": "recordings",
    "DiffneaError": "errors",
    "Energy": "dynamics",
    "FeedForward": "models",
    "Fit": "identify",
    "FitFileError": "identify",
    "Foot": "identify",
    "Inertia": "spatial",
    "Limits": "robot",
    "Model": "models",
    "Recording": "recordings",
    "RecordingError": "recordings",
    "Robot": "robot",
    "RobotFileError": "formats",
    "Rollout": "simulate",
    "Samples": "recordings",
    "Transform": "spatial",
    "Tree": "robot",
    "backends": "kernels",
    "bias_torque": "batches",
    "close_loops": "batches",
    "coriolis_matrix": "batches",
    "difference": "batches",
    "energy": "batches",
    "fit": "identify",
    "forward_dynamics": "batches",
    "forward_kinematics": "frames",
    "from_mujoco": "orders",
    "from_pinocchio": "orders",
    "gravity_torque": "batches",
    "inertial_parameters": "batches",
    "integrate": "batches",
    "inverse_dynamics": "batches",
    "jacobian": "frames",
    "load_fit": "identify",
    "load_recording": "recordings",
    "load_recordings": "recordings",
    "load_robot": "formats",
    "make_env": "environment",
    "mass_matrix": "batches",
    "regressor": "batches",
    "rollout": "simulate",
    "save_recording": "recordings",
    "save_robot": "formats",
    "to_mujoco": "orders",
    "to_pinocchio": "orders",
}
_MODULES = (
    "actuators",
    "batches",
    "benchmark",
    "dynamics",
    "excitation",
    "formats",
    "identify",
    "kernels",
    "models",
    "parameters",
    "recordings",
    "report",
    "robot",
    "simulate",
    "spatial",
    "systems",
)


def __getattr__(name: str):
    if name in _HOMES:
        found = getattr(_import_module(f"{__name__}.{_HOMES[name]}"), name)
    elif name in _MODULES:
        found = _import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module 'diffnea' has no attribute '{name}'")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
