"""The verdict: whether a fit may be used, decided on data that were not fitted, with reasons.

Accepted is a fit that is surely better than its start, and good by itself: a black box explains next to nothing of
the torques that it leaves, and its roll-outs are far better than guesses. What it is compared in follows the loss.
"""

import math
from collections.abc import Sequence

import numpy as np

from diffnea.identify.judge.assess import Assessment, Metrics
from diffnea.identify.judge.black_box import Structure
from diffnea.identify.judge.bootstrap import Bound
from diffnea.identify.notes import Note, note
from diffnea.identify.options import JudgeOptions
from diffnea.models import AbstractModel, Model

ACCEPTED, NO_BETTER, FAILED = "accepted", "no better than the start", "failed"


class Verdict(str):
    """One of three words, to be compared with a string, and why: notes with codes, and the same in words."""

    notes: tuple[Note, ...]

    def __new__(cls, word: str, reasons: Sequence[Note | str] = ()) -> "Verdict":
        verdict = super().__new__(cls, word)
        verdict.notes = tuple(map(as_note, reasons))
        return verdict

    @property
    def status(self) -> str:
        """The word alone."""
        return str.__str__(self)

    def also(self, notes: Sequence[Note | str]) -> "Verdict":
        """The same word with more to say."""
        return Verdict(self.status, [*self.notes, *notes])

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why, a sentence each."""
        return tuple(map(str, self.notes))

    @property
    def codes(self) -> tuple[str, ...]:
        """Why, as codes."""
        return tuple(each.code for each in self.notes)

    def __repr__(self) -> str:
        return f"{self.status}: {'; '.join(self.reasons)}" if self.notes else self.status


def as_note(said: Note | str) -> Note:
    """A sentence as a note without a code of its own."""
    return said if isinstance(said, Note) else note("said", said=said)


def another_robot(before: AbstractModel, after: AbstractModel, options: JudgeOptions | None = None) -> tuple[Note, ...]:
    """Whether a model has become one of another robot: data of many machines can be explained so."""
    if not (isinstance(before, Model) and isinstance(after, Model)):
        return ()
    most = (options or JudgeOptions()).another
    given, found = (float(np.sum(np.asarray(each.robot.inertia.mass))) for each in (before, after))
    if given <= 0 or given / most < found < given * most:
        return ()
    return (note("another-robot", factor=found / given),)


def judge(
    metrics: Metrics,
    found: Assessment,
    joint_names: Sequence[str],
    problems: Sequence[Note | str] = (),
    notes: Sequence[Note | str] = (),
    strange: Sequence[Note | str] = (),
    options: JudgeOptions | None = None,
    limits: Sequence[Note] = (),
) -> Verdict:
    """The verdict; `problems` found on the way rule acceptance out, and so does what is `strange` about the result.

    Of a fit that is accepted, `limits` to its use come first.
    """
    options = options or JudgeOptions()
    if problems:
        return Verdict(FAILED, [*problems, *limits, *notes])
    if not found.finite:
        return Verdict(FAILED, [note("not-finite"), *limits, *notes])
    lacking = _lacking(found, joint_names, options)
    reasons = [*_compared(metrics, found, options), *_also(found, joint_names)]
    if lacking:
        return Verdict(FAILED, [*lacking, *strange, *limits, *reasons, *notes])
    if found.against_start is not None and not found.against_start.upper < 0:
        return Verdict(NO_BETTER, [*limits, *reasons, *notes])
    return Verdict(FAILED if strange else ACCEPTED, [*strange, *limits, *reasons, *notes])


def _lacking(found: Assessment, names: Sequence[str], options: JudgeOptions) -> list[Note]:
    """What keeps a model from being good by itself."""
    what = "acceleration" if found.structure is None and found.basis != "torques" else "torque"
    what = "motion" if found.structure is None and found.basis == "roll-outs" else what
    said = [
        note("unexplained", name, what=what, explained=max(0.0, 1 - share**2))
        for name, share in zip(names, found.unexplained, strict=True)
        if not share <= options.unexplained
    ]
    if found.structure is not None:
        said += _structures(found.structure, names, options)
    if found.against_guess is not None and not _beats_guesses(found.against_guess, options):
        said.append(_guess(found, options))
    return said


def _beats_guesses(found: Bound, options: JudgeOptions) -> bool:
    """Far, and surely."""
    return found.mean < math.log(options.guess) and found.upper < 0


def _structures(found: Structure, names: Sequence[str], options: JudgeOptions) -> list[Note]:
    """The joints of which a black box explains too much."""
    said = []
    for name, removed, ratio in zip(names, found.removed, found.ratio, strict=True):
        mostly = ratio.lower > -np.log(1 - options.mostly)
        most = options.mostly_structure if mostly else options.structure
        if removed.lower > most:
            said.append(note("structure", name, removed=removed.mean, bound=removed.lower, most=most))
    return said


def _compared(metrics: Metrics, found: Assessment, options: JudgeOptions) -> list[Note]:
    """The fit beside its start and beside guesses."""
    said = []
    if found.basis == "accelerations":
        nmse = [np.nan if each is None else each for each in (metrics.fit.nmse, metrics.start.nmse)]
        said.append(note("accelerations-decide", fit=nmse[0], start=nmse[1]))
    if found.against_start is None:
        said.append(note("start-unknown"))
    else:
        ratio, _, bound = np.exp(found.against_start)
        values = {"what": found.basis, "ratio": float(ratio), "bound": float(bound), "windows": found.windows}
        said.append(note("against-start", **values))
    if found.against_guess is not None and _beats_guesses(found.against_guess, options):
        said.append(_guess(found, options))
    if found.basis == "roll-outs" and max(metrics.fit.error, default=np.inf) < options.floor:
        said.append(note("below-floor", floor=options.floor))
    return said


def _guess(found: Assessment, options: JudgeOptions) -> Note:
    assert found.against_guess is not None
    ratio, _, bound = np.exp(found.against_guess)
    return note("against-guess", ratio=float(ratio), bound=float(bound), most=options.guess)


def _also(found: Assessment, names: Sequence[str]) -> list[Note]:
    """What a reader should know beside."""
    said = []
    if found.structure is not None:
        worst = int(np.argmax(found.unexplained))
        said.append(note("torque-left", names[worst], left=found.unexplained[worst]))
    if found.lost is not None and found.lost[0] and found.basis == "roll-outs":
        said.append(note("diverged", lost=found.lost[0], before=found.lost[1], windows=found.windows))
    return said
