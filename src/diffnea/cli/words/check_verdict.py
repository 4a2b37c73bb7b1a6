"""The verdict of a check: what recordings are good enough for, what not, and what to do about it."""

from collections.abc import Iterator
from typing import Any

from diffnea.cli.words.check_words import width
from diffnea.text import listed

# A quantity whose 95 % interval is this share of it to either side is known well; a kind of which this share is known
# well is one that the data are good for.
KNOWN, MOST = 0.1, 2 / 3
SMALL = 0.1  # of the largest of its kind: less is next to nothing
NOTHING = 1e-9  # zero by structure: no share of it means anything
# Where file or log is wrong, what follows from them is too.
_MISTAKEN = "a fit as they are: something else explains them far better"
_SCALE = "masses and forces themselves: only their ratios are determined"
LENGTHS = ("kinematics", "calibration")  # kinds that no scale of forces changes
KINDS = {
    "inertia": "masses and inertias",
    "gravity": "torques of gravity",
    "armature": "inertias of rotors",
    "kinematics": "placements of joints",
    "calibration": "zero positions of joints",
    "actuator": "friction and motors",
}


def verdict(result: dict[str, Any], units: list[str]) -> dict[str, Any]:
    """As plain words; `units` are signs of a wrong unit, after which nothing else means anything."""
    if units:
        return _lists((), ["any fit: a unit looks wrong, so that nothing else was worked out"], units)
    still = _still(result)
    good, bad = _kinds(result) if not result["hints"] else ([], [_MISTAKEN])
    if still:
        why = "it never moves" if len(still) == 1 else "they never move"
        bad.append(f"what belongs to {listed(still)}, since {why}")
    more = _advice(result, still, bool(bad)) if not result["hints"] else ()
    scale = [_SCALE] if good and result["only_ratios"] else []
    return _lists(good, [*bad, *scale], dict.fromkeys([*result["hints"], *more]))


def _lists(good: Any, bad: Any, todo: Any) -> dict[str, Any]:
    return {"good_for": list(good), "not_for": list(bad), "do": list(todo)}


def _still(result: dict[str, Any]) -> list[str]:
    """Joints that move in no recording."""
    rows = zip(*(found["joints"] for found in result["recordings"]), strict=True)
    return [row[0]["joint"] for row in rows if all(j["moving"] == 0 or j["lowest"] == j["highest"] for j in row)]


def _kinds(result: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Kinds of quantities of which most are known well, and the others."""
    good, bad = [], []
    combinations = [each for each in result["combinations"] if each["value"] is None or abs(each["value"]) > NOTHING]
    readable = [each for each in combinations if not each["base"]] or combinations
    for kind in dict.fromkeys(each["kind"] for each in readable):
        some = [each for each in readable if each["kind"] == kind]
        well = sum(_known_well(each, some) for each in some)
        ratios = "ratios of " if result["only_ratios"] and kind not in LENGTHS else ""
        words = f"{ratios}{KINDS.get(kind, kind)} ({well} of {len(some)} within {KNOWN:.0%})"
        (good if well >= MOST * len(some) else bad).append(words)
    if not result["combinations"]:
        bad.append("any number of the robot")
    return good, bad


def _known_well(each: dict[str, Any], others: list[dict[str, Any]]) -> bool:
    """By its own size; where that is next to nothing, as gravity's torque of a joint that hangs, by that of others."""
    if width(each) <= KNOWN:
        return True
    sizes = [abs(other["value"]) for other in others if other["unit"] == each["unit"] and other["value"] is not None]
    return width(each, floor=SMALL * max(sizes, default=0.0)) <= KNOWN


def _advice(result: dict[str, Any], still: list[str], lacking: bool) -> Iterator[str]:
    """What helps most comes first."""
    if still:
        yield f"move {listed(still)} too"
    could = result["structural_rank"] - result["rank"]
    if could > 0 or lacking:
        where = f" --recordings {' '.join(result['given'])}{result['options']['excite']}"
        planned = (
            f"diffnea excite {result['robot']}{where} plans one" if result["all_driven"] else "faster and wider ones"
        )
        yield f"record other motions ({planned})"
    for found in result["recordings"]:
        yield from found["problems"][:1]
    if not (still or could > 0 or lacking):
        yield f"diffnea fit {result['robot']} {' '.join(result['given'])}{result['options']['fit']}"
