"""Long formulas on a terminal: cut between terms. The whole ones are in `fit.json` and on the page."""

from collections.abc import Iterator

# So long may a formula be, in characters.
WIDTH = 72


def short(formula: str, width: int = WIDTH) -> str:
    """The first terms of a long sum, and how many more there are."""
    if len(formula) <= width:
        return formula
    cuts = list(_outermost(formula))
    if not cuts:
        return formula
    end = _end(formula, cuts[-1])
    room = width - (len(formula) - end) - len(" + … 99 more")
    fitting = [k for k, cut in enumerate(cuts) if k == 0 or cut <= room]
    first = cuts[fitting[-1]]
    return f"{formula[:first]} + … {len(cuts) - fitting[-1]} more{formula[end:]}"


def _outermost(formula: str) -> Iterator[int]:
    """Where the terms of the outermost sum that comes first are joined."""
    depths = _depths(formula)
    joints = [k for k in range(len(formula) - 2) if formula[k : k + 3] in (" + ", " − ")]
    if not joints:
        return
    level = min(depths[k] for k in joints)
    first = next(k for k in joints if depths[k] == level)
    for k in joints:
        if depths[k] == level and min(depths[first : k + 1]) == level:
            yield k


def _end(formula: str, last: int) -> int:
    """Where the sum whose last joint is given ends."""
    depths = _depths(formula)
    return next((k for k in range(last, len(formula)) if depths[k] < depths[last]), len(formula))


def _depths(formula: str) -> list[int]:
    """How many brackets are open at each character; one that closes counts as outside."""
    depths, depth = [], 0
    for letter in formula:
        depth -= letter == ")"
        depths.append(depth)
        depth += letter == "("
    return depths
