"""Actuators: from the command of a joint to the torque on it."""

from diffnea.actuators.base import AbstractActuator, EnergyClass, Ideal, Quantity, Resistance
from diffnea.actuators.friction import Stribeck, Viscous
