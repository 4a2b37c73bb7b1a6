"""The verdict: whether a fit may be used, decided on data that were not fitted, with reasons."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffnea.identify.judge.score import Score
from diffnea.models import Model

ACCEPTED, NO_BETTER, FAILED = "accepted", "no better than the start", "failed"
# A roll-out error must fall by this share, or the two are the same within what data of this kind can tell.
MARGIN = 0.05
# A joint of whose acceleration less than this share is explained is not understood.
EXPLAINED = 0.5
# Roll-out errors below this share of those of guesses without a model are no accident.
CONVINCING = 0.2
# A robot that has become heavier or lighter by this factor is another one.
ANOTHER = 30.0
# Positions that are noise to this share of their spread tell nothing.
MOST_NOISE = 0.5


class Verdict(str):
    """One of three words, to be compared with a string, and why: `verdict.reasons`."""

    reasons: tuple[str, ...]

    def __new__(cls, word: str, reasons: Sequence[str] = ()) -> "Verdict":
        verdict = super().__new__(cls, word)
        verdict.reasons = tuple(reasons)
        return verdict

    @property
    def status(self) -> str:
        """The word alone."""
        return str.__str__(self)

    def __repr__(self) -> str:
        return f"{self.status}: {'; '.join(self.reasons)}" if self.reasons else self.status


@dataclass(frozen=True)
class Metrics:
    """On data not fitted, side by side: the fit, the start (the robot as it was given), and guesses without a model."""

    fit: Score
    start: Score
    constant_velocity: Score | None
    standing_still: Score | None

    def __getitem__(self, name: str) -> Any:
        """A number of the fit by its name, as `metrics["nmse"]`."""
        return getattr(self.fit, name)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: None if part is None else part.to_dict() for name, part in vars(self).items()}

    def __str__(self) -> str:
        """A table: one line a model."""
        rows = [("fit", self.fit), ("start", self.start)]
        rows += [("constant velocity", self.constant_velocity), ("standing still", self.standing_still)]
        head = "".join(f"{f'{h:g} s':>10}" for h in self.fit.horizons)
        lines = [f"{'':18}{'nMSE':>10}{head}{'good for':>10}{'diverged':>10}"]
        for name, part in rows:
            if part is not None:
                nmse = "" if part.nmse is None else f"{part.nmse:.3g}"
                errors = "".join(f"{error:>10.3g}" for error in part.error)
                good = "" if part.good_for is None else f"{part.good_for:.2f} s"
                lines.append(f"{name:18}{nmse:>10}{errors}{good:>10}{f'{part.diverged}/{part.windows}':>10}")
        return "\n".join(lines)


def another_robot(before: Any, after: Any) -> list[str]:
    """Whether a model has become one of another robot, in one sentence: data of many machines can be explained so."""
    if not (isinstance(before, Model) and isinstance(after, Model)):
        return []
    given, found = (float(np.sum(np.asarray(each.robot.inertia.mass))) for each in (before, after))
    if given <= 0 or given / ANOTHER < found < given * ANOTHER:
        return []
    signs = "these are data of another robot, or inputs in another unit"
    return [f"the robot would weigh {found / given:.3g} times what its file says: {signs}"]


def judge(
    metrics: Metrics,
    problems: Sequence[str],
    notes: Sequence[str],
    joint_names: Sequence[str],
    strange: Sequence[str] = (),
) -> Verdict:
    """The verdict; `problems` found on the way rule acceptance out, and so does what is `strange` about the result."""
    if strange:
        seen = judge(metrics, problems, notes, joint_names)
        return Verdict(FAILED, [*strange, *seen.reasons]) if seen == ACCEPTED else seen
    if problems:
        return Verdict(FAILED, [*problems, *notes])
    fit = metrics.fit
    if not np.isfinite(fit.nmse if fit.nmse is not None else np.nan):
        return Verdict(FAILED, ["predictions on the data kept back are not finite", *notes])
    puzzled = [
        f'only {max(0.0, 1 - nmse):.0%} of the {what} of joint "{joint}" is explained on data kept back; '
        "the model lacks something, or these are not data of this robot"
        for joint, (what, nmse) in zip(joint_names, _unexplained(fit), strict=True)
        if nmse > 1 - EXPLAINED
    ]
    if not fit.horizons:
        return _by_acceleration(metrics, puzzled, notes)
    return _by_rollouts(metrics, puzzled, notes)


def _unexplained(fit: Score) -> list[tuple[str, float]]:
    """Of each joint what was compared, and its nMSE: torque where that was fitted and commanded."""
    torques = fit.torque_joints or (np.nan,) * len(fit.nmse_joints)
    pairs = zip(torques, fit.nmse_joints, strict=True)
    return [("acceleration", a) if np.isnan(torque) else ("torque", torque) for torque, a in pairs]


def _by_acceleration(metrics: Metrics, puzzled: list[str], notes: Sequence[str]) -> Verdict:
    fit, start = metrics.fit.nmse, metrics.start.nmse
    basis = "nothing could be rolled out (samples without order in time, or too few), so accelerations decide"
    numbers = f"nMSE on samples kept back {_number(fit)}, of the start {_number(start)}"
    better = fit is not None and (start is None or not np.isfinite(start) or fit < (1 - MARGIN) * start)
    word = ACCEPTED if better and not puzzled else NO_BETTER if not better else FAILED
    return Verdict(word, [*puzzled, numbers, basis, *notes])


def _by_rollouts(metrics: Metrics, puzzled: list[str], notes: Sequence[str]) -> Verdict:
    fit, start = metrics.fit, metrics.start
    against = {"the start": start, "constant velocity": metrics.constant_velocity}
    against["standing still"] = metrics.standing_still
    reasons, word, ratios = [], ACCEPTED, []
    for name, other in against.items():
        if other is None:
            continue
        ratio = _ratio(fit.error, other.error)
        said = (
            f"errors of predictions ahead are {ratio:.3g} times those of {name} (geometric mean over {_horizons(fit)})"
        )
        reasons.append(said)
        ratios.append(ratio)
        if not ratio < 1 - MARGIN:
            word = NO_BETTER if name == "the start" or word == NO_BETTER else FAILED
    if fit.diverged > start.diverged:
        # Where the start loses some too, as past an unstable pose, how many is chance within twice the root.
        more = fit.diverged > start.diverged + 2 * np.sqrt(start.diverged)
        word = NO_BETTER if more and word == ACCEPTED else word
        reasons.append(f"{fit.diverged} of {fit.windows} roll-outs diverge, of the start {start.diverged}")
    if puzzled and word == ACCEPTED:
        # Accelerations from noisy positions may be noise for the most part; roll-outs this good rest on more than that.
        convincing = max(ratios[1:], default=1.0) < CONVINCING
        word, puzzled = (ACCEPTED, []) if convincing else (FAILED, puzzled)
    return Verdict(word, [*puzzled, *reasons, *notes])


def _horizons(score: Score) -> str:
    return ", ".join(f"{h:g}" for h in score.horizons) + " s"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


def _ratio(fit: Sequence[float], other: Sequence[float]) -> float:
    """Geometric mean of the ratios; an error that is not finite counts as very large."""
    tiny = 1e-300
    ours, theirs = (np.clip(np.nan_to_num(np.array(e), nan=1e9, posinf=1e9), tiny, 1e9) for e in (fit, other))
    return float(np.exp(np.mean(np.log(ours / theirs))))
