"""What is known after a fit: the table, the combinations that the data determine, and what they do not tell."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea import parameters
from diffnea.identify.determine.analyse import analyse
from diffnea.identify.determine.combinations import Combination, Identifiability
from diffnea.identify.determine.table import Table, table
from diffnea.identify.notes import Note, note
from diffnea.identify.options import DetermineOptions
from diffnea.identify.precision import double_precision
from diffnea.identify.problem.friction_places import curve_places
from diffnea.identify.problem.linearised import Linearised, Motion
from diffnea.identify.problem.measurements.rows import Rows
from diffnea.identify.problem.residuals import Form, linear_rows
from diffnea.identify.problem.torque_effect import TorqueEffect
from diffnea.identify.problem.unknowns import Unknowns
from diffnea.models import AbstractModel, Model

# The analysis looks at no more numbers of the Jacobian than this.
MOST_ANALYSED = 2**25


@dataclass(frozen=True)
class Knowledge:
    """What `Fit` hands out as its own; `analysis` has the numbers behind it, and is not kept on disk."""

    table: Table
    identifiable: tuple[Combination, ...]
    unknown: tuple[Note, ...]
    counts: dict[str, int] | None = None  # how many numbers are learned, determined, and could be by any recording
    analysis: Identifiability | None = field(default=None, repr=False)


def knowledge(
    before: AbstractModel,
    model: AbstractModel,
    learned: tuple[str, ...],
    problem: Callable[[], Linearised] | None,
    options: DetermineOptions,
) -> Knowledge:
    """The analysis of a fit at its solution; None where there is no fit."""
    with double_precision():
        if not isinstance(before, Model):
            return Knowledge(Table(()), (), (note("unknown-any-network"),))
        if problem is None:
            return Knowledge(table(before, before, learned, None), (), (note("unknown-no-fit"),))
        analysis = analyse(problem(), options)
        rows = table(before, model, learned, analysis)
        counts = {name: getattr(analysis, name) for name in ("unknowns", "rank", "structural_rank")}
        return Knowledge(rows, analysis.combinations, analysis.unknown, counts, analysis)


def linearised(
    free: Unknowns, data: Sequence[Rows], theta: Float[np.ndarray, " p"], loss: str, measured: bool = False
) -> Linearised:
    """The problem at its solution, with where each row comes from; `measured`: its inputs were, not commanded."""
    leaves, structure, masks = free.nameless()
    form = Form.of("acceleration" if loss == "trajectory" else loss, structure, masks)
    most = max(1, MOST_ANALYSED // (free.size * data[0].weight.shape[1]))
    parts, counts, before = [], [], 0
    for rows in data:
        batch, low_pass = rows.pieces(most)[0]
        residual, jacobian = (
            np.asarray(x[0]) for x in linear_rows(form, jnp.asarray(theta)[None], leaves, batch, low_pass)
        )
        row, joint = np.nonzero(rows.weight[: len(residual)])
        places = joint, rows.sample[row], rows.segment[row] + before
        far = np.ones(len(row), bool) if rows.far is None else rows.far[row, joint]
        parts.append((residual[row, joint], jacobian[row, joint], *places, far))
        counts.append(len(residual))
        before += int(rows.segment[-1]) + 1
    residual, jacobian, joint, sample, segment, far = map(np.concatenate, zip(*parts, strict=True))
    model = free.model(jnp.asarray(theta))
    effect = TorqueEffect(model, form.loss, tuple(data), tuple(counts)) if isinstance(model, Model) else None
    return Linearised(
        theta=np.asarray(theta),
        jacobian=jacobian,
        residuals=residual,
        joint=joint,
        sample=sample,
        segment=segment,
        labels=free.labels,
        unpack=free.model,
        learned=free.learned,
        dt=data[0].dt,
        zeros=_zeros(free),
        curve=curve_places(free),
        motion=Motion.of(data),
        far=far,
        torques=_torques(free, data, theta, form.loss, measured) if effect is not None else None,
        effect=effect,
        untimed=measured and not any(each.part == "Delay" for each in free.parameters),
        redrawn=lambda change: linearised(free, list(map(change, data)), theta, loss),
    )


def with_motion(
    windows: Callable[[], Linearised], free: Unknowns, data: Sequence[Rows], torques: Callable[[], Linearised]
) -> Linearised:
    """The problem of windows at its solution, with what the joints did, and the torque equations of the same data."""
    return replace(windows(), zeros=_zeros(free), curve=curve_places(free), motion=Motion.of(data), torques=torques)


def _torques(
    free: Unknowns, data: Sequence[Rows], theta: Float[np.ndarray, " p"], loss: str, measured: bool
) -> Callable[[], Linearised] | None:
    """The torque equations of data that were fitted by accelerations, where rows were left out."""
    rows = [each.as_torques for each in data]
    known = [each for each in rows if each is not None]
    if loss == "torque" or len(known) < len(rows):
        return None
    return lambda: linearised(free, known, theta, "torque", measured)


def _zeros(free: Unknowns) -> dict[int, int]:
    """Where in θ the zero position of each joint stands, of those that are learned."""
    if not isinstance(free.tree, tuple):
        return {}
    numbered = parameters.unpack(free.tree, free.masks, jnp.arange(free.size, dtype=float))[0].zero
    mask = np.broadcast_to(np.asarray(free.masks[0].zero), np.shape(numbered))
    return {int(j): int(numbered[j]) for j in np.flatnonzero(mask)}
