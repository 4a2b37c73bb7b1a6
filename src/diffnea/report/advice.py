"""Advice: what the model misses, by the pattern of what it leaves, and what to record next."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from diffnea.identify import Fit
from diffnea.identify.problem.measurements.weighting import scales
from diffnea.models import Model
from diffnea.report import residuals
from diffnea.report.evidence import Evidence
from diffnea.report.figures.fit_figures import Joints
from diffnea.text import count, listed, number

# A pattern is worth words when it explains this share of what is left, and what is left this share of the signal.
PATTERN, NOTABLE = 0.15, 0.02
MOST_OF_IT = 0.5  # beyond this share no single pattern is to blame
CLEAR, FAINT = 0.5, 1e-3  # a clear pattern is worth words even where little is left
AT_REST = 0.02  # of the usual top speed
REMEDIES = {
    "its velocity": "friction of another form (--actuator with stribeck or nn-friction)",
    "its position": "a torque that depends on the pose (--actuator with offset)",
}
# An estimate is called uncertain when its standard deviation is this share of it.
UNCERTAIN, NAMED = 0.25, 3
# A joint that uses less than this share of its range or speed could tell more.
LITTLE_USED = 0.4
# What other recordings of the same joints could tell.
OTHER_RECORDINGS = frozenset(
    {
        "unknown-never-moved",
        "unknown-never-commanded",
        "unknown-unseen",
        "unknown-not-separable",
        "unknown-servo-scale",
        "unknown-too-weak",
        "unknown-too-wide",
        "unknown-at-most",
        "unknown-static-friction",
        "unknown-static-top",
        "unknown-stribeck-velocity",
        "unknown-network",
    }
)


def missed(fit: Fit, found: Evidence, joints: Joints) -> list[str]:
    """What the model lacks, a sentence each, from the pattern of what it leaves."""
    said = []
    for k, (joint, share) in enumerate(zip(joints.names, left_over(fit, found), strict=True)):
        q, qd, left = _moving(found, k)
        goes_with = {
            "its velocity": residuals.binned(qd, left).explained,
            "its position": residuals.binned(q, left).explained,
        }
        if share > MOST_OF_IT:
            said.append(f"{joint}: the model explains little of it; look at the robot file, the signs and the units")
        elif share > NOTABLE or (share > FAINT and max(goes_with.values()) > CLEAR):
            head = f"{joint}: {share:.1%} of its variance is not explained"
            said += [f"{head}; {words}" for words in _pattern(goes_with, isinstance(fit.model, Model))]
    return said


def left_over(fit: Fit, found: Evidence) -> Float[np.ndarray, " n"]:
    """The share of each joint's torque, or acceleration, that is not explained: of variances, on data not fitted.

    The torque is that of the command, or what it takes to move and hold the joint by itself, if that is more: at a
    passive joint the sum of all torques is next to nothing.
    """
    whole = 1 / scales("torque" if isinstance(fit.model, Model) else "acceleration", fit.model, found.kept.tracks) ** 2
    given = [stretch.torques.rest for stretch in found.stretches if stretch.torques is not None]
    whole = np.maximum(whole, np.concatenate(given).var(0)) if given else whole
    return np.array([np.var(_moving(found, k)[2]) for k in range(len(whole))]) / whole


def _moving(found: Evidence, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A joint's positions, velocities and what is left, where it moves: at rest, friction holds against any torque."""
    rows = [(s.track.q[:, k], s.track.qd[:, k], s.residual[:, k]) for s in found.stretches]
    q, qd, left = (np.concatenate(column) for column in zip(*rows, strict=True))
    moves = np.abs(qd) > AT_REST * np.quantile(np.abs(qd), 0.99)
    return (q[moves], qd[moves], left[moves]) if moves.any() else (q, qd, left)


def _pattern(goes_with: dict[str, float], physical: bool) -> Iterator[str]:
    """The signals that the rest goes with, the strongest first."""
    strong = {name: share for name, share in sorted(goes_with.items(), key=lambda item: -item[1]) if share > PATTERN}
    for name, share in strong.items():
        remedy = f"; what may be missing is {REMEDIES[name]}" if physical else ""
        yield f"{share:.0%} of that goes with {name}{remedy}"
    if not strong:
        yield "it goes with neither velocity nor position: noise, or something with a memory, as play or elasticity"


def next_recordings(fit: Fit, found: Evidence | None, joints: Joints) -> list[str]:
    """What to record next, a sentence each."""
    if not isinstance(fit.model, Model):
        return ["a network knows only where it has been: record where it will be used"]
    said = [*_missing(fit), *_uncertain(fit)]
    if found is not None:
        said += _little_used(fit, found, joints)
    return said


def _missing(fit: Fit) -> Iterator[str]:
    counts = fit.known.counts
    if counts is None:
        return
    more = counts["structural_rank"] - counts["rank"]
    if more > 0:
        effort = np.asarray(fit.robot.joint_limits.effort)
        plan = "; diffnea excite plans a motion for it" if np.all(effort > 0) else ""
        yield f"other motions of the same joints could determine {count(more, 'more combination')}{plan}"
        yield from (str(each) for each in fit.unknown if each.code in OTHER_RECORDINGS)
    elif counts["rank"]:
        yield "every combination that recordings of these joints can determine is determined: more data only narrows it"


def _uncertain(fit: Fit) -> Iterator[str]:
    wide = [c for c in fit.identifiable if np.isfinite(c.std) and c.std > UNCERTAIN * abs(c.value)]
    if wide:
        worst = sorted(wide, key=lambda c: -c.std / max(abs(c.value), 1e-300))[:NAMED]
        named = listed([f"{c.formula} ({number(c.value, 3)} ± {number(2 * c.std, 2)} {c.unit})" for c in worst])
        yield f"known least: {named}; motion that depends on them more would narrow them"


def _little_used(fit: Fit, found: Evidence, joints: Joints) -> Iterator[str]:
    """Joints that stayed far within the limits of the robot file."""
    limits, kept = fit.robot.joint_limits, found.kept
    ranges = np.asarray(limits.upper, float) - np.asarray(limits.lower, float)
    speeds = np.asarray(limits.velocity, float)
    for k, joint in enumerate(joints.names):
        used = (kept.highest[k] - kept.lowest[k]) / ranges[k] if 0 < ranges[k] < np.inf else 1.0
        fast = kept.fastest[k] / speeds[k] if 0 < speeds[k] < np.inf else 1.0
        parts = [f"{used:.0%} of its range"] if used < LITTLE_USED else []
        parts += [f"{fast:.0%} of the speed in its file"] if fast < LITTLE_USED else []
        if parts:
            yield f"{joint} used {listed(parts)}; the fit says nothing sure beyond that"
