"""The result of a check as lines for a person: the verdict first, then what is wrong, then the numbers behind it."""

from collections.abc import Sequence
from typing import Any

from diffnea.cli.words.results import Combination, payload, quantities, unknown
from diffnea.text import DEGREE, aligned, count, number


def verdict_in_words(verdict: dict[str, Any]) -> list[str]:
    """What the data are good for, what not, and what to do about it."""
    rows = [("good enough for", verdict["good_for"]), ("not for", verdict["not_for"]), ("do this", verdict["do"])]
    lines = []
    for head, sentences in rows:
        lines += [f"{head}: {sentences[0]}", *(f"  {each}" for each in sentences[1:])] if sentences else []
    return lines


def check_in_words(result: dict[str, Any], whole: bool = False) -> str:
    """The verdict with what to do; each recording; what all of them determine together."""
    lines = [*verdict_in_words(result["verdict"]), ""]
    for found in result["recordings"]:
        lines += [f"{found['name'] or 'recording'}: {found['said']}", *_motions(found["joints"], result["sliding"])]
        lines += [*(f"  ! {problem}" for problem in found["problems"]), ""]
    lines += [*result["notes"], ""] if result["notes"] else []
    lines += _determined(result, whole) if not result["stopped"] else []
    return "\n".join([*lines, *([f"pictures: {result['report']}"] if result["report"] else [])]).rstrip("\n")


def _determined(result: dict[str, Any], whole: bool) -> list[str]:
    could = result["structural_rank"] - result["rank"]
    plan = " (diffnea excite plans one)" if result["all_driven"] else ""
    more = f"; other motions could tell {could} more{plan}" if could > 0 else ""
    known = count(result["rank"], "combination")
    lines = [f"of {result['unknowns']} numbers to learn, these data determine {known}{more}"]
    lines += [*payload(result["payload"], expected=True), ""] if result["payload"] else []
    return [*lines, *_expected(result["combinations"], whole, result["short_fit"]), *unknown(result["unknown"], whole)]


def _expected(combinations: Sequence[Combination], whole: bool, short: bool) -> list[str]:
    """What a fit would determine around the bodies of the robot file, and how well; what is known best comes first."""

    def cells(each: Combination) -> list[str]:
        half = None if None in (each["upper"], each["value"]) else each["upper"] - each["value"]
        return [number(each["value"]), f"± {number(half)}"]

    head = ["a fit would determine", "in a short fit" if short else "about", "to expect (95 %)", "unit"]
    return quantities(head, sorted(combinations, key=width), cells, whole)


def width(each: Combination, floor: float = 0.0) -> float:
    """Half of an interval as a share of its value, or of `floor`; what has no bounds is as wide as can be."""
    if None in (each["upper"], each["lower"], each["value"]):
        return float("inf")
    size = max(abs(each["value"]), floor)
    return (each["upper"] - each["lower"]) / 2 / size if size else float("inf")


def _motions(joints: Sequence[dict[str, Any]], sliding: Sequence[bool]) -> list[str]:
    rows = [["  joint", "from", "to", "fastest", "moving", "reversals", "noise", "encoder step", "acceleration"]]
    for joint, slides in zip(joints, sliding, strict=True):
        scale, unit = (1e3, " mm") if slides else (DEGREE, "°")
        lengths = [f"{scale * joint[key]:.4g}{unit}" for key in ("lowest", "highest")]
        small = [f"{scale * joint[key]:.2g}{unit}" if joint[key] else "–" for key in ("noise", "encoder_step")]
        quality = f"{joint['signal_to_noise']:.3g} × noise"
        speed = f"{scale * joint['speed']:.4g}{unit}/s"
        cells = [*lengths, speed, f"{joint['moving']:.0%}", str(joint["reversals"]), *small, quality]
        rows.append([f"  {joint['joint']}", *cells])
    return aligned(rows)
