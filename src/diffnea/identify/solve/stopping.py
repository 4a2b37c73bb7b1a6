"""When enough starts have been tried: the Bayesian rule of Boender and Rinnooy Kan for multistart.

Starts are drawn independently, and each leads to one of an unknown number of minima. With w distinct minima after n
starts, a uniform prior over their number and over the sizes of their basins gives the share of all starts that would
lead to a minimum not yet seen, `w (w + 1) / (n (n − 1))`, and the expected number of minima, `w (n − 1) / (n − w − 2)`
(Mathematical Programming 37, 1987).
"""

import math
from collections.abc import Sequence


def distinct(logarithms: Sequence[float], apart: float) -> int:
    """How many different minima these ends are, told apart by the logarithm of their error.

    Ends that are worse than the best of a minimum by less than `apart` belong to it.
    """
    count, first = 0, -math.inf
    for value in sorted(value for value in logarithms if math.isfinite(value)):
        if value >= first + apart:
            count, first = count + 1, value
    return count


def unexplored(starts: int, minima: int) -> float:
    """The expected share of starts that would lead to a minimum not yet seen; 1 while that is not known."""
    return min(1.0, minima * (minima + 1) / (starts * (starts - 1))) if starts > 1 and minima else 1.0


def expected_minima(starts: int, minima: int) -> float:
    """How many there are, as far as these starts tell; infinite while they are too few."""
    return minima * (starts - 1) / (starts - minima - 2) if starts > minima + 2 else math.inf
