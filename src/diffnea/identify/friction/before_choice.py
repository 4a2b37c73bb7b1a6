"""Which way friction points before parts are chosen: of each joint, and of every motor that may turn with several."""

from dataclasses import replace

import numpy as np

from diffnea.actuators import for_robot
from diffnea.identify.friction.prandtl import Slip, known
from diffnea.identify.friction.prandtl_fit import HOLDS, LENGTHS, slipping
from diffnea.identify.options import SolveOptions
from diffnea.identify.problem.measurements.tracks import Split
from diffnea.identify.problem.measurements.weighting import scales
from diffnea.identify.solve.regression.columns import couplings
from diffnea.models import Model
from diffnea.robot import Robot


def with_ways(robot: Robot, parts: Split, options: SolveOptions) -> Split:
    """The fitted motion with ways told from its past, as the torque loss has them; where some joint is passive, or
    velocities explain the torques better, as it is.

    What may be coupled slips as what the data do not tell of.
    """
    driven = np.any([np.any(track.u != 0, axis=0) for track in parts.fitted], axis=0)
    if not parts.timed or not driven.all():
        return parts
    rubbing, coupled = Model(robot, for_robot("stribeck", robot)), couplings(robot)
    slip = slipping(rubbing, parts.fitted, scales("torque", rubbing, parts.fitted), options)
    if slip is None:
        return parts
    usual = np.ones(len(coupled))
    several = Slip(np.append(slip.lengths, LENGTHS[0] * usual), np.append(slip.hold, HOLDS[0] * usual))
    actuator = for_robot("stribeck+coupling", robot, coupled=coupled) if coupled else rubbing.actuator
    return replace(parts, fitted=known(parts.fitted, actuator, several))
