"""Advice: what the model misses, by the pattern of what it leaves, and what to record next."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from diffnea.identify import Fit
from diffnea.models import Model
from diffnea.report import residuals
from diffnea.report.evidence import Evidence, Stretch
from diffnea.report.fit_figures import Joints
from diffnea.report.wording import count, listed, number

# A pattern is worth words when it explains this share of what is left, and what is left this share of the signal.
PATTERN, NOTABLE = 0.15, 0.02
MOST_OF_IT = 0.5  # beyond this share no single pattern is to blame
# An estimate is called uncertain when its standard deviation is this share of it.
UNCERTAIN, NAMED = 0.25, 3
# A joint that uses less than this share of its range or speed could tell more.
LITTLE_USED = 0.4


def missed(fit: Fit, found: Evidence, joints: Joints) -> list[str]:
    """What the model lacks, a sentence each, from the pattern of what it leaves."""
    left, q, qd = (
        found.joined([get(stretch) for stretch in found.stretches])
        for get in (lambda s: s.residual, lambda s: s.track.q, lambda s: s.track.qd)
    )
    said = []
    for k, (joint, share) in enumerate(zip(joints.names, left_over(found), strict=True)):
        if share > MOST_OF_IT:
            said.append(f"{joint}: the model explains little of it; look at the robot file, the signs and the units")
        elif share > NOTABLE:
            head = f"{joint}: {share:.0%} of its variance is not explained"
            signals = q[:, k], qd[:, k], left[:, k]
            said += [f"{head}; {words}" for words in _pattern(*signals, physical=isinstance(fit.model, Model))]
    return said


def left_over(found: Evidence) -> Float[np.ndarray, " n"]:
    """The share of each joint's torque, or acceleration, that is not explained: of variances, on data not fitted."""
    left = found.joined([stretch.residual for stretch in found.stretches])
    whole = [found.joined([get(s) for s in found.stretches]).var(0) for get in (_taken, _given)]
    return left.var(0) / np.maximum(np.maximum(*whole), 1e-300)


def _taken(stretch: Stretch) -> np.ndarray:
    return stretch.track.qdd if stretch.torques is None else stretch.torques.taken


def _given(stretch: Stretch) -> np.ndarray:
    return stretch.fit if stretch.torques is None else stretch.torques.rest


def _pattern(q: np.ndarray, qd: np.ndarray, left: np.ndarray, physical: bool) -> Iterator[str]:
    """The signals that the rest goes with, the strongest first."""
    remedies = {
        "its velocity": "friction of another form (--actuator with stribeck or nn-friction)",
        "its position": "a torque that depends on the pose (--actuator with offset)",
    }
    shares = {
        "its velocity": residuals.binned(qd, left).explained,
        "its position": residuals.binned(q, left).explained,
    }
    strong = {name: share for name, share in sorted(shares.items(), key=lambda item: -item[1]) if share > PATTERN}
    for name, share in strong.items():
        remedy = f"; what may be missing is {remedies[name]}" if physical else ""
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
        effort = np.asarray(fit.robot.limits.effort)
        plan = "; diffnea excite plans a motion for it" if np.all(effort > 0) else ""
        yield f"other motions of the same joints could determine {count(more, 'more combination')}{plan}"
        yield from (sentence for sentence in fit.unknown if "these recordings" in sentence)
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
    limits, kept = fit.robot.limits, found.kept
    ranges = np.asarray(limits.upper, float) - np.asarray(limits.lower, float)
    speeds = np.asarray(limits.velocity, float)
    for k, joint in enumerate(joints.names):
        used = (kept.highest[k] - kept.lowest[k]) / ranges[k] if 0 < ranges[k] < np.inf else 1.0
        fast = kept.fastest[k] / speeds[k] if 0 < speeds[k] < np.inf else 1.0
        parts = [f"{used:.0%} of its range"] if used < LITTLE_USED else []
        parts += [f"{fast:.0%} of the speed in its file"] if fast < LITTLE_USED else []
        if parts:
            yield f"{joint} used {listed(parts)}; the fit says nothing sure beyond that"
