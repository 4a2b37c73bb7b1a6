"""Numbers, lists and tables as a person reads them, the same on the terminal and on pages."""

import math
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

DEGREE = 180 / math.pi


def length(value: float, sliding: bool) -> str:
    """A position or an error of one: millimetres, or degrees."""
    if not math.isfinite(value):
        return "lost"
    return f"{few(1e3 * value)} mm" if sliding else f"{few(DEGREE * value)}°"


def radians(value: float, sliding: bool) -> str:
    """The same for pages, whose charts are in radians too."""
    if not math.isfinite(value):
        return "lost"
    return f"{few(1e3 * value)} mm" if sliding else f"{few(value)} rad"


def few(value: float) -> str:
    """Three digits, without a power of ten for what is large: 38 300."""
    if not 1e3 <= abs(value) < 1e9:
        return f"{value:.3g}"
    return f"{float(f'{value:.3g}'):,.0f}".replace(",", " ")


def number(value: float | None, digits: int = 4) -> str:
    """A few digits, or a word for what is not finite."""
    return "?" if value is None or not math.isfinite(value) else f"{value:.{digits}g}"


def one_line(words: str, most: int = 400) -> str:
    """Words from outside as one line: without breaks and control characters; of very long ones both ends."""
    words = words if len(words) <= 8 * most else f"{words[: 4 * most]} {words[-4 * most :]}"
    line = " ".join("".join(each if each.isprintable() else " " for each in words).split())
    return line if len(line) <= most else f"{line[: most // 2]} … {line[3 - most // 2 :]}"


def count(items: int, word: str) -> str:
    """As "1 recording" and "3 recordings"."""
    return f"{items} {word}" if items == 1 else f"{items} {word}s"


def listed(names: Iterable[str], shown: int | None = None) -> str:
    """As "a, b and c"; of more than twice `shown` names the first ones, and the rest is counted."""
    names = list(names)
    if shown is not None and len(names) > 2 * shown:
        names = [*names[:shown], f"{len(names) - shown} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def meant(word: str, names: Iterable[str]) -> str:
    """As ` (did you mean "hinge"?)`, where a name is near to what was given; else nothing."""
    near = get_close_matches(word, list(names)[:2000], 1)
    return f' (did you mean "{near[0]}"?)' if near else ""


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of as many cells each as lines, column under column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
