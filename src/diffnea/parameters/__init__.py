"""Numbers without constraints ⇄ a physical robot, and any module ⇄ the flat vector of what is learned."""

from diffnea.parameters.quantities import Quantity, physical, physical_values
from diffnea.parameters.reference import has_mass, with_reference_bodies
from diffnea.parameters.selection import labels, learnable, pack, unpack
from diffnea.parameters.starts import random, random_vectors
from diffnea.parameters.virtual import VirtualRobot, decode, encode
