"""Curves as a picture in a file of its own: `picture("run.svg", {"angle in rad": {"fit": (t, q)}}, "time in s")`."""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from diffnea import files
from diffnea.report.figures import charts
from diffnea.report.html import standalone

Curve = tuple[Any, Any]  # x and y, whatever makes arrays
# Colours in the order in which curves are given.
KINDS = ("fit", "start", "other", "measured", "guess")
LETTER, LINE, EDGE = 8.2, 18.0, 62.0  # px of a letter, of the line of names, and left of a panel


def picture(
    path: str | Path, panels: Mapping[str, Mapping[str, Curve]], x_label: str, width: float = 480.0, log: bool = False
) -> Path:
    """Write curves as a picture (SVG) and return where it is.

    Args:
        path: the file to write.
        panels: by the label of their y axis, which stand below each other; each has curves `(x, y)` by name.
        x_label: of the axis that they share.
        width: in pixels.
        log: whether y axes are logarithmic.
    """
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    kinds = {name: KINDS[k % len(KINDS)] for k, name in enumerate(names)}
    drawn = [
        charts.Panel(
            label, [charts.Line(*_arrays(curve), kinds[name], name) for name, curve in panel.items()], span, log
        )
        for label, panel in panels.items()
        for span in [_span(panel, log)]
    ]
    inner = charts.lines(drawn, x_label, Path(path).stem, width, height=140.0)
    height = float(inner.split('viewBox="')[1].split('"')[0].split()[3])
    body = inner.replace('class="chart"', f'class="chart" y="{LINE}" width="{width}" height="{height}"', 1)
    whole = f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {width:.0f} {height + LINE:.0f}">'
    text = standalone(f"{whole}{_names(kinds)}{body}</svg>")
    files.replace(Path(path), text.encode())
    return Path(path)


def _arrays(curve: Curve) -> tuple[np.ndarray, np.ndarray]:
    x, y = (np.asarray(each, float) for each in curve)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"picture: a curve has x {x.shape} and y {y.shape}; give two of one length")
    return x, y


def _span(panel: Mapping[str, Curve], log: bool) -> tuple[float, float]:
    """All that is finite, and a little more."""
    values = np.concatenate([np.asarray(y, float) for _, y in panel.values()] or [np.zeros(1)])
    values = values[np.isfinite(values) & ((values > 0) | (not log))]
    low, high = (float(values.min()), float(values.max())) if len(values) else (1.0, 10.0)
    if log:
        return low / 1.5, high * 1.5
    return low - 0.08 * (high - low or 1.0), high + 0.08 * (high - low or 1.0)


def _names(kinds: Mapping[str, str]) -> str:
    parts, x = [], EDGE
    for name, kind in kinds.items():
        parts.append(f'<path class="curve {kind}" d="M{x:.0f} 10h16"/>')
        parts.append(f'<text x="{x + 20:.0f}" y="14" style="text-anchor: start">{escape(name)}</text>')
        x += 32 + LETTER * len(name)
    return "".join(parts)
