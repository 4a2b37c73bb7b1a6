"""Roll-outs: from a start, under recorded or feedback input, with an energy that cannot rise by itself."""

from diffnea.simulate.classical import rk4_step
from diffnea.simulate.run import Rollout, rollout, step
from diffnea.simulate.safe import safe_step
