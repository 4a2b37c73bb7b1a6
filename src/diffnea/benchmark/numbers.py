"""What is measured in a cell: the numbers and arrays of a record.

Numbers that are not finite, or not known, are None (`null` in JSON): the error of a roll-out that diverged, the truth
of a real machine.
"""

from typing import TypedDict

INTEGRATORS = ("rk4", "auto")  # the paper's, and the package's own
RANGES = ("inside", "doubled")  # start velocities as in the data, and twice as fast


class RolloutNumbers(TypedDict):
    """How recorded motion is predicted under its recorded input, over all windows."""

    horizons: dict[str, float | None]  # seconds → median over windows of RMS error ÷ the joints' standard deviation
    valid_time_10: float  # s until the error first passes 10 % of the standard deviation; mean over windows
    valid_time_40: float
    lost: float  # share of windows that are off by more than 10 standard deviations, or diverge
    diverged: float  # share of windows that are not finite, or a hundred times faster than the data


class EnergyNumbers(TypedDict):
    """What energy does without input, over all starts."""

    own_gain: float | None  # share of roll-outs in which the model's own energy rises above where it began
    true_gain: float | None  # the same for the energy of the true system
    diverged: float  # share of roll-outs


class Observable(TypedDict):
    """A physical number that motion can show."""

    name: str
    unit: str
    value: float | None
    truth: float | None
    nominal: float | None  # of the data sheet


# The numbers of a record:
# - `title`: of the data set, uniform, simulated, real or stand-in; `energy_class`: of the model;
# - `fit`: `seconds` of wall time, of these `compile_seconds` for making programs; `loss`, `converged`, `verdict` and
#   `method`;
# - `nmse` of accelerations: "mean", and each joint by name;
# - `rollout`: RolloutNumbers by integrator; `energy`: EnergyNumbers by range, then integrator;
# - `observables`: a list of Observable;
# - `sheet`, for real machines and stand-ins: roll-out errors of the data sheet, by horizon.
#
# Arrays beside the numbers: `time` (t,), `measured_q`, `rk4_q` and `auto_q` (window, t, n) of a few windows;
# `energy_time` (e,) and `energy_<range>_<integrator>` (start, e): energy since the start, as a share of what it takes
# to swing the pole up, true where the truth is known and the model's own elsewhere.
