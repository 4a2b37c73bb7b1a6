"""Charts as SVG text: lines and clouds of points, dots on a scale, bars.

Colours are CSS classes, so that they follow the theme. Drawn here and not in the browser: a page of several hundred
curves opens at once, prints as it looks, and each chart is also a file. The page's script adds what answers to the
pointer.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

ROW = 18.0  # px of a row with a name
MOST_LETTERS = 38  # of a name beside an interval
LETTER = 7.0  # px that a letter takes
MARGIN = 72.0  # px left of a chart with numbers on its y axis
NAMES = 178.0  # px left of a chart with names: a dot, then the longest name


@dataclass(frozen=True)
class Line:
    """A curve; `kind` is its CSS class, `name` what the pointer is told."""

    x: np.ndarray
    y: np.ndarray
    kind: str
    name: str
    points: bool = False  # a cloud of points in place of a curve


@dataclass(frozen=True)
class Panel:
    """Curves over one another on shared axes; what leaves `y_range` is cut off at the frame."""

    y_label: str
    lines: Sequence[Line]
    y_range: tuple[float, float]
    log: bool = False
    name: str = ""  # in its corner, where panels stand below each other


@dataclass(frozen=True)
class Row:
    """A named row of dots or bar pieces: (value, CSS class, what the pointer is told)."""

    name: str
    kind: str
    values: Sequence[tuple[float, str, str]]


def lines(
    panels: Sequence[Panel],
    x_label: str,
    title: str,
    width: float = 360.0,
    height: float = 112.0,
    log: bool = False,
) -> str:
    """Panels below each other over one x axis, which is logarithmic where asked."""
    spans = [line.x for panel in panels for line in panel.lines if len(line.x)]
    low, high = (min(x.min() for x in spans), max(x.max() for x in spans)) if spans else (0.0, 1.0)
    across = _Scale(float(low), float(high), MARGIN, width - 8, log)
    parts = []
    for k, panel in enumerate(panels):
        top = 8.0 + k * (height + 12)
        parts.append(_panel(panel, across, top, height))
    bottom = 8.0 + len(panels) * (height + 12) - 12
    parts.append(_x_axis(across, bottom, x_label))
    return _svg(width, bottom + 40, title, parts)


def dots(
    rows: Sequence[Row],
    x_label: str,
    title: str,
    span: tuple[float, float],
    log: bool = True,
    reference: float | None = None,
    width: float = 360.0,
) -> str:
    """One row a name, its values as dots; values outside `span` sit at its edge, those that are not finite too."""
    across = _Scale(*span, NAMES, width - 12, log)
    bottom = 8.0 + ROW * len(rows)
    parts = [_grid(across, 8.0, bottom)]
    if reference is not None:
        parts.append(f'<path class="reference" d="M{across(reference):.1f} 8V{bottom}"/>')
    for k, row in enumerate(rows):
        y = 8 + ROW * (k + 0.5)
        parts.append(_row_name(row, y))
        for value, kind, told in row.values:
            x = across(value if math.isfinite(value) else span[1])
            shape = f'<circle class="dot {kind}" cx="{x:.1f}" cy="{y:.1f}" r="4"'
            parts.append(f'{shape} data-model="{escape(row.name)}"><title>{escape(told)}</title></circle>')
    parts.append(_x_axis(across, bottom, x_label))
    return _svg(width, bottom + 40, title, parts)


@dataclass(frozen=True)
class Span:
    """A named interval with its middle, and what the pointer is told."""

    name: str
    low: float
    middle: float
    high: float
    told: str


def intervals(rows: Sequence[Span], x_label: str, title: str, span: tuple[float, float], width: float = 640.0) -> str:
    """A forest plot: one row a name, its interval as a line with a dot; what leaves `span` ends in an arrow."""
    across = _Scale(*span, 0.45 * width, width - 14)
    bottom = 8.0 + ROW * len(rows)
    parts = [_grid(across, 8.0, bottom)]
    for k, row in enumerate(rows):
        y, told = 8 + ROW * (k + 0.5), f"<title>{escape(row.told)}</title>"
        label = row.name if len(row.name) <= MOST_LETTERS else row.name[: MOST_LETTERS - 1] + "…"
        parts.append(f'<text class="name" x="{0.45 * width - 8:.0f}" y="{y + 4.5:.1f}">{escape(label)}{told}</text>')
        parts.append(f'<path class="whisker" d="M{across(row.low):.1f} {y}H{across(row.high):.1f}">{told}</path>')
        for end, way in ((row.low, -1), (row.high, 1)):
            x, out = across(end), not span[0] <= end <= span[1]
            mark = f"M{x - 5 * way:.1f} {y - 4}L{x:.1f} {y}L{x - 5 * way:.1f} {y + 4}" if out else f"M{x:.1f} {y - 4}v8"
            parts.append(f'<path class="whisker" d="{mark}"/>')
        parts.append(f'<circle class="dot fit" cx="{across(row.middle):.1f}" cy="{y}" r="4">{told}</circle>')
    parts.append(_x_axis(across, bottom, x_label))
    return _svg(width, bottom + 40, title, parts)


def bars(rows: Sequence[Row], x_label: str, title: str, width: float = 360.0) -> str:
    """One row a name, its values as pieces of a bar."""
    longest = max((sum(value for value, *_ in row.values) for row in rows), default=1.0) or 1.0
    across = _Scale(0.0, longest * 1.05, NAMES, width - 12)
    bottom = 8.0 + ROW * len(rows)
    parts = [_grid(across, 8.0, bottom)]
    for k, row in enumerate(rows):
        y, start = 8.0 + ROW * k, 0.0
        parts.append(_row_name(row, y + ROW / 2))
        for value, kind, told in row.values:
            x, end = across(start), across(start + value)
            box = f'<rect class="bar {kind}" x="{x:.1f}" y="{y + 4}" width="{max(end - x, 0):.1f}" height="10"'
            parts.append(f"{box}><title>{escape(told)}</title></rect>")
            start += value
    parts.append(_x_axis(across, bottom, x_label))
    return _svg(width, bottom + 40, title, parts)


@dataclass(frozen=True)
class Cells:
    """Values over two quantities: rows from the lowest of the second up; their ranges, and the values' unit."""

    values: np.ndarray
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    unit: str


def cells(told: Cells, x_label: str, y_label: str, title: str, width: float = 360.0, height: float = 150.0) -> str:
    """A map: the darker a cell, the larger its value; the pointer is told it."""
    rows, columns = told.values.shape
    across, up = _Scale(*told.x_range, MARGIN, width - 8), _Scale(*told.y_range, 8.0 + height, 8.0)
    wide, high = (across.end - across.start) / columns, height / rows
    most = float(np.max(np.abs(told.values), initial=0.0)) or 1.0
    parts = []
    for i, row in enumerate(told.values):
        for k, value in enumerate(row):
            x, y = across.start + k * wide, up.start - (i + 1) * high
            box = f'<rect class="cell" x="{x:.1f}" y="{y:.1f}" width="{wide + 0.3:.1f}" height="{high + 0.3:.1f}"'
            shade = f' fill-opacity="{0.08 + 0.92 * abs(float(value)) / most:.2f}"'
            parts.append(f"{box}{shade}><title>{_minus(f'{float(value):.3g}')} {escape(told.unit)}</title></rect>")
    box = f'<rect class="box" x="{across.start}" y="8" width="{across.end - across.start}" height="{height}"/>'
    ticks = [f'<text class="tick end" x="{MARGIN - 4}" y="{y + 4.5:.1f}">{_minus(t)}</text>' for y, t in up.ticks(4)]
    name = f'<text class="axis" transform="translate(9 {8 + height / 2}) rotate(-90)">{escape(y_label)}</text>'
    return _svg(width, height + 48, title, [*parts, box, *ticks, name, _x_axis(across, 8.0 + height, x_label)])


class _Scale:
    """Numbers to pixels, linear or logarithmic, and the ticks between."""

    def __init__(self, low: float, high: float, start: float, end: float, log: bool = False):
        self.log = log
        high = high if high > low else low + 1.0
        self.low, self.high = (math.log10(low), math.log10(high)) if log else (low, high)
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        value = math.log10(max(value, 1e-300)) if self.log else value
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def map(self, values: np.ndarray) -> np.ndarray:
        """As the scale itself, without an edge: the frame cuts."""
        values = np.log10(np.maximum(values, 1e-300)) if self.log else values
        share = (
            np.clip(values, self.low - 3 * (self.high - self.low), self.high + 3 * (self.high - self.low))
        ) - self.low
        return self.start + share / (self.high - self.low) * (self.end - self.start)

    def ticks(self, count: int) -> list[tuple[float, str]]:
        if self.log:
            stride = max(1, math.ceil((self.high - self.low) / count))
            powers = range(math.floor(self.low), math.floor(self.high + 1e-9) + 1)
            parts = (1, 2, 5) if self.high - self.low < 1.5 else (1,)  # few powers of ten: more between them
            marks = [(p + math.log10(m), m * 10.0**p) for p in powers if p % stride == 0 for m in parts]
            return [(self(v), _short(v)) for at, v in marks if self.low - 1e-9 <= at <= self.high + 1e-9]
        step = _step((self.high - self.low) / count)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [(self(k * step), _short(k * step)) for k in range(first, last + 1)]


def _short(value: float) -> str:
    """A tick's number in a few letters."""
    plain = f"{value:.6g}"
    if value == 0 or (1e-3 <= abs(value) < 1e4 and len(plain) <= 6):
        return plain
    digits, exponent = f"{value:.3e}".split("e")
    return f"{float(digits):g}e{int(exponent)}"


def _step(rough: float) -> float:
    size = 10.0 ** math.floor(math.log10(rough))
    return next((m * size for m in (1, 2, 2.5, 5) if m * size >= rough * (1 - 1e-9)), 10 * size)


def _panel(panel: Panel, across: _Scale, top: float, height: float) -> str:
    up = _Scale(*panel.y_range, top + height, top, panel.log)
    left, right = across.start, across.end
    parts = [f'<svg class="frame" x="{left}" y="{top}" width="{right - left}" height="{height}"']
    parts[0] += f' viewBox="{left} {top} {right - left} {height}" overflow="hidden">'
    parts += [f'<path class="grid" d="M{left} {y:.1f}H{right}"/>' for y, _ in up.ticks(4)]
    parts += [f'<path class="grid" d="M{x:.1f} {top}V{top + height}"/>' for x, _ in across.ticks(6)]
    parts += [_curve(line, across, up) for line in panel.lines]
    parts.append("</svg>")
    parts.append(f'<rect class="box" x="{left}" y="{top}" width="{right - left}" height="{height}"/>')
    parts += [f'<text class="tick end" x="{left - 4}" y="{y + 4.5:.1f}">{_minus(t)}</text>' for y, t in up.ticks(4)]
    middle = top + height / 2
    parts.append(f'<text class="axis" transform="translate(9 {middle}) rotate(-90)">{_upright(panel, height)}</text>')
    if panel.name:
        parts.append(f'<text class="panel" x="{left + 6}" y="{top + 16}">{escape(panel.name)}</text>')
    return "".join(parts)


def _upright(panel: Panel, height: float) -> str:
    """A label beside a panel, cut where it would run into the next one's."""
    most = int(height / LETTER)
    return escape(panel.y_label if len(panel.y_label) <= most else f"{panel.y_label[: most - 1]}…")


def _curve(line: Line, across: _Scale, up: _Scale) -> str:
    steps = list(_path(across.map(line.x), up.map(np.asarray(line.y, float)), line.points))
    name = escape(line.name)
    kind = "cloud" if line.points else "curve"
    return f'<path class="{kind} {line.kind}" data-model="{name}" d="{"".join(steps)}"><title>{name}</title></path>'


def _path(x: np.ndarray, y: np.ndarray, points: bool) -> Iterable[str]:
    """A path in tenths of a pixel, broken where there is no number; points are strokes without length."""
    pen = "M"
    for a, b in zip(x, y, strict=True):
        if not math.isfinite(b):
            pen = "M"
            continue
        yield f"{pen}{a:.1f} {b:.1f}{'h0' if points else ''}"
        pen = "M" if points else "L"


def _grid(across: _Scale, top: float, bottom: float) -> str:
    return "".join(f'<path class="grid" d="M{x:.1f} {top}V{bottom}"/>' for x, _ in across.ticks(5))


def _row_name(row: Row, y: float) -> str:
    name = escape(row.name)
    label = f'<text class="name" x="{NAMES - 6:.0f}" y="{y + 4.5:.1f}" data-model="{name}">{name}</text>'
    return label + f'<circle class="dot {row.kind} small" cx="4" cy="{y:.1f}" r="2.5"/>'


def _x_axis(across: _Scale, bottom: float, label: str) -> str:
    ticks = "".join(f'<text class="tick" x="{x:.1f}" y="{bottom + 16}">{_minus(t)}</text>' for x, t in across.ticks(5))
    middle = (across.start + across.end) / 2
    return f'{ticks}<text class="axis" x="{middle}" y="{bottom + 34}">{escape(label)}</text>'


def _minus(text: str) -> str:
    return escape(text.replace("-", "−"))


def _svg(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {width:.0f} {height:.0f}" role="img"'
    return f'{head} aria-label="{escape(title)}">{"".join(parts)}</svg>'
