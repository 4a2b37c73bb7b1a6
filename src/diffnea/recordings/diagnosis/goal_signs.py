"""Signs of position goals in a log: positions that follow their inputs, in which unit and from which zero."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diffnea.recordings.columns.units import TICK, is_gripper
from diffnea.recordings.recording import Recording

# A servo answers within this time, s; twice as much is looked back, where goals and positions may be swapped.
LATEST = 0.2
MOST_SHIFTS, MOST_SAMPLES = 41, 20_000
# Positions follow an input that explains this share of their variance, with a slope of 1 up to a factor.
EXPLAINED, FACTOR = 0.9, 1.35
# Swapped: with positions first, less is left by this factor.
CLEARER = 0.5
# Goals of another zero are off by this much, rad or m, and by so many times what else is left.
OFF, STANDS_OUT = 0.1, 5.0
# A jaw that does not reach its goals stays behind by this much, rad or m.
STUCK = 0.1
# Units that one of the two may be in while the other is in rad.
UNITS = {"deg": math.pi / 180, "ticks": TICK}


@dataclass(frozen=True)
class Following:
    """How a joint's position follows its input: `q(t) ≈ offset + slope · u(t − lag)`."""

    joint: str
    lag: float  # s
    slope: float
    offset: float  # mean of q − u
    left: float  # share of the position's variance that is not explained
    left_after: float  # the same, were the position never earlier than the input
    spread: float  # RMS of what is left, in units of q


def following(recording: Recording) -> list[Following]:
    """How each driven joint that moves follows its input."""
    names = recording.joint_names or tuple(f"joint{k}" for k in range(recording.num_joints))
    rows = slice(0, MOST_SAMPLES)
    found = []
    for k, name in enumerate(names):
        q, u = recording.q[rows, k].astype(float), recording.u[rows, k].astype(float)
        if recording.driven[k] and len(q) > 16 and np.ptp(q) > 0 and np.ptp(u) > 0:
            found.append(_follow(name, q, u, recording.dt))
    return found


def _follow(name: str, q: np.ndarray, u: np.ndarray, dt: float) -> Following:
    most = min(int(LATEST / dt) + 1, len(q) // 8)
    shifts = np.unique(np.linspace(-2 * most, most, MOST_SHIFTS).astype(int)).tolist()
    left = [1 - _correlation(q, u, shift) ** 2 for shift in shifts]
    best = int(np.argmin(left))
    late, early = _overlap(q, u, shifts[best])
    slope = float(np.cov(late, early)[0, 1] / max(np.var(early, ddof=1), 1e-300))
    after = min(value for value, shift in zip(left, shifts, strict=True) if shift >= 0)
    offset = float(np.mean(late - early))
    return Following(name, shifts[best] * dt, slope, offset, left[best], after, float(np.std(late - early)))


def _overlap(q: np.ndarray, u: np.ndarray, shift: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions beside the inputs that many samples before."""
    return (q[shift:], u[: len(u) - shift]) if shift >= 0 else (q[:shift], u[-shift:])


def _correlation(q: np.ndarray, u: np.ndarray, shift: int) -> float:
    late, early = _overlap(q, u, shift)
    size = float(np.std(late) * np.std(early))
    return float(np.mean((late - late.mean()) * (early - early.mean())) / size) if size > 0 else 0.0


# What is said -----------------------------------------------------------------------------------------------------


def goal_signs(recording: Recording) -> list[str]:
    """A sentence for each thing that looks wrong, with its cure; none where all is well or nothing can be told."""
    found = following(recording)
    following_joints = [each for each in found if each.left < 1 - EXPLAINED and each.slope > 0]
    if not found or 2 * len(following_joints) < len(found):
        return []
    slope = float(np.median([each.slope for each in following_joints]))
    same = 1 / FACTOR < slope < FACTOR
    unit, other = _units_of(slope)
    if recording.input_kind == "command":
        return _taken_for_commands(following_joints, unit) if same or unit else []
    if not same:  # without a unit that explains it, the servo is soft
        return _other_unit(slope, unit, other) if unit or other else []
    said = _swapped(following_joints, recording.dt) or _shifted(following_joints)
    return [*said, *_stuck(found)]


def misread_goals(recording: Recording) -> list[str]:
    """Of these sentences those that say that the columns are not what they are taken for: another unit, or swapped."""
    found = [each for each in following(recording) if each.left < 1 - EXPLAINED and each.slope > 0]
    if not found:
        return []
    slope = float(np.median([each.slope for each in found]))
    if 1 / FACTOR < slope < FACTOR:
        return _swapped(found, recording.dt)
    unit, other = _units_of(slope)
    return _other_unit(slope, unit, other) if unit or other else []


def _units_of(slope: float) -> tuple[str | None, str | None]:
    """The unit of goals, or of positions, that would explain such a slope."""
    unit = next((name for name, size in UNITS.items() if 1 / FACTOR < slope / size < FACTOR), None)
    return unit, next((name for name, size in UNITS.items() if 1 / FACTOR < slope * size < FACTOR), None)


def _taken_for_commands(found: Sequence[Following], unit: str | None) -> list[str]:
    lag = 1e3 * float(np.median([each.lag for each in found]))
    cure = 'pass --goals (or input = "goal" in a column map), with a servo: --actuator servo+stribeck+delay'
    cure += f'; they are in {unit}: units = {{ goal = "{unit}" }}' if unit else ""
    return [f"inputs look like position goals: positions follow them after {lag:.0f} ms ({_some(found)}); {cure}"]


def _other_unit(slope: float, unit: str | None, other: str | None) -> list[str]:
    of = ("goals", unit, "positions") if unit else ("positions", other, "goals")
    units = f'goal = "{unit}"' if unit else f'q = "{other}", goal = "rad"'
    cure = f"{of[0]} look like {of[1]} beside {of[2]} in rad: units = {{ {units} }} in a column map"
    return [f"positions follow their goals with a slope of {slope:.3g}, not 1; {cure}"]


def _swapped(found: Sequence[Following], dt: float) -> list[str]:
    """Positions that come before their goals."""
    ahead = [each for each in found if each.lag < -1.5 * dt and each.left < CLEARER * each.left_after]
    if 2 * len(ahead) <= len(found):
        return []
    lead = -1e3 * float(np.median([each.lag for each in ahead]))
    cure = "they look swapped: give the column of goals as goal and that of positions as q in a column map"
    return [f"goals follow positions by {lead:.0f} ms ({_some(ahead)}); {cure}"]


def _shifted(found: Sequence[Following]) -> list[str]:
    off = [each for each in found if abs(each.offset) > max(OFF, STANDS_OUT * each.spread)]
    if not off:
        return []
    worst = max(off, key=lambda each: abs(each.offset))
    cure = (
        "if they count from the first pose, say goals_from_start = true in a column map; else give both from one zero"
    )
    return [f"goals and positions have different zeros ({worst.joint}: {-worst.offset:.3g}); {cure}"]


def _stuck(found: Sequence[Following]) -> list[str]:
    jaws = [each for each in found if is_gripper(each.joint) and math.hypot(each.spread, each.offset) > STUCK]
    far = {jaw.joint: math.hypot(jaw.spread, jaw.offset) for jaw in jaws}
    why = "as a jaw does that holds something or is closed; lock it: --lock"
    return [f"{joint}: stays {distance:.2g} rad from its goals, {why} {joint}" for joint, distance in far.items()]


def _some(found: Sequence[Following]) -> str:
    names = [each.joint for each in found]
    return ", ".join(names[:4]) + (" …" if len(names) > 4 else "")
