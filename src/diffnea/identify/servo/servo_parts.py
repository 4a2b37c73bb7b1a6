"""Which parts a servo's actuator has, where that is left to the data: each is fitted roughly to some of the motions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from diffnea.identify.options import ServoOptions
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.identify.problem.unknowns import Unknowns
from diffnea.identify.servo.lanes import lanes
from diffnea.identify.servo.search.objective import Objective
from diffnea.identify.servo.search.rough import posed, roughly

# What servos have at least, and what some have besides: goals of another zero, loops that follow the goal's velocity,
# motors that drive two joints together.
PLAIN, MORE = "servo+coulomb+load+delay", ("constant", "lead", "differential")
# What firmware may do to goals; tried beside the best of the others.
PROFILE = "profile"
# What shows where gains are known: the most torque, which high gains reach; friction that differs at rest.
AT_GAINS = "servo+stribeck+load+limit+delay"
# Samples that are enough to choose by.
CHOOSING_SAMPLES = 20_000


@dataclass(frozen=True)
class ServoChoice:
    """The actuator, and in words what was tried."""

    actuator: str
    tried: str


def choose_servo(unknowns_of: Callable[[str], Unknowns], tracks: Sequence[Track], options: ServoOptions) -> ServoChoice:
    """The plain actuator, or one with more where that explains much more; with a profile of goals where that does."""
    some, dt = some_motions(tracks), float(tracks[0].dt or 1.0)

    def left(name: str, motions: Sequence[Track]) -> float:
        freed = posed(unknowns_of(name), motions, from_name=True)
        data = lanes(motions, freed.tree[1].most_delay)
        return float(roughly(Objective(data, freed), options.rough, dt).rms.mean())

    more = MORE if tracks[0].q.shape[1] > 1 else MORE[:-1]
    shares = {PLAIN: 1.0, "+".join((PLAIN, *more)): options.better}
    if tracks[0].gain is not None:
        shares |= {AT_GAINS: options.promising, f"{AT_GAINS}+{more[0]}": options.promising**2}
    errors = {name: left(name, some) for name in shares}
    best = min(errors, key=lambda name: errors[name] / shares[name])
    tried = ", ".join(f"{name} {1e3 * error:.1f} mrad" for name, error in errors.items())
    quick, profiled = with_quickest(tracks), f"{best}+{PROFILE}"
    without, with_it = (left(name, quick) for name in (best, profiled))
    tried += f"; with {PROFILE} {1e3 * with_it:.1f} instead of {1e3 * without:.1f} mrad, the quickest among them"
    return ServoChoice(profiled if with_it < options.better * without else best, tried)


def some_motions(tracks: Sequence[Track]) -> list[Track]:
    """Whole motions from all over the recordings, as many as are enough; of a single long one its beginning."""
    sizes = np.array([len(track) for track in tracks])
    count = int(np.clip(CHOOSING_SAMPLES / sizes.mean(), 1, len(tracks)))
    chosen = np.unique(np.linspace(0, len(tracks) - 1, count).round().astype(int))
    return [tracks[k].take(slice(0, CHOOSING_SAMPLES)) for k in chosen]


def with_quickest(tracks: Sequence[Track]) -> list[Track]:
    """As many whole motions: by turns those whose goals accelerate most, where a profile would show, and some others.

    The quickest alone would not do: starts by regression take loops for nearly in balance.
    """
    pace = [np.mean(np.square(np.diff(track.u, 2, axis=0))) / float(track.dt or 1.0) ** 4 for track in tracks]
    order = np.argsort(-np.array(pace), kind="stable").tolist()
    usual = order[len(order) // 2 :]
    mixed = dict.fromkeys(k for pair in zip(order, usual, strict=False) for k in pair)
    sizes = np.cumsum([len(tracks[k]) for k in mixed])
    count = max(int(np.searchsorted(sizes, CHOOSING_SAMPLES, side="right")), 1)
    return [tracks[k].take(slice(0, CHOOSING_SAMPLES)) for k in list(mixed)[:count]]
