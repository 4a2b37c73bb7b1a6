"""The fit of a servo robot: starts by regression, whole motions by search, a table where one was touched."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea import batches, parameters
from diffnea.identify.notes import Note, note
from diffnea.identify.options import ServoOptions
from diffnea.identify.problem.linearised import Linearised, Motion
from diffnea.identify.problem.measurements.tracks import Split, Track
from diffnea.identify.problem.parameter import of_actuator, of_robot
from diffnea.identify.problem.unknowns import Unknowns
from diffnea.identify.progress import tell
from diffnea.identify.servo import table_contact
from diffnea.identify.servo.finer import finer_errors
from diffnea.identify.servo.lanes import THIN, Lanes, lanes
from diffnea.identify.servo.loop_unknowns import Freedom
from diffnea.identify.servo.reached import unreached
from diffnea.identify.servo.search.descent import Searched
from diffnea.identify.servo.search.jumps import search_with_jumps
from diffnea.identify.servo.search.objective import Objective
from diffnea.identify.servo.search.release import released
from diffnea.identify.servo.search.rough import posed, roughly
from diffnea.models import Model

# Gravity that bends a joint's servo by no more than this, in rad or m, is not felt: readings and backlash are as large.
UNFELT = 2e-3


@dataclass(frozen=True)
class ServoFit:
    """What was found; `free` are the numbers that were free, without a table's."""

    model: Model
    free: Unknowns
    loss: float
    history: tuple[float, ...]
    converged: bool
    notes: tuple[Note, ...]
    linearised: Callable[[], Linearised]


def fit_servo(free: Unknowns, parts: Split, from_name: bool, options: ServoOptions) -> ServoFit:
    """From goals and positions to a model."""
    tracks = parts.fitted
    freed = posed(free, tracks, from_name)
    data = lanes(tracks, freed.tree[1].most_delay)
    rough = roughly(Objective(data, freed), options.rough, float(tracks[0].dt or 1.0))
    chosen, found, without = _with_table(data, freed, rough, tracks, options)
    model = chosen.model(jnp.asarray(found.theta))
    own, theta = own_unknowns(free, chosen, found.theta)
    notes = [note("servo-loss", error=1e3 * float(found.rms.mean()))]
    notes += [] if model.contact is None else [_touching(model, tracks, found, without)]
    return ServoFit(
        model=model,
        free=own,
        loss=found.loss,
        history=(*rough.history, *found.history),
        converged=found.converged,
        notes=(*notes, *known_together(model, tracks, free)),
        linearised=partial(linearised_motions, data, chosen, found, own, theta, tracks),
    )


def _with_table(
    data: Lanes, freed: Freedom, rough: Searched, tracks: Sequence[Track], options: ServoOptions
) -> tuple[Freedom, Searched, float]:
    """The search to its end, with a table where that explains what was left; and the error that was left without."""
    # The file's robot: a search that knows of no table bends bodies, and with them where a link seems to end.
    robot, dt = freed.model(jnp.asarray(freed.start)).robot, float(tracks[0].dt or 1.0)

    def alone() -> Searched:
        return _searched(Objective(data, freed), rough.theta, options, dt)

    first = table_contact.best(data, freed, rough.theta, table_contact.candidates(robot, tracks))
    if first.loss > options.promising * rough.loss:
        return freed, alone(), rough.loss
    second = table_contact.best(data, freed, rough.theta, table_contact.beside(first.free.tree[2]))
    one = freed.at(rough.theta).with_table(table_contact.at_one_point(first.free.tree[2]))
    chosen = second.free if second.loss <= first.loss else one
    found = _searched(Objective(data, chosen), chosen.start, options, dt)
    if found.loss < options.clear_table * rough.loss:
        return chosen, found, rough.loss
    without = alone()
    if found.loss > options.table * without.loss:
        return freed, without, without.loss
    return chosen, found, without.loss


def _searched(objective: Objective, theta: Float[np.ndarray, " p"], options: ServoOptions, dt: float) -> Searched:
    return released(objective, search_with_jumps(objective, theta, options.fine, dt, tell))


def own_unknowns(free: Unknowns, freed: Freedom, theta: Float[np.ndarray, " p"]) -> tuple[Unknowns, np.ndarray]:
    """The unknowns of robot and actuator as they were free, and θ of these alone."""
    tree, masks = freed.at(theta).tree[:2], freed.masks[:2]
    entries = (*of_robot(tree[0], masks[0]), *of_actuator(tree[1], masks[1]))
    return replace(free, tree=tree, masks=masks, parameters=entries), np.asarray(parameters.pack(tree, masks))


def _touching(model: Model, tracks: Sequence[Track], found: Searched, without: float) -> Note:
    assert model.contact is not None
    shares = [table_contact.touched(model.contact, model.robot, track.measured).mean() for track in tracks]
    sizes = np.array([len(track) for track in tracks])
    most = ", ".join(tracks[k].name for k in np.argsort(shares)[::-1][:3] if shares[k] > 0)
    return note(
        "servo-table",
        share=float(np.average(shares, weights=sizes)),
        where=most,
        height=float(model.contact.height),
        without=1e3 * without,
        error=1e3 * float(found.rms.mean()),
    )


def known_together(model: Model, tracks: Sequence[Track], free: Unknowns) -> list[Note]:
    """What closed loops tell only together."""
    loop, dt = model.actuator.loop, float(tracks[0].dt or 1.0)
    assert loop is not None
    kp, kd = np.asarray(loop.stiffness), np.asarray(loop.damping)
    dry = np.asarray(model.actuator.resistance(jnp.zeros(len(kp)), jnp.ones(len(kp))).dry)
    names, said = model.robot.joint_names, []
    for j in scaled_by_inertia(model, tracks):
        said.append(note("servo-ratio", names[j], lag=1e3 * kd[j] / kp[j], band=1e3 * dry[j] / kp[j]))
    if model.actuator.most_delay:
        sums = 1e3 * (np.asarray(model.actuator.delay) * dt + kd / np.maximum(kp, 1e-12))
        words = ", ".join(f"{name} {both:.0f} ms" for name, both in zip(names, sums, strict=True))
        said.append(note("servo-lag", text=words))
    said += unreached(model, tracks)
    return [note("servo-centres"), *said] if "inertia" in free.learned else said


def scaled_by_inertia(model: Model, tracks: Sequence[Track]) -> tuple[int, ...]:
    """The joints whose servos no gravity bends by as much as a reading tells: only inertia sets their scale."""
    assert model.actuator.loop is not None
    q = np.concatenate([track.measured[::10] for track in tracks])
    gravity = np.sqrt(np.mean(np.square(batches.gravity_torque(model.robot, q)), axis=0))
    kp = np.asarray(model.actuator.loop.stiffness)
    return tuple(map(int, np.flatnonzero((kp > 0) & (gravity < UNFELT * kp))))


def linearised_motions(
    data: Lanes,
    chosen: Freedom,
    found: Searched,
    free: Unknowns,
    theta: Float[np.ndarray, " p"],
    tracks: Sequence[Track],
) -> Linearised:
    """Errors of whole motions at the solution and their slopes, by differences; in RMS errors of each joint.

    Errors are those of finer steps: what they still ask for is what inner steps have bent, and widens intervals.
    """
    objective = Objective(data, chosen)
    here = objective.compared(found.theta[None])[0]
    slopes = objective.slopes(found.theta, here) / objective.spread[:, None, None]
    motion = data.compared_motion
    starts = np.zeros(data.count, int)
    starts[motion[::-1]] = np.arange(len(motion))[::-1]
    scale = np.sqrt(np.mean(np.square(here.errors), axis=0))
    n, size = here.errors.shape[1], len(theta)
    left = finer_errors(chosen.model(jnp.asarray(found.theta)), tracks, data)
    left = np.where(np.isfinite(left), left, here.errors)
    return Linearised(
        theta=theta,
        jacobian=(slopes[:size] / scale).transpose(1, 2, 0).reshape(-1, size).astype(float),
        residuals=(left / scale).ravel().astype(float),
        joint=np.tile(np.arange(n), len(motion)),
        sample=np.repeat(THIN * (np.arange(len(motion)) - starts[motion]), n),
        segment=np.repeat(motion, n),
        labels=free.labels,
        unpack=free.model,
        learned=free.learned,
        dt=float(tracks[0].dt or 1.0),
        rough=True,
        motion=_motion(tracks),
        scaled_by_inertia=scaled_by_inertia(chosen.model(jnp.asarray(found.theta)), tracks),
    )


def _motion(tracks: Sequence[Track]) -> Motion:
    q, u = (np.concatenate([getattr(track, key) for track in tracks]) for key in ("measured", "u"))
    noise = np.array([np.min(np.diff(np.unique(column)), initial=np.inf) for column in q.T]) / np.sqrt(12)
    return Motion(q.min(0), q.max(0), np.where(np.isfinite(noise), noise, 0.0), np.any(u != 0, axis=0))
