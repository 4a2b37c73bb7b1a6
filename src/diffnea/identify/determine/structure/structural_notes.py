"""What no recording of the joints can tell, and why: structure as notes."""

from collections.abc import Collection, Sequence

import numpy as np
from jaxtyping import Float

from diffnea.identify.determine.structure.base_parameters import Echelon
from diffnea.identify.determine.structure.coordinates import Coordinate
from diffnea.identify.determine.structure.formulas import NAMED, formula, listed, pronoun
from diffnea.identify.determine.structure.mobility import Mobility, mobility
from diffnea.identify.notes import Note, note
from diffnea.robot import Robot


def structural_notes(
    entries: tuple[Coordinate, ...], found: Echelon, robot: Robot, said: Collection[int] = ()
) -> list[Note]:
    """What no recording of the joints can tell, and why; `said` are numbers that need no more words."""
    used = np.any(found.mixing != 0, axis=0)
    absent = [entries[i] for i, mixed in zip(found.dependent, used, strict=True) if not mixed and i not in said]
    motions = mobility(robot)
    notes = []
    for i, link in enumerate(robot.link_names):
        mine = [entry for entry in absent if entry.kind == "inertia" and entry.index == i]
        notes += _absent_inertia(mine, link, motions[i])
    rest = [entry for entry in absent if entry.kind not in ("inertia", "other")]
    if rest:
        notes.append(note("unknown-no-effect", listed(entry.name for entry in rest), it=pronoun(rest)))
    unnamed = [entry for entry in absent if entry.kind == "other"]
    if unnamed:
        notes.append(note("unknown-unnamed", unnamed[0].name, count=len(unnamed)))
    return notes + _shared_masses(entries, found) + _merged(entries, found, said)


def _absent_inertia(absent: Sequence[Coordinate], link: str, motion: Mobility) -> list[Note]:
    """Those of a link's ten numbers that change no motion."""
    if not absent:
        return []
    if len(absent) == 10:
        return [note("unknown-link", link)]
    if motion.turning == 0:
        return [note("unknown-never-turns", link)]
    if motion.turning == 1:
        return _turning_once(absent, link, motion)
    names = sorted(entry.symbol for entry in absent)
    return [note("unknown-no-effect", f"{listed(names)} of the {link}", it=pronoun(names))]


def _turning_once(absent: Sequence[Coordinate], link: str, motion: Mobility) -> list[Note]:
    axis = _letter(motion.axis)
    mass, centre, turns = (sum(entry.moment == moment for entry in absent) for moment in range(3))
    notes, balanced = [], centre == 3 and motion.vertical
    if balanced:
        what = "mass and centre of mass" if mass else "centre of mass"
        notes.append(note("unknown-vertical-axis", link, what=what))
    elif mass:
        notes.append(note("unknown-fixed-axis", link))
    parts = [f"inertia about other axes than {axis}"] if turns else []
    parts += [f"centre of mass along {axis}"] if centre and not balanced else []
    if parts:
        notes.append(note("unknown-one-axis", link, what=" and ".join(parts), axis=axis))
    return notes


def _letter(axis: Float[np.ndarray, "3"] | None) -> str:
    """x, y or z where the axis is one of the link's own."""
    along = np.flatnonzero(np.abs(axis) > 1 - 1e-9) if axis is not None else []
    return "xyz"[along[0]] if len(along) else "its axis"


def _shared_masses(entries: tuple[Coordinate, ...], found: Echelon) -> list[Note]:
    """Masses that enter only as a sum."""
    notes = []
    for row, i in enumerate(found.independent):
        others = [k for k in range(len(found.dependent)) if _is_mass_split(entries, found, row, k)]
        if others:
            names = [entries[k].owner for k in sorted([i, *(found.dependent[k] for k in others)])]
            notes.append(note("unknown-split-mass", listed(names)))
    return notes


def _is_mass_split(entries: tuple[Coordinate, ...], found: Echelon, row: int, k: int) -> bool:
    own, other = entries[found.independent[row]], entries[found.dependent[k]]
    alone = np.count_nonzero(found.mixing[:, k]) == 1 and found.mixing[row, k] == 1
    return bool(alone and own.moment == other.moment == 0)


def _merged(entries: tuple[Coordinate, ...], found: Echelon, said: Collection[int]) -> list[Note]:
    """Numbers that enter only in sums with others: by the sum where it is one, by the link where there are many."""
    alone: dict[int, list[int]] = {}
    many: dict[str, list[tuple[Coordinate, list[int]]]] = {}
    placed = []
    for k, i in enumerate(found.dependent):
        if entries[i].kind == "other" or i in said:
            continue
        rows = [int(row) for row in np.flatnonzero(found.mixing[:, k])]
        partners = [found.independent[row] for row in rows]
        if any(entries[each].kind == "kinematics" for each in [i, *partners]):
            placed += [entries[i].name] if partners else []
        elif len(rows) == 1 and not _is_mass_split(entries, found, rows[0], k):
            alone.setdefault(rows[0], []).append(k)
        elif len(rows) > 1:
            many.setdefault(entries[i].owner, []).append((entries[i], partners))
    notes = [_one_sum(entries, found, row, columns) for row, columns in alone.items()]
    notes += [_many_sums(entries, owner, cases) for owner, cases in many.items()]
    if placed:
        notes.append(note("unknown-placement", listed(placed), it=pronoun(placed)))
    return notes


def _one_sum(entries: tuple[Coordinate, ...], found: Echelon, row: int, columns: list[int]) -> Note:
    """Numbers of which one sum enters."""
    own, others = found.independent[row], [found.dependent[k] for k in columns]
    coefficients = np.zeros(len(entries))
    coefficients[[own, *others]] = 1.0, *found.mixing[row, columns]
    names = listed(entries[i].name for i in [own, *others])
    if len(columns) == 1 and abs(coefficients[others[0]]) == 1:
        return note("unknown-apart", names, what="sum" if coefficients[others[0]] > 0 else "difference")
    return note("unknown-one-by-one", names, what=formula(entries, coefficients, own))


def _many_sums(entries: tuple[Coordinate, ...], owner: str, cases: list[tuple[Coordinate, list[int]]]) -> Note:
    """Numbers of one link that each enter several sums."""
    own = [entry for entry, _ in cases]
    names = f"{listed(entry.symbol for entry in own)} of the {owner}"
    others = sorted({partner for _, partners in cases for partner in partners})
    partners = listed(entries[k].name for k in others)
    if len(others) > NAMED:
        partners = f"numbers of {listed(dict.fromkeys(entries[k].owner or 'a network' for k in others))}"
    verb = "their own: they enter" if len(own) > 1 else "its own: it enters"
    return note("unknown-only-in-sums", names, verb=verb, partners=partners)
