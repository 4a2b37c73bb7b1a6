"""diffnea: learn the physics of a robot from its recordings."""

from diffnea.dynamics import (
    Energy,
    bias_torque,
    coriolis_matrix,
    energy,
    forward_dynamics,
    forward_kinematics,
    gravity_torque,
    inertial_parameters,
    inverse_dynamics,
    mass_matrix,
    regressor,
)
from diffnea.formats import RobotFileError, load_robot, save_robot
from diffnea.robot import Limits, Robot, Tree
from diffnea.spatial import Inertia, Transform
