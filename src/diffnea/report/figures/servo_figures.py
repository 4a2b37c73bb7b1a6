"""What the page of a servo robot shows besides: goals beside motion, tracking errors, friction over speed and load."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.identify import Fit
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.models import Model
from diffnea.report.evidence import Evidence
from diffnea.report.figures import charts
from diffnea.report.figures.fit_figures import Figure, Joints, around, curve
from diffnea.simulate import rollout

SECONDS = 12.0  # of motion that are shown
# Speeds and loads of a map of friction, each way; an even number of speeds, so that none is 0.
SPEEDS, LOADS = 12, 9
# Rounds until a servo's torque holds its load and the friction that this brings.
ROUNDS = 20


def followed(fit: Fit, found: Evidence, joints: Joints) -> Iterator[Figure]:
    """Goals, positions and the fit's prediction of a whole motion, and below what goals and fit are off by."""
    if not isinstance(fit.model, Model) or fit.model.actuator.loop is None or found.longest.track.dt is None:
        return
    track = found.longest.track
    predicted = _whole(fit.model, track)
    before, after = track.u - track.measured, predicted - track.measured
    rows = slice(0, max(8, round(SECONDS / (track.dt or 1.0))))
    time = (track.dt or 1.0) * np.arange(len(track))[rows]
    for k, name in enumerate(joints.names):
        if not found.driven[k]:
            continue
        sides = (("guess", "goal", track.u), ("measured", "measured", track.measured), ("fit", "fit", predicted))
        lines = [curve(time, values[rows, k], kind, label) for kind, label, values in sides]
        upper = charts.Panel(
            joints.unit(k, "position"), lines, around(np.r_[track.u[rows, k], predicted[rows, k]], 0.1)
        )
        wrong = [("guess", "goal less measured", before), ("fit", "fit less measured", after)]
        errors = [curve(time, 1e3 * values[rows, k], kind, label) for kind, label, values in wrong]
        unit = "mm" if joints.sliding[k] else "mrad"
        lower = charts.Panel(f"error in {unit}", errors, around(np.concatenate([each.y for each in errors]), 0.1))
        rms = [1e3 * float(np.sqrt(np.mean(values[:, k] ** 2))) for values in (before, after)]
        caption = f"{name}: {rms[0]:.3g} {unit} off its goals, {rms[1]:.3g} off the fit"
        yield Figure(caption, charts.lines([upper, lower], "time in s", f"Goals and motion of {name}"))


def _whole(model: Model, track: Track) -> Float[np.ndarray, "time n"]:
    """Positions from the goals and the first pose alone."""
    start = track.measured[0]
    return np.asarray(rollout(model, start, np.zeros_like(start), track.u, track.dt or 1.0, gain=track.gain).q)


def friction_maps(fit: Fit, found: Evidence, joints: Joints) -> Iterator[Figure]:
    """Friction of each joint over its speed and the load that it carries, as far as the data went."""
    model = fit.model
    if not isinstance(model, Model) or not model.actuator.grows_with_load:
        return
    q, qd = (found.joined([getattr(stretch.track, key) for stretch in found.stretches]) for key in ("q", "qd"))
    carried = found.joined([stretch.torques.taken for stretch in found.stretches if stretch.torques is not None])
    for k, name in enumerate(joints.names):
        if not found.driven[k]:
            continue
        fastest, heaviest = (float(np.quantile(np.abs(each[:, k]), 0.98)) or 1.0 for each in (qd, carried))
        speeds, loads = np.linspace(-fastest, fastest, SPEEDS), np.linspace(-heaviest, heaviest, LOADS)
        values = friction_at(model, np.median(q, 0), k, speeds, loads)
        label = joints.unit(k, "torque")
        told = charts.Cells(values, (-fastest, fastest), (-heaviest, heaviest), label)
        svg = charts.cells(
            told, joints.label(k, "velocity"), f"load in {label}", f"Friction of {name} over speed and load"
        )
        yield Figure(f"{name}: {values.min():.3g} to {values.max():.3g} {label}", svg)


def friction_at(
    model: Model,
    q: Float[np.ndarray, " n"],
    joint: int,
    speeds: Float[np.ndarray, " speed"],
    loads: Float[np.ndarray, " load"],
) -> Float[np.ndarray, "load speed"]:
    """What brakes a joint that moves alone at a constant speed, under a load that its servo carries."""
    actuator = model.actuator
    grid = np.stack(np.meshgrid(speeds, loads), axis=-1).reshape(-1, 2)
    alone = np.eye(model.num_joints)[joint]

    @jax.jit
    @jax.vmap
    def at(point: Float[Array, " 2"]) -> Float[Array, ""]:
        speed, load = point
        qd, outside = speed * jnp.asarray(alone), -load * jnp.asarray(alone)
        lost = actuator.resistance(jnp.asarray(q), qd)
        own = lost.dry[joint] + lost.viscous[joint] * jnp.abs(speed)

        friction = own
        for _ in range(ROUNDS):
            motor = (load + jnp.sign(speed) * friction) * jnp.asarray(alone)
            friction = own + actuator.loaded(motor, outside, qd)[joint]
        return friction

    return np.asarray(at(jnp.asarray(grid))).reshape(len(loads), len(speeds))
