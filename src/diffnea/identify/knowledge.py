"""What is known after a fit: the table, the combinations that the data determine, and what they do not tell."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

from diffnea.identify.combinations import Combination, Identifiability
from diffnea.identify.data import Track, batch
from diffnea.identify.identifiability import analyse
from diffnea.identify.linearised import Linearised
from diffnea.identify.precision import double_precision
from diffnea.identify.residuals import Form, linear_rows
from diffnea.identify.search import Found
from diffnea.identify.table import Table, table
from diffnea.identify.unknowns import Unknowns, late
from diffnea.models import Model

# The analysis looks at no more numbers of the Jacobian than this.
MOST_ANALYSED = 2**25


@dataclass(frozen=True)
class Knowledge:
    """What `Fit` hands out as its own; `analysis` has the numbers behind it, and is not kept on disk."""

    table: Table
    identifiable: tuple[Combination, ...]
    unknown: tuple[str, ...]
    analysis: Identifiability | None = field(default=None, repr=False)


def knowledge(before: Any, model: Any, learned: tuple[str, ...], problem: Callable[[], Linearised] | None) -> Knowledge:
    """The analysis of a fit at its solution; None where there is no fit."""
    with double_precision():
        if not isinstance(before, Model):
            return Knowledge(Table(()), (), ("which physical quantities are behind it: a network has none",))
        if problem is None:
            return Knowledge(table(before, before, learned, None), (), ("anything: there is no fit",))
        analysis = analyse(problem())
        rows = table(before, model, learned, analysis)
        return Knowledge(rows, analysis.combinations, analysis.unknown, analysis)


def linearised(free: Unknowns, tracks: Sequence[Track], found: Found, weight: np.ndarray, loss: str) -> Linearised:
    """The problem at its solution, with where each row comes from."""
    rows = batch(tracks, late(free), weight)._replace(weight=found.weight)
    kept = slice(0, max(1, MOST_ANALYSED // (free.size * rows.q.shape[1])))
    leaves, structure, masks = free.nameless()
    form = Form.of("acceleration" if loss == "trajectory" else loss, structure, masks)
    residual, jacobian = linear_rows(form, jnp.asarray(found.theta)[None], leaves, rows.take(kept))
    count, n = residual.shape[1:]
    samples = np.concatenate([np.arange(len(track)) for track in tracks])[kept]
    segments = np.concatenate([np.full(len(track), k) for k, track in enumerate(tracks)])[kept]
    return Linearised(
        theta=np.asarray(found.theta),
        jacobian=np.asarray(jacobian).reshape(count * n, free.size),
        residuals=np.asarray(residual).reshape(-1),
        joint=np.tile(np.arange(n), count),
        sample=np.repeat(samples, n),
        segment=np.repeat(segments, n),
        labels=free.labels,
        unpack=free.model,
        learned=free.learned,
        dt=tracks[0].dt,
    )
