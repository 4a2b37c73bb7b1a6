"""Formulas: sums of physical numbers as one writes them, and lists of names."""

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float

from diffnea.identify.determine.structure.coordinates import Coordinate

# A sentence names this many numbers before it counts the rest.
NAMED = 4


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


def pronoun(things: Sequence) -> str:
    return "it" if len(things) == 1 else "them"


def listed(names: Iterable[str]) -> str:
    """As "a, b and c"; long lists are counted."""
    names = list(names)
    if len(names) > 2 * NAMED:
        names = [*names[:NAMED], f"{len(names) - NAMED} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
