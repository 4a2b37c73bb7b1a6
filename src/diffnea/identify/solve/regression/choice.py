"""What to learn, where that is left to the data: parts of the actuator, armatures, zero positions, and which loss."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from jaxtyping import Float

from diffnea.actuators import AbstractActuator, Ripple, for_robot
from diffnea.files import Json
from diffnea.identify.notes import Note, note
from diffnea.identify.options import Options, SolveOptions
from diffnea.identify.problem.measurements.equations import equations
from diffnea.identify.problem.measurements.reversals import without_reversals
from diffnea.identify.problem.measurements.rows import Rows
from diffnea.identify.problem.measurements.tracks import Split
from diffnea.identify.solve.regression.columns import columns, coupled_row, of_reference
from diffnea.identify.solve.regression.excitation import Excitation, reference_motion, whole_range
from diffnea.identify.solve.regression.part_search import MOST_DELAY, PartsFound, search
from diffnea.identify.solve.regression.ripple_search import Wave, as_reduction, ripple
from diffnea.models import Model
from diffnea.robot import Robot


@dataclass(frozen=True)
class Choice:
    """What was chosen, and by how much, in notes."""

    actuator: str | AbstractActuator
    loss: str
    learn: tuple[str, ...] | None
    notes: tuple[Note, ...] = ()
    known: Mapping[str, object] = field(default_factory=dict)  # what the actuator is made with
    measured: bool = False  # inputs are of the samples' instants, not held after them
    excitation: Excitation | None = None  # what the recordings foretell of other motion
    parts: PartsFound | None = None  # what the data need, as it was found


def choose(
    robot: Robot,
    parts: Split,
    actuator: str | AbstractActuator,
    loss: str,
    learn: Sequence[str] | None,
    method: str,
    options: Options,
    scaled: bool = True,
    instants: bool = False,
) -> Choice:
    """Of what is "auto" the best by the data that are fitted; what is not stays.

    Where tracks say which way friction points, it is that of joints and then of all that may be coupled. `scaled` says
    whether the robot's masses are known at all, so that the unit of commands can be told; `instants` whether inputs are
    known to be measured.
    """
    named = None if learn is None else tuple(learn)
    if actuator != "auto":
        chosen, notes = _loss(loss, parts, method, actuator, options.solve)
        return Choice(actuator, chosen, named, notes)
    if method == "linear":
        return Choice("stribeck", "torque" if loss == "auto" else loss, named, ())
    late = MOST_DELAY if parts.timed else 0
    rubbing = Model(robot, for_robot("stribeck", robot))  # rows that dry friction spoils tell nothing of it
    clear = without_reversals(parts, rubbing, "torque", 20 * robot.num_joints, options.problem)
    rows = equations(clear.fitted, late, np.ones(robot.num_joints))
    table = columns(robot, rows)
    if not all(np.isfinite(part).all() for part in (*table.parts.values(), table.wanted)):
        chosen, notes = _loss(loss, parts, method, actuator, options.solve)
        return Choice("ideal", chosen, named, notes)  # the fit will say so
    q = np.concatenate([track.q for track in parts.fitted])
    reference = partial(_reference, robot, rows, q)
    found = search(table, scaled, parts.timed and not instants, reference if table.driven.any() else None)
    waves = _waves(found, robot, rows, options.solve) if parts.timed and loss in ("auto", "torque") else ()
    chosen, notes = _loss(loss, parts, method, actuator, options.solve, found.left)
    waves = waves if chosen == "torque" else ()
    picked = _choice(found, robot, chosen, named, notes, options.solve, waves)
    return replace(picked, excitation=_excitation(found, robot, q, table.driven), parts=found)


def _reference(
    robot: Robot, rows: Sequence[Rows], q: Float[np.ndarray, "sample n"], torque: Float[np.ndarray, " n"]
) -> Mapping[str, np.ndarray]:
    """Columns of a motion through the whole range that takes such torques."""
    return of_reference(robot, rows, reference_motion(robot, q, torque))


def _excitation(found: PartsFound, robot: Robot, q: np.ndarray, driven: np.ndarray) -> Excitation | None:
    if found.error is None or found.accelerated is None:
        return None
    lower, upper = whole_range(robot, q)
    moved = np.ptp(q, axis=0)
    return Excitation(found.error, found.accelerated, moved / np.maximum(upper - lower, 1e-300), driven & (moved > 0))


def _waves(found: PartsFound, robot: Robot, rows: Sequence[Rows], options: SolveOptions) -> tuple[Wave, ...]:
    """Ripple, where much of some joint's torques is left that nothing explains."""
    if not found.driven or found.left <= options.well_explained or found.regression is None:
        return ()
    have = [*found.names, *found.usual]
    none = Ripple.none(1.0, robot.num_joints)
    motors = none.turning_with([coupled_row(each) for each in have if each.startswith("coupling")]).rows
    return ripple(rows, found.regression, have, np.array(motors))


def _loss(
    loss: str,
    parts: Split,
    method: str,
    actuator: str | AbstractActuator,
    options: SolveOptions,
    left: float = 0.0,
) -> tuple[str, tuple[Note, ...]]:
    """Torques where every joint is driven; else trajectories, or accelerations where there is no order in time.

    Of a few joints trajectories also where a regression leaves much of the torques: they mind a wrong model less.
    """
    if loss != "auto":
        return loss, ()
    if method in ("linear", "adam"):
        return ("torque" if method == "linear" else "acceleration"), ()
    driven = np.any([np.any(track.u != 0, axis=0) for track in parts.fitted], axis=0)
    if isinstance(actuator, str) and "nn-" in actuator:
        return "acceleration", (note("loss-for-networks"),)
    if driven.all() and parts.timed and len(driven) <= options.few_joints and left > options.well_explained:
        return "trajectory", (note("loss-trajectory-driven", left=left),)
    if driven.all():
        return "torque", (note("loss-torque"),)
    if parts.timed:
        return "trajectory", (note("loss-trajectory", count=int((~driven).sum())),)
    return "acceleration", (note("loss-acceleration"),)


def _choice(
    found: PartsFound,
    robot: Robot,
    loss: str,
    named: tuple[str, ...] | None,
    notes: tuple[Note, ...],
    options: SolveOptions,
    waves: tuple[Wave, ...] = (),
) -> Choice:
    """In words of `fit`.

    Roll-outs see what equations do not tell: dry friction near rest, where rows are left out, and zeros of passive
    joints. Trajectories learn them too, where a regression leaves more than noise to explain: what lasts over several
    rows. Where it leaves much of the torques of an arm, something is missing that nobody knows, and parts that few
    machines lack are learned unless they do harm: the others would have to stand in for them.
    """
    names, usual = found.names, found.usual if loss == "torque" and found.left > options.well_explained else ()
    names = (*names, *usual)
    if loss == "trajectory" and not found.driven and found.lasting > options.explained:
        names = (*names, "stribeck", "calibration")
    elif loss == "trajectory" and found.driven and found.left > options.well_explained:
        names = (*names, "stribeck")
    parts = [each for each in names if each not in ("armature", "calibration")]
    coupled = [coupled_row(each) for each in parts if each.startswith("coupling")]
    known: Json = {"coupled": coupled} if coupled else {}
    if waves:
        parts.append("ripple")
        known["reduction"] = as_reduction(waves, robot.num_joints)
    if found.gain is not None:
        parts.append("gain")
        if loss == "torque":  # torques alone leave the scale open: robots without mass would explain them best
            known["gain"] = found.gain
    name = _actuator(parts, found.delay)
    more = tuple(each for each in ("armature", "calibration") if each in names)
    kept = ("inertia", "actuator", *more) if named is None else named
    said = [note("chosen-part", _spoken(part, robot), gain=more) for part, more in found.gains]
    said += [note("chosen-coupling")] if coupled else []
    said += [note("chosen-offset")] if "offset" in parts else []
    names_of = robot.joint_names
    said += [note("chosen-ripple", names_of[each.joint], often=each.often, gain=each.gain) for each in waves]
    if found.gain is not None:
        middle = float(np.exp(np.mean(np.log(np.abs(found.gain[found.gain != 0])))))
        said.append(note("chosen-gain", factor=middle))
    none = [] if said else [note("chosen-nothing")]
    if found.delay > 0:
        said.append(note("chosen-delay", samples=found.delay, gain=found.sooner))
    if found.delay < 0:
        said.append(note("chosen-measured", gain=found.sooner))
    said += [note("chosen-usual", each) for each in usual]
    added = sorted({*names} - {*found.names, *usual})
    said += [note("chosen-for-trajectories", each) for each in added]
    return Choice(name, loss, kept, (note("chosen", actuator=name), *said, *none, *notes), known, found.delay < 0)


def _spoken(part: str, robot: Robot) -> str:
    """With the joints of what is coupled."""
    if not part.startswith("coupling"):
        return part
    row = coupled_row(part)
    first, second = np.flatnonzero(row)
    return f"coupling of {robot.joint_names[first]} {'+' if row[second] > 0 else '−'} {robot.joint_names[second]}"


def _actuator(parts: Sequence[str], delay: float) -> str:
    """The name of an actuator of these parts."""
    names = [each for each in parts if each in ("gain", "grease", "offset")]
    names += ["constant"] if "constant" in parts and "offset" not in parts else []
    if "stribeck" in parts:
        names.append("stribeck")
    else:
        names += [each for each in ("viscous", "coulomb") if each in parts]
    names += ["coupling"] if any(each.startswith("coupling") for each in parts) else []
    names += ["ripple"] if "ripple" in parts else []
    names += ["delay"] if delay > 0 else []
    return "+".join(names) if names else "ideal"
