"""The data of a fit: what is fitted, what chooses between candidates, and what is kept back for the verdict."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from diffnea.identify.notes import Note, note
from diffnea.identify.options import ProblemOptions
from diffnea.identify.problem.measurements.long_recordings import shortened
from diffnea.identify.problem.measurements.noise import white_noise
from diffnea.recordings import Recording, RecordingError, Samples, as_list, is_regular, regular, smooth
from diffnea.recordings.signal.differentiate import JointSmoothing
from diffnea.recordings.signal.terms import Terms, terms
from diffnea.simulate.delay import Late, profiled, weights

_DEFAULT_PROBLEM = ProblemOptions()
# Recordings whose rates differ by less than this share are filtered together: a clock's jitter is more.
SAME_RATE = 1e-4
# What smoothing takes away is motion where it is so many times the noise at the top: 4 at most in rigid simulated arms.
RESTLESS = 10.0
VIBRATION = "vibration"  # the code of that
ROUNDING = 1e-8  # rad or m: smaller noise is that of numbers
PROFILED_ROWS = 4096  # in a block of goals that a profile follows
_profiled = jax.jit(profiled)


@dataclass(frozen=True)
class Track:
    """One stretch of motion, in double precision; `dt` is None where samples have no order in time."""

    name: str
    dt: float | None
    q: Float[np.ndarray, "time n"]
    qd: Float[np.ndarray, "time n"]
    qdd: Float[np.ndarray, "time n"]
    u: Float[np.ndarray, "time n"]
    measured: Float[np.ndarray, "time n"]  # positions as they were read
    noise: float = 0.0  # of positions, as a share of their spread: the worst joint's
    terms: Terms | None = None  # where derivatives come from positions: the same, smoothed little
    way: Float[np.ndarray, "time m"] | None = None  # in which dry friction is overcome, where the motion's past tells
    held: bool = False  # whether commands are held between samples; else they are of the same instant as the rest
    clear: Bool[np.ndarray, "time n"] | None = None  # of reversals, stops and limits, as the loss needs it; None: all
    own: Bool[np.ndarray, "time n"] | None = None  # the same of each joint's own alone
    far: Bool[np.ndarray, "time n"] | None = None  # so far from them that no filter reaches there
    crowded: Bool[np.ndarray, " n"] | None = None  # joints that turn back so often that rows near reversals had to stay
    before: tuple[np.ndarray, np.ndarray] | None = None  # positions and commands ahead, where derivatives are not known
    gain: Float[np.ndarray, "time n"] | None = None  # of servos, as their log counts; 0 where torque is off
    gain_before: Float[np.ndarray, "ahead n"] | None = None  # the same ahead

    def __len__(self) -> int:
        return len(self.q)

    def take(self, rows: slice | np.ndarray) -> "Track":
        """Some of its samples."""
        arrays = {key: getattr(self, key)[rows] for key in ("q", "qd", "qdd", "u", "measured")}
        little = None if self.terms is None else self.terms.take(rows)
        some = {key: getattr(self, key) for key in ("way", "clear", "own", "far", "gain")}
        arrays |= {key: array[rows] for key, array in some.items() if array is not None}
        before, set_to = (self.before, self.gain_before) if isinstance(rows, slice) and not rows.start else (None, None)
        return replace(self, **arrays, terms=little, before=before, gain_before=set_to)

    def from_start(self) -> tuple[Float[np.ndarray, "time n"], Float[np.ndarray, "time n"]]:
        """Positions as they were read and commands, from where the recording began."""
        ahead = self.before
        return (self.measured, self.u) if ahead is None else (np.r_[ahead[0], self.measured], np.r_[ahead[1], self.u])

    def gains_from_start(self) -> Float[np.ndarray, "time n"] | None:
        """The gains of the same samples as `from_start`."""
        ahead, gain = self.gain_before, self.gain
        return gain if ahead is None or gain is None else np.concatenate([ahead, gain])

    def arrived(self, late: Late | None) -> Float[np.ndarray, "time n"]:
        """Its commands as they arrive, late or at once."""
        if late is None:
            return self.u
        came = np.einsum("pn,tpn->tn", np.asarray(weights(late.delay, late.most)), self.commands(late.most))
        if late.profile is None or self.dt is None:
            return came
        # A whole number of blocks, so that tracks of any length are one program or two.
        padded = np.concatenate([came, np.repeat(came[-1:], -len(came) % PROFILED_ROWS, axis=0)])
        return np.asarray(_profiled(jnp.asarray(padded), late.profile, jnp.asarray(self.dt)).mean)[: len(came)]

    def acting(self, late: Late | None) -> Float[np.ndarray, "time n"]:
        """What acts at each sample: of held commands those before and after it, in equal parts."""
        arrived = self.arrived(late)
        return np.concatenate([arrived[:1], (arrived[:-1] + arrived[1:]) / 2]) if self.held else arrived

    def commands(self, late: int) -> Float[np.ndarray, "time late n"]:
        """At each sample the last commands, newest first."""
        return past_commands(self.u, late)


@dataclass(frozen=True)
class Split:
    """Training, validation and test; the notes say what was done to the data."""

    train: tuple[Track, ...]
    validation: tuple[Track, ...]
    fitted: tuple[Track, ...]  # both together
    test: tuple[Track, ...]
    notes: tuple[Note, ...]
    kept_back: str  # in words
    slip: tuple[float, ...] | None = None  # how far joints and coupled motors give before they slip, where that counts
    hold: tuple[float, ...] | None = None  # the share of their friction that a long rest leaves
    said: tuple[Note, ...] = ()  # on rows that are left out
    sampled: tuple[Note, ...] = ()  # on which samples of too many are here; among the notes, too

    @property
    def timed(self) -> bool:
        """Whether there are recordings, which can be rolled out."""
        return self.test[0].dt is not None

    @property
    def limits(self) -> tuple[Note, ...]:
        """What no rigid model of these data is good for, of each joint where that is most; among the notes, too."""

        def times(each: Note) -> float:
            return float(str(each.values["times"]))

        said = sorted((each for each in self.notes if each.code == VIBRATION), key=times)
        return tuple({each.subject: each for each in said}.values())


def spread_of(tracks: Sequence[Track]) -> Float[np.ndarray, " n"]:
    """How far each joint moves: the standard deviation of its position, or of all joints' where it stands still."""
    each = np.concatenate([track.q for track in tracks]).std(0)
    return np.where(each > 1e-9 * each.max(initial=0.0), each, each.max(initial=0.0) or 1.0)


Data = Recording | Samples | Sequence[Recording | Samples]


def split(
    data: Data,
    test: Data | None,
    joint_names: tuple[str, ...] | None,
    num_joints: int,
    seed: int,
    options: ProblemOptions = _DEFAULT_PROBLEM,
) -> Split:
    """Data in the robot's order of joints, differentiated where that is needed, and divided.

    Kept back are the last quarter of the recordings, or of a single one; of Samples a fifth, drawn by the seed.
    """
    given, shorter = shortened(_in_order(as_list(data), joint_names, num_joints), seed)
    tracks, notes = _tracks(given)
    if test is None:
        fitted, kept, words = _keep_back(tracks, seed, options)
    else:
        others, less = shortened(_in_order(as_list(test), joint_names, num_joints), seed)
        (kept, more), fitted, shorter = _tracks(others), tracks, shorter + less
        notes, words = notes + more, f"{len(kept)} recordings given as test"
        if (kept[0].dt is None) != (tracks[0].dt is None):
            raise RecordingError("fit: test and training data differ in kind; give recordings, or Samples, for both")
    train, validation = _divide(fitted, options.validation, seed + 1)
    parts = tuple(train), tuple(validation), tuple(fitted), tuple(kept)
    _check_gains([*fitted, *kept])
    return Split(*parts, tuple(dict.fromkeys([*shorter, *notes])), words, sampled=tuple(shorter))


def at_instants(parts: Split) -> Split:
    """The same where inputs are of the samples' instants: between two of them their mean acts."""

    def means(u: Float[np.ndarray, "time n"]) -> Float[np.ndarray, "time n"]:
        return np.concatenate([(u[:-1] + u[1:]) / 2, u[-1:]])

    def as_read(u: Float[np.ndarray, "time n"]) -> Float[np.ndarray, "time n"]:
        """Terms have inputs as if held, `sinc(ω/2)`; with `cos(ω/2)` of means that is 1 − ω²/6, which is undone."""
        found = means(u)
        found[1:-1] -= np.diff(found, 2, axis=0) / 6
        return found

    def moved(track: Track) -> Track:
        little = track.terms
        return track if little is None else replace(track, u=means(track.u), terms=replace(little, u=as_read(little.u)))

    names = ("train", "validation", "fitted", "test")
    return replace(parts, **{name: tuple(map(moved, getattr(parts, name))) for name in names})


def _in_order(given: list, joint_names: tuple[str, ...] | None, num_joints: int) -> list:
    """The same with the joints as the robot has them."""
    kinds = {isinstance(item, Recording) for item in given}
    if len(kinds) > 1:
        raise RecordingError("fit: recordings and Samples are mixed; give one kind")
    for item in given:
        if item.num_joints != num_joints:
            raise RecordingError(f"fit: the data have {item.num_joints} joints, the model has {num_joints}")
        if joint_names and item.joint_names and item.joint_names != joint_names:
            raise RecordingError(
                f"fit: the data are of joints {', '.join(item.joint_names)}; the robot's are {', '.join(joint_names)}"
            )
    return given


def _tracks(given: list) -> tuple[list[Track], list[Note]]:
    if isinstance(given[0], Samples):
        arrays = [[np.asarray(getattr(item, key), np.float64) for item in given] for key in ("q", "qd", "qdd", "u")]
        q, qd, qdd, u = map(np.concatenate, arrays)
        return [Track("samples", None, q, qd, qdd, u, q)], []
    tracks, notes, smoothed = [], [], []
    for k, item in enumerate(given):
        name = item.name or f"recording {k}"
        for piece in regular(item):
            track, said, joints = _track(name, piece)
            tracks.append(track)
            notes += [note("data", name, said=each) for each in said]
            smoothed += joints if is_regular(item) else ()  # interpolation makes the top of a spectrum quiet
    return tracks, notes + _restless(smoothed)


def _restless(joints: Sequence[JointSmoothing]) -> list[Note]:
    """Joints of which smoothing has taken away what is no noise of an encoder, each where that is most."""

    def times(each: JointSmoothing) -> float:
        return each.noise / max(each.white, 1e-300)

    loud = [each for each in joints if each.noise > ROUNDING and times(each) > RESTLESS]
    worst = {each.joint: each for each in sorted(loud, key=times)}
    return [
        note(VIBRATION, name, low=each.bandwidth, high=each.white_from, times=times(each), size=each.noise)
        for name, each in worst.items()
    ]


def _track(name: str, piece: Recording) -> tuple[Track, tuple[str, ...], tuple[JointSmoothing, ...]]:
    """A recording with its derivatives; where there are none, they and the positions are smoothed."""
    noise, q, little, said, given, joints = 0.0, piece.q, None, (), piece, ()
    if piece.qd is None or piece.qdd is None:
        smoothed = smooth(piece)
        little = terms(piece, smoothed)
        said = (
            f"equations of motion compared up to {little.bandwidth:.3g} Hz; commands count as held between samples",
        )
        piece, q = smoothed.recording, smoothed.q
        spread = np.maximum(np.std(piece.q, 0), 1e-300)  # of positions as read: no more than all of it is noise
        joints = smoothed.joints
        noise = float(np.max([joint.noise for joint in joints] / spread))
    states = np.asarray(q, np.float64), np.asarray(piece.qd, np.float64), np.asarray(piece.qdd, np.float64)
    others = np.asarray(piece.u, np.float64), np.asarray(piece.q, np.float64)
    ahead = int(np.searchsorted(given.time, piece.time[0] - 1e-9))
    before = (np.asarray(given.q[:ahead], np.float64), np.asarray(given.u[:ahead], np.float64)) if ahead else None
    set_to = None if given.gain is None or not ahead else np.asarray(given.gain[:ahead], np.float64)
    gains = {"gain": None if piece.gain is None else np.asarray(piece.gain, np.float64), "gain_before": set_to}
    track = Track(name, piece.dt, *states, *others, noise, little, held=little is not None, before=before, **gains)
    return track, (*piece.notes, *said), joints


def _check_gains(tracks: list[Track]) -> None:
    """Gains of some recordings say nothing of the others."""
    without = [track.name for track in tracks if track.gain is None]
    if without and len(without) < len(tracks):
        raise RecordingError(f"fit: {without[0]} has no gain, and other recordings have; give that of all, or of none")


def _keep_back(tracks: list[Track], seed: int, options: ProblemOptions) -> tuple[list[Track], list[Track], str]:
    if tracks[0].dt is None:
        fitted, kept = _divide(tracks, options.held_back_samples, seed)
        return fitted, kept, f"{len(kept[0])} of {len(tracks[0])} samples, drawn at random"
    names = list(dict.fromkeys(track.name for track in tracks))
    if len(names) == 1:
        fitted, kept = _divide(tracks, options.held_back, seed)
        each = f"each of {len(tracks)} stretches of " if len(tracks) > 1 else ""
        return fitted, kept, f"the last {options.held_back:.0%} of {each}{names[0]}"
    last = names[-max(1, round(options.held_back * len(names))) :]
    fitted = [track for track in tracks if track.name not in last]
    kept = [track for track in tracks if track.name in last]
    return fitted, kept, f"{len(last)} of {len(names)} recordings: {', '.join(last)}"


def _divide(tracks: list[Track], share: float, seed: int) -> tuple[list[Track], list[Track]]:
    """The last part of every stretch; of samples without order any."""
    first, second = [], []
    for track in tracks:
        cut = min(max(1, round((1 - share) * len(track))), len(track) - 1)
        if cut < 1:
            raise RecordingError(f"fit: {track.name} has {len(track)} sample; give more")
        order = np.arange(len(track)) if track.dt is not None else np.random.default_rng(seed).permutation(len(track))
        first.append(track.take(slice(0, cut) if track.dt is not None else np.sort(order[:cut])))
        second.append(track.take(slice(cut, None) if track.dt is not None else np.sort(order[cut:])))
    return first, second


def past_commands(u: Float[np.ndarray, "time n"], late: int) -> Float[np.ndarray, "time late n"]:
    """At each sample the last commands, newest first; before the first there was the first."""
    padded = np.concatenate([np.repeat(u[:1], late, 0), u])
    return np.stack([padded[late - k : late - k + len(u)] for k in range(late + 1)], 1)


def position_noise(track: Track, turns: Float[np.ndarray, "m n"]) -> Float[np.ndarray, " m"]:
    """The standard deviation of a reading of sums of positions, in rad or m; 0 where derivatives were given."""
    if track.terms is None:
        return np.zeros(len(turns))
    # At slow rates differences are motion too: there is no more noise than smoothing has found.
    most = np.abs(turns) @ (track.noise * track.q.std(0))
    return np.minimum(white_noise(track.measured @ turns.T), most)
