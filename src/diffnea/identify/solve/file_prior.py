"""The robot file as a prior over θ: how wide each number is, which of them are bodies, and what is tied to what."""

import numpy as np
from jaxtyping import Float, Int

from diffnea.identify.options import SolveOptions
from diffnea.identify.problem.parameter import places
from diffnea.identify.problem.prior import Prior, prior
from diffnea.identify.problem.unknowns import Unknowns
from diffnea.identify.solve.starts import expected

# Parts whose torque comes again with the position.
_BY_TURNS = ("Offset", "Ripple")


def file_prior(free: Unknowns, torque: Float[np.ndarray, " n"], options: SolveOptions) -> Prior:
    """Around the robot as given; `torque` is the usual size of each joint's. Weights of networks are free."""
    width = options.weak_width * expected(free, torque)
    width[places(free.parameters, kind="network")] = np.inf
    positive = np.array([each.positive for each in free.parameters], bool)
    body = places(free.parameters, kind="inertia").reshape(-1, 10)
    static, kinetic = (places(free.parameters, part="Stribeck", leaf=leaf) for leaf in ("raw_static", "raw_kinetic"))
    tied = np.stack([static, kinetic], axis=1) if len(static) == len(kinetic) else np.zeros((0, 2), int)
    width[tied[:, 0]] = options.ratio_width
    return prior(free.start, width, positive, tied, body, options.strength, _alike(free))


def _alike(free: Unknowns) -> list[Int[np.ndarray, " _"]]:
    """Rotors, which the file has as it has bodies, and torques at rest, which are small at most joints."""
    constant = places(free.parameters, part="Offset", leaf="constant")
    waves = [[places(free.parameters, part=part, leaf=leaf) for leaf in ("cosine", "sine")] for part in _BY_TURNS]
    return [places(free.parameters, kind="armature"), constant, *map(np.concatenate, waves)]
