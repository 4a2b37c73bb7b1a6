"""Rivals: what explains the data surely better than the robot file with all parts that a fit may take.

A wrong file need not leave much: bodies, a coupling of joints, a position-dependent torque stand in for what is wrong
with it, where the recordings are, and nowhere else. So the file is held against rivals, one linear solve each: a
mistake undone in file or log, joints placed elsewhere, a joint that bends, friction that changes. A rival is right
where it predicts blocks in time that were left out surely better than the file with all that was taken, without what
may have stood in for it or with it, and leaves less than half of some joint's torques of what the file leaves with the
same parts. A mistake undone, without what may have stood in for it, need only be as good: of two that explain the data
alike the simpler one is right. Noise of the encoders counts as left: where no more is, there is nothing to explain.
"""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea.identify.judge.file_regression import FRICTION, Beaten, FileRegression, like
from diffnea.identify.judge.mistakes.hypotheses import GRAVITY, Hypothesis
from diffnea.identify.judge.mistakes.motion_rows import motion_rows
from diffnea.identify.judge.mistakes.torque_map import Motion
from diffnea.identify.judge.mistakes.undoing import Case, mistake
from diffnea.identify.judge.windows import without_delay
from diffnea.identify.notes import Note, note
from diffnea.identify.options import Options
from diffnea.identify.problem.measurements.rows import Rows
from diffnea.identify.problem.measurements.tracks import Split
from diffnea.identify.solve.regression.columns import columns
from diffnea.identify.solve.regression.part_search import PartsFound
from diffnea.identify.solve.regression.rival_columns import DRIFTING, PLACED, bending, expected_move, moves
from diffnea.models import Model
from diffnea.robot import Robot


def rivals(
    robot: Robot,
    model: Model,
    parts: Split,
    found: PartsFound | None = None,
    options: Options | None = None,
    moved: bool = False,
) -> tuple[Note, ...]:
    """What explains the data of this fit surely better than its robot's file does; () where nothing does.

    `found`: the parts that were chosen, where they were; `moved`: whether the fit has learned placements.
    """
    options = options or Options()
    if model.actuator.loop is not None or not any(np.any(track.u != 0) for track in parts.fitted):
        return ()
    with np.errstate(all="ignore"):
        # In double precision, whatever the program's is: placements are moved by little.
        robot = jax.tree.map(lambda leaf: jnp.asarray(leaf, float) if eqx.is_inexact_array(leaf) else leaf, robot)
        file = FileRegression.of(robot, model, parts, found, options)
        if file is None or not file.open(options):
            return ()
        return (
            _undone(file, model, parts, options)
            or _elsewhere(file, options, moved)
            or _bending(file, options)
            or _drifting(file, options)
        )


# Rivals ----------------------------------------------------------------------------------------------------------


def _undone(file: FileRegression, model: Model, parts: Split, options: Options) -> tuple[Note, ...]:
    """A mistake in file or log, undone; inputs are torques by the motors that were found, or as they were logged."""
    (_, late), scale = without_delay(model), file.weighed.scale
    cases = [(motion_rows(parts.fitted, model), scale)]
    if np.any(scale != 1.0):
        cases.append((motion_rows(parts.fitted), np.ones_like(scale)))
    for rows, unit in cases:
        if rows is not None:
            seconds = 0.0 if late is None else float(np.mean(np.asarray(late.delay))) * (rows.dt or 0.0)
            found = _beaten_by_mistake(file, Case.of(file.robot, rows, seconds), unit, options)
            if found:
                return found
    return ()


def _beaten_by_mistake(
    file: FileRegression, case: Case, scale: Float[np.ndarray, " n"], options: Options
) -> tuple[Note, ...]:
    """The mistake that convinces most, with inputs of this unit, where it beats the file."""
    found = mistake(case, options.judge, fitted=True)
    if found is None:
        return ()
    table = columns(found.hypothesis.robot(file.robot), [_without(found.hypothesis, each) for each in file.rows])
    weighed = like(file.weighed, table)
    weighed.scale = scale
    # The direction of gravity is fitted to the data, and may itself stand in for something.
    simpler = found.hypothesis.code != GRAVITY
    return (found.said(case.given),) if file.beaten((), options, weighed, simpler=simpler) else ()


def _elsewhere(file: FileRegression, options: Options, moved: bool) -> tuple[Note, ...]:
    """Joints that are placed otherwise than in the file."""
    still = moved or not moves(file.robot)
    found = None if still else file.beaten([PLACED], options, by_position=True)
    if found is None:
        return ()
    by = np.abs(file.weighed.coefficients(found.names, PLACED))
    farthest: dict[str, tuple[float, str]] = {}  # of lengths and of angles, and whose
    for (j, unit), size in zip(moves(file.robot), by.tolist(), strict=True):
        move = size * expected_move(file.robot, unit), file.robot.joint_names[j]
        farthest[unit] = max(move, farthest.get(unit, move))
    moved_by = ", ".join(f"{name} by {size:.2g} {unit}" for unit, (size, name) in farthest.items())
    j = found.joint
    values = {"before": float(found.before[j]), "after": float(found.after[j]), "moved": moved_by}
    return (note("hint-placement", file.robot.joint_names[j], **values),)


def _bending(file: FileRegression, options: Options) -> tuple[Note, ...]:
    """A joint whose link lags by its torque over a spring's: the one that explains most."""
    tried = []
    for j in map(int, np.flatnonzero(file.driven)):
        if bending(j) in file.table.parts:
            clear = file.clear_of(j)
            found = clear.beaten([bending(j)], options)
            give = 0.0 if found is None else _compliance(clear, found, j)
            tried += [(found, j, give)] if found is not None and give > _least_give(file, j, options) else []
    if not tried:
        return ()
    found, j, give = max(tried, key=lambda each: each[0].gain)
    unit = "N·m/rad" if file.robot.tree.revolute[j] else "N/m"
    left = {"before": float(found.before[found.joint]), "after": float(found.after[found.joint])}
    values = {"spring": 1 / give, "unit": unit, **left}
    return (note("hint-bending", file.robot.joint_names[j], **values),)


def _drifting(file: FileRegression, options: Options) -> tuple[Note, ...]:
    """Friction that is at one end of the recordings less than half of what it is at the other."""
    found = file.beaten([DRIFTING], options)
    if found is None:
        return ()
    usual, drift = (file.brings(found.names, kind) for kind in (FRICTION, (DRIFTING,)))
    drift = np.sqrt(3.0) * drift  # from what it is on average to what it is at the end
    least = np.where(file.driven, (usual - drift) / (usual + drift + 1e-300), 1.0)
    j = int(np.argmin(least))
    if not least[j] < options.judge.hint_better:
        return ()
    torque = float(file.weighed.size()[j] / file.weighed.scale[j])
    values = {"before": torque * float(found.before[j]), "after": torque * float(found.after[j])}
    return (note("hint-friction-drift", file.robot.joint_names[j], **values),)


def _compliance(file: FileRegression, found: Beaten, joint: int) -> float:
    """Of the spring, rad a N·m."""
    by_command = float(file.weighed.coefficients(found.names, bending(joint))[0])
    return by_command * float(file.weighed.scale[joint])


def _least_give(file: FileRegression, joint: int, options: Options) -> float:
    """The compliance by which the joint's usual torque moves its link as far as an error begins to count."""
    moved = np.std(np.concatenate([each.batch.q[:, joint] for each in file.rows]))
    torque = file.weighed.size()[joint] / file.weighed.scale[joint]
    return float(options.judge.floor * moved / torque)


def _without(mistake: Hypothesis, rows: Rows) -> Rows:
    """Rows of the data as they would be without a mistake."""
    batch = rows.batch
    changed = [
        mistake.motion(Motion(batch.q, batch.qd, batch.qdd, u, batch.joints_way)) for u in np.swapaxes(batch.u, 0, 1)
    ]
    first, inputs = changed[0], np.stack([each.u for each in changed], axis=1)
    moved = replace(rows, batch=batch._replace(q=first.q, qd=first.qd, qdd=first.qdd, u=inputs, way=first.way))
    kept = np.abs(mistake.motion(Motion(*[rows.weight] * 5)).way)
    if rows.low_pass is None:
        return replace(moved, batch=moved.batch._replace(weight=kept))
    return replace(moved, low_pass=rows.low_pass._replace(weight=kept))
