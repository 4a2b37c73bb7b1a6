"""What these recordings do not tell, each with its reason: not moved, not commanded, not separable, too wide."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool

from diffnea.identify.determine.structure.base_parameters import Echelon
from diffnea.identify.determine.structure.coordinates import Coordinate
from diffnea.identify.determine.structure.formulas import NAMED, listed, pronoun
from diffnea.identify.notes import Note, note
from diffnea.identify.problem.linearised import Motion


def data_notes(
    names: Sequence[str],
    owners: Sequence[Coordinate],
    found: Echelon,
    silent: Bool[np.ndarray, " r"],
    said: Sequence[bool],
    motion: Motion | None,
) -> list[Note]:
    """Reasons for the structure's sums that these data leave open; `silent` had no effect, `said` need no words."""
    notes, weak, unseen = [], [], []
    for k, i in enumerate(found.dependent):
        owner = owners[i]
        if said[i] or owner.kind == "other":
            continue
        rows = np.flatnonzero(found.mixing[:, k])
        partners = [names[found.independent[row]] for row in rows if not said[found.independent[row]]]
        reason = _missing(owner, motion) if owner.kind == "actuator" else None
        if reason:
            notes.append(note(reason, owner.owner, what=owner.symbol))
        elif silent[i]:
            unseen.append(names[i])
        elif partners and len(partners) <= NAMED:
            notes.append(note("unknown-not-separable", names[i], partners=listed(partners)))
        else:
            weak.append(names[i])
    notes += [note("unknown-unseen", listed(unseen), it=pronoun(unseen))] if unseen else []
    notes += [note("unknown-too-weak", listed(weak), it=pronoun(weak))] if weak else []
    unnamed = sum(owners[i].kind == "other" and not said[i] for i in found.dependent)
    return notes + ([note("unknown-network", count=unnamed)] if unnamed else [])


def _missing(owner: Coordinate, motion: Motion | None) -> str | None:
    """What the joint of a coefficient did not do."""
    if motion is None:
        return None
    if owner.role.of_command:
        return None if motion.commanded[owner.index] else "unknown-never-commanded"
    return None if motion.moved[owner.index] else "unknown-never-moved"
