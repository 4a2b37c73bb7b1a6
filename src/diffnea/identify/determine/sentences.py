"""Words: sums of physical numbers as formulas, and what cannot be known as plain sentences with the reason."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from diffnea.identify.determine.base_parameters import Echelon
from diffnea.identify.determine.coordinates import Coordinate
from diffnea.robot import Robot

_PARALLEL = 1e-9
# A sentence names this many numbers before it counts the rest.
_NAMED = 4


def formula(entries: tuple[Coordinate, ...], coefficients: Float[np.ndarray, " k"], own: int) -> str:
    """A sum as one writes it, its own number first: "J_zz(arm) + 0.00723·m(pendulum)"."""
    others = [int(i) for i in np.flatnonzero(coefficients) if i != own]
    named = [i for i in others if entries[i].kind != "other"]
    terms = [_term(1.0, [entries[own].name]).removeprefix("+ ")]
    terms += [_term(*group) for group in _alike([(float(coefficients[i]), entries[i].name) for i in named])]
    terms += [f"+ {len(others) - len(named)} numbers of a network"] if len(named) < len(others) else []
    text, per = " ".join(terms), entries[own].per
    return f"{f'({text})' if len(terms) > 1 else text} / {per}" if per else text


def _alike(terms: list[tuple[float, str]]) -> list[tuple[float, list[str]]]:
    """Terms with the same coefficient together."""
    groups: list[tuple[float, list[str]]] = []
    for coefficient, name in terms:
        for other, names in groups:
            if abs(coefficient - other) < 1e-6 * abs(other) and abs(abs(other) - 1) > 1e-6:
                names.append(name)
                break
        else:
            groups.append((coefficient, [name]))
    return groups


def _term(coefficient: float, names: list[str]) -> str:
    size = abs(coefficient) * (1 + 1e-9)  # so that rounding does not decide how a half is written
    factor = "" if abs(size - 1) < 1e-6 else f"{float(f'{size:.4g}'):g}·"
    body = names[0] if len(names) == 1 else f"({' + '.join(names)})"
    return f"{'−' if coefficient < 0 else '+'} {factor}{body}"


@dataclass(frozen=True)
class Mobility:
    """How a link can move: the directions about which it turns, and whether its origin moves."""

    turning: int  # dimensions of its angular velocity
    axis: Float[np.ndarray, "3"] | None  # in the link's frame, when it turns about one direction only
    anchored: bool  # its origin stays where it is, so that it turns about a fixed axis
    vertical: bool  # that direction is along gravity, or there is no gravity


def mobility(robot: Robot) -> list[Mobility]:
    """Each link's, from the axes of the joints between it and the base."""
    rotation = np.array(robot.placement.rotation, float)
    for i, parent in enumerate(robot.tree.parents):
        rotation[i] = rotation[parent] @ rotation[i] if parent >= 0 else rotation[i]
    axes = np.einsum("nij,nj->ni", rotation, np.asarray(robot.axis, float))
    gravity = np.asarray(robot.gravity, float)
    found = []
    for i in range(robot.num_joints):
        path = _path(robot, i)
        turning = [k for k in path if robot.tree.revolute[k]]
        stacked = axes[turning].reshape(-1, 3)
        rank = int(np.linalg.matrix_rank(stacked, tol=1e-6)) if turning else 0
        direction = axes[turning[-1]] if rank == 1 else np.zeros(3)
        along = bool(np.linalg.norm(np.cross(direction, gravity)) <= _PARALLEL * max(np.linalg.norm(gravity), 1e-300))
        axis = rotation[i].T @ direction if rank == 1 else None
        found.append(Mobility(rank, axis, path == turning and len(path) == 1, rank == 1 and along))
    return found


def _path(robot: Robot, link: int) -> list[int]:
    """The joints from the base to a link."""
    path = []
    while link >= 0:
        path.append(link)
        link = robot.tree.parents[link]
    return path[::-1]


def scale_sentence(reference: Coordinate, commanded: bool) -> str:
    """Why only ratios are known."""
    reason = "forces are known only up to their gain" if commanded else "no known force drives the joints"
    return f"the scale of all masses and forces, and so {reference.name} itself: {reason}"


def structural_sentences(
    entries: tuple[Coordinate, ...], found: Echelon, robot: Robot, said: int | None = None
) -> list[str]:
    """What no recording of the joints can tell, and why; `said` is a number that needs no more words."""
    used = np.any(found.mixing != 0, axis=0)
    absent = [entries[i] for i, mixed in zip(found.dependent, used, strict=True) if not mixed and i != said]
    motions = mobility(robot)
    sentences = []
    for i, link in enumerate(robot.link_names):
        symbols = {entry.symbol for entry in absent if entry.kind == "inertia" and entry.index == i}
        sentences += _absent_inertia(symbols, link, motions[i])
    rest = [entry for entry in absent if entry.kind not in ("inertia", "other")]
    if rest:
        sentences.append(f"{_listed(entry.name for entry in rest)}: no motion of the joints depends on {_it(rest)}")
    unnamed = [entry for entry in absent if entry.kind == "other"]
    if unnamed:
        sentences.append(
            f"{len(unnamed)} numbers without physical meaning, as {unnamed[0].name}: nothing depends on them"
        )
    return sentences + _shared_masses(entries, found) + _merged(entries, found)


def _absent_inertia(symbols: set[str], link: str, motion: Mobility) -> list[str]:
    """Sentences on those of a link's ten numbers that change no motion."""
    if not symbols:
        return []
    if len(symbols) == 10:
        return [f"anything of the {link}: no motion of the joints depends on its mass or inertia"]
    if motion.turning == 0:
        return [f"inertia and centre of mass of the {link}: it never turns"]
    centre = {symbol for symbol in symbols if symbol.startswith("m·c")}
    turns = {symbol for symbol in symbols if symbol.startswith("J")}
    if motion.turning == 1:
        return _turning_once(symbols, centre, turns, link, motion)
    return [f"{_listed(sorted(symbols))} of the {link}: no motion of the joints depends on {_it(list(symbols))}"]


def _turning_once(symbols: set[str], centre: set[str], turns: set[str], link: str, motion: Mobility) -> list[str]:
    axis = _letter(motion.axis)
    sentences, balanced = [], len(centre) == 3 and motion.vertical
    if balanced:
        what = "mass and centre of mass" if "m" in symbols else "centre of mass"
        sentences.append(f"{what} of the {link}: it turns about a vertical axis and gravity does not act on it")
    elif "m" in symbols:
        sentences.append(f"mass of the {link}: it turns about a fixed axis, so that only its moments about it enter")
    parts = [f"inertia about other axes than {axis}"] if turns else []
    parts += [f"centre of mass along {axis}"] if centre and not balanced else []
    if parts:
        sentences.append(f"{' and '.join(parts)} of the {link}: it only turns about {axis}")
    return sentences


def _letter(axis: Float[np.ndarray, "3"] | None) -> str:
    """x, y or z where the axis is one of the link's own."""
    along = np.flatnonzero(np.abs(axis) > 1 - 1e-9) if axis is not None else []
    return "xyz"[along[0]] if len(along) else "its axis"


def _shared_masses(entries, found: Echelon) -> list[str]:
    """Masses that enter only as a sum."""
    sentences = []
    for row, i in enumerate(found.independent):
        others = [k for k in range(len(found.dependent)) if _is_mass_split(entries, found, row, k)]
        if others:
            names = [entries[k].owner for k in sorted([i, *(found.dependent[k] for k in others)])]
            sentences.append(f"how the mass is split between {_listed(names)}: only their sum enters")
    return sentences


def _is_mass_split(entries, found: Echelon, row: int, k: int) -> bool:
    own, other = entries[found.independent[row]], entries[found.dependent[k]]
    alone = np.count_nonzero(found.mixing[:, k]) == 1 and found.mixing[row, k] == 1
    return bool(alone and own.symbol == other.symbol == "m")


def _merged(entries, found: Echelon) -> list[str]:
    """Numbers that enter only in sums with others: by the sum where it is one, by the link where there are many."""
    alone, many, placed = {}, {}, []
    for k, i in enumerate(found.dependent):
        if entries[i].kind == "other":
            continue
        rows = [int(row) for row in np.flatnonzero(found.mixing[:, k])]
        partners = [found.independent[row] for row in rows]
        if any(entries[each].kind == "kinematics" for each in [i, *partners]):
            placed += [entries[i].name] if partners else []
        elif len(rows) == 1 and not _is_mass_split(entries, found, rows[0], k):
            alone.setdefault(rows[0], []).append(k)
        elif len(rows) > 1:
            many.setdefault(entries[i].owner, []).append((entries[i], partners))
    sentences = [_one_sum(entries, found, row, columns) for row, columns in alone.items()]
    sentences += [_many_sums(entries, owner, cases) for owner, cases in many.items()]
    if placed:
        sentences.append(f"{_listed(placed)}: other placements and inertias can make up for {_it(placed)}")
    return sentences


def _one_sum(entries, found: Echelon, row: int, columns: list[int]) -> str:
    """Numbers of which one sum enters."""
    own, others = found.independent[row], [found.dependent[k] for k in columns]
    coefficients = np.zeros(len(entries))
    coefficients[[own, *others]] = 1.0, *found.mixing[row, columns]
    names = _listed(entries[i].name for i in [own, *others])
    if len(columns) == 1 and abs(coefficients[others[0]]) == 1:
        return f"{names} apart: only their {'sum' if coefficients[others[0]] > 0 else 'difference'} enters"
    return f"{names} one by one: only {formula(entries, coefficients, own)} enters"


def _many_sums(entries, owner: str, cases: list) -> str:
    """Numbers of one link that each enter several sums."""
    own = [entry for entry, _ in cases]
    names = f"{_listed(entry.symbol for entry in own)} of the {owner}"
    others = sorted({partner for _, partners in cases for partner in partners})
    partners = _listed(entries[k].name for k in others)
    if len(others) > _NAMED:
        partners = f"numbers of {_listed(dict.fromkeys(entries[k].owner or 'a network' for k in others))}"
    verb = "their own: they enter" if len(own) > 1 else "its own: it enters"
    return f"{names} on {verb} only in sums with {partners}"


def data_sentences(
    names: list[str], owners: list[Coordinate], found: Echelon, silent: np.ndarray, said: list[bool]
) -> list[str]:
    """What other recordings could tell, but these do not.

    `silent` says which quantities had no effect at all, `said` which need no more words.
    """
    sentences, weak = [], []
    for k, i in enumerate(found.dependent):
        partners = [names[found.independent[row]] for row in np.flatnonzero(found.mixing[:, k])]
        owner = owners[i]
        if said[i] or owner.kind == "other":
            continue
        if silent[i] and owner.kind == "actuator":
            sentences.append(f"{owner.symbol} of {owner.owner}: {_missing(owner)} in these recordings")
        elif partners and len(partners) <= _NAMED:
            sentences.append(f"{names[i]} apart from {_listed(partners)}: these recordings do not tell them apart")
        else:
            weak.append(names[i])
    if weak:
        sentences.append(f"{_listed(weak)}: these recordings do not excite {_it(weak)} enough")
    unnamed = sum(owners[i].kind == "other" for i in found.dependent)
    if unnamed:
        sentences.append(f"{unnamed} directions in the weights of networks: these recordings do not tell them apart")
    return sentences


def _missing(owner: Coordinate) -> str:
    return "it was never commanded" if of_a_command(owner) else "it never moved"


def of_a_command(owner: Coordinate) -> bool:
    """Whether it is a number of what turns commands into torques."""
    return any(word in owner.symbol for word in ("gain", "per volt", "delay", "saturation"))


def _it(things: list) -> str:
    return "it" if len(things) == 1 else "them"


def _listed(names: Iterable[str]) -> str:
    """As "a, b and c"; long lists are counted."""
    names = list(names)
    if len(names) > 2 * _NAMED:
        names = [*names[:_NAMED], f"{len(names) - _NAMED} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
