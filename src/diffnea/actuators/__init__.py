"""Actuators: from the command of a joint to the torque on it."""

from diffnea.actuators.base import AbstractActuator, EnergyClass, Ideal, Quantity, Resistance
from diffnea.actuators.combined import Combined, combine
from diffnea.actuators.coupling import Coupling
from diffnea.actuators.drives import Delay, Gain, Motor
from diffnea.actuators.friction import Coulomb, Grease, Stribeck, Viscous
from diffnea.actuators.goals.goal_profile import GoalProfile
from diffnea.actuators.goals.position_loop import PositionLoop
from diffnea.actuators.names import NAMES, for_robot, make
from diffnea.actuators.networks import NetworkFriction, NetworkResidual, NetworkTorque
from diffnea.actuators.offset import Offset
from diffnea.actuators.ripple import Ripple
from diffnea.actuators.servo import Integral, Lead, Limit, Load, Play, Profile, Servo
