"""Any robot in frames of our own choice, in which the dynamics take the fewest operations."""

from typing import TYPE_CHECKING

from diffnea.canonical.convert import canonical, is_simple, note
from diffnea.canonical.robot import Canonical, with_known
from diffnea.robot import Robot

if TYPE_CHECKING:
    AnyRobot = Robot  # what the dynamics ask of either, a robot has
else:
    AnyRobot = Robot | Canonical
