"""The Newton-Euler equations in Lie form, written once, for one sample, to be read beside `docs/maths.md`.

Each algorithm there is a module here: `newton_euler`, `forward_dynamics` by `factors` of the mass matrix, `articulated`
bodies, `composite` bodies, `energy`, `coriolis`. `batches` makes the public functions of them.
"""

from diffnea.dynamics.composite import crba
from diffnea.dynamics.coriolis import christoffel
from diffnea.dynamics.energy import Energy, energies
from diffnea.dynamics.forward_dynamics import aba, constrained, forward, projected, solve_mass
from diffnea.dynamics.newton_euler import bias, holding, rnea, rnea_jacobian
from diffnea.dynamics.poses import file_poses, link_poses
