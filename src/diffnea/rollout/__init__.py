"""Roll-outs: from a start, under recorded or feedback input, with an energy that cannot rise by itself."""

from diffnea.rollout.classical import rk4_step
from diffnea.rollout.run import Rollout, rollout, step
from diffnea.rollout.safe import safe_step
