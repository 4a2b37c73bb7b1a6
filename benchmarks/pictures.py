"""Pictures for docs/energy.md as small SVG files, written by hand: lines over time, two integrators in each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from energy import DT, machine

from diffnea.rollout import rollout

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640, 260, 70, 40, 30
COLOURS = {"auto": "#0b6e4f", "rk4": "#c8553d"}
MOST_POINTS = 600


@dataclass(frozen=True)
class Line:
    """A curve with its name."""

    name: str
    x: np.ndarray
    y: np.ndarray


def picture(title: str, x_label: str, y_label: str, lines: Sequence[Line]) -> str:
    """Curves in one frame with three ticks an axis."""
    x = np.concatenate([line.x for line in lines])
    y = np.concatenate([line.y for line in lines])
    (x0, x1), (y0, y1) = (x.min(), x.max()), (y.min(), y.max())
    pad = 0.05 * (y1 - y0)
    y0, y1 = y0 - pad, y1 + pad

    def place(px, py):
        return LEFT + (px - x0) / (x1 - x0) * (WIDTH - LEFT - 10), HEIGHT - BOTTOM - (py - y0) / (y1 - y0) * (
            HEIGHT - BOTTOM - TOP
        )

    parts = [text(LEFT, 18, title, "start", 14), text(WIDTH / 2, HEIGHT - 6, x_label, "middle")]
    parts.append(text(LEFT, TOP - 2, y_label, "start", 10))
    for value in np.linspace(x0, x1, 5):
        parts.append(text(place(value, y0)[0], HEIGHT - BOTTOM + 15, f"{value:.3g}", "middle"))
    for value in np.linspace(y0 + pad, y1 - pad, 3):
        parts.append(text(LEFT - 6, place(x0, value)[1] + 4, f"{value:.3g}", "end"))
    frame = f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - 10}" height="{HEIGHT - BOTTOM - TOP}"'
    parts.append(f'{frame} fill="none" stroke="#999"/>')
    for k, line in enumerate(lines):
        every = max(len(line.x) // MOST_POINTS, 1)
        points = " ".join(
            "{:.1f},{:.1f}".format(*place(a, b)) for a, b in zip(line.x[::every], line.y[::every], strict=True)
        )
        colour = COLOURS[line.name]
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(text(WIDTH - 20, TOP + 18 + 16 * k, line.name, "end", 12, colour))
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">{"".join(parts)}</svg>\n'


def text(x: float, y: float, words: str, anchor: str, size: int = 11, colour: str = "#333") -> str:
    """A word at a place."""
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{words}</text>'


def draw(folder: Path) -> None:
    """The pictures of the cartpole: where its cart sticks, and its energy where friction is strong."""
    folder.mkdir(parents=True, exist_ok=True)
    start = np.array([0.0, 2.6]), np.array([0.5, 3.0])

    def runs(factor, steps):
        model = machine("cartpole").model(factor)
        found = {name: rollout(model, *start, None, DT, integrator=name, steps=steps) for name in ("rk4", "auto")}
        return {
            name: (np.asarray(run.time), run, np.asarray(model.energy(run.q, run.qd))) for name, run in found.items()
        }

    sticky, strong = runs(10.0, 200), runs(100.0, 60)
    velocity = [Line(name, time, np.asarray(run.qd)[:, 0]) for name, (time, run, _) in sticky.items()]
    sticking = picture("The cart sticks, ten times the usual friction", "seconds", "cart, m/s", velocity)
    (folder / "energy_sticking.svg").write_text(sticking)
    energy = [Line(name, time, energy) for name, (time, _, energy) in strong.items()]
    strong_picture = picture("Energy with a hundred times the friction", "seconds", "joule", energy)
    (folder / "energy_strong_friction.svg").write_text(strong_picture)
