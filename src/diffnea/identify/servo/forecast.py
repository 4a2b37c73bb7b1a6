"""What motions under goals would tell, before they are fitted: a rough fit of some of them, and its slopes."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea.identify.notes import Note
from diffnea.identify.options import ServoOptions
from diffnea.identify.problem.linearised import Linearised
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.identify.problem.unknowns import Unknowns
from diffnea.identify.servo.lanes import lanes
from diffnea.identify.servo.loop_unknowns import Freedom, freedom
from diffnea.identify.servo.search.descent import Searched
from diffnea.identify.servo.search.objective import Objective
from diffnea.identify.servo.search.rough import posed, roughly
from diffnea.identify.servo.servo_parts import some_motions
from diffnea.identify.servo.whole_motions import known_together, linearised_motions, own_unknowns
from diffnea.models import Model
from diffnea.simulate import rollout

PLANNED = "planned"


class Planned(NamedTuple):
    """Goals to send, and the time between them."""

    u: Float[np.ndarray, "time n"]
    dt: float


# What a reading is off by where nothing is recorded yet, in rad or m: an encoder of 4096 steps a turn.
READING = 1.5e-3 / np.sqrt(12)


def servo_forecast(
    free: Unknowns, tracks: Sequence[Track], from_name: bool, options: ServoOptions, planned: Planned | None = None
) -> tuple[Linearised, tuple[Note, ...]]:
    """Errors and slopes of whole motions where a short search ends, and what closed loops tell only together.

    With a planned motion, as if that had been recorded, too.
    """
    some = some_motions(tracks)
    freed = posed(free, some, from_name)
    objective = Objective(lanes(some, freed.tree[1].most_delay), freed)
    found = roughly(objective, options.rough, float(some[0].dt or 1.0))
    model = freed.model(jnp.asarray(found.theta))
    left = objective.compared(found.theta[None])[0].errors.std(axis=0)
    return _told(free, freed, found, some if planned is None else [*some, _recorded(model, planned, left)])


def planned_forecast(free: Unknowns, planned: Planned) -> tuple[Linearised, tuple[Note, ...]]:
    """The same of a planned motion alone, at the numbers of the robot file."""
    freed = freedom(free)
    model = freed.model(jnp.asarray(freed.start))
    track = _recorded(model, planned, np.full(model.num_joints, READING))
    found = Searched(freed.start, 0.0, np.zeros((1, model.num_joints)), (), True)
    return _told(free, freed, found, [track])


def _recorded(model: Model, planned: Planned, noise: Float[np.ndarray, " n"]) -> Track:
    """What would be read of a motion under these goals."""
    start = planned.u[0]
    q = np.asarray(rollout(model, start, np.zeros_like(start), planned.u, planned.dt).q)
    read = q + noise * np.random.default_rng(0).standard_normal(q.shape)
    still = np.zeros_like(q)
    return Track(PLANNED, planned.dt, q, still, still, planned.u, read)


def _told(
    free: Unknowns, freed: Freedom, found: Searched, tracks: Sequence[Track]
) -> tuple[Linearised, tuple[Note, ...]]:
    own, theta = own_unknowns(free, freed, found.theta)
    notes = known_together(freed.model(jnp.asarray(found.theta)), tracks, free)
    data = lanes(tracks, freed.tree[1].most_delay)
    return linearised_motions(data, freed, found, own, theta, tracks), tuple(notes)
