"""Pictures for docs/energy.md as small SVG files, written by hand: lines over time, two integrators in each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from energy import DT, machine

from diffnea.simulate import rollout

WIDTH, HEIGHT, LEFT, RIGHT, BOTTOM, TOP = 720, 300, 64, 24, 46, 34
COLOURS = {"auto": "#0b6e4f", "rk4": "#c8553d"}
MOST_POINTS = 600


@dataclass(frozen=True)
class Line:
    """A curve with its name."""

    name: str
    x: np.ndarray
    y: np.ndarray


def ticks(low: float, high: float, about: int) -> np.ndarray:
    """Round numbers between two bounds: multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / about
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= rough)
    return np.round(np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step, 12) + 0.0  # no minus zero


def picture(title: str, x_label: str, y_label: str, lines: Sequence[Line]) -> str:
    """Curves in one frame, with a grid at round numbers."""
    x = np.concatenate([line.x for line in lines])
    y = np.concatenate([line.y for line in lines])
    pad = 0.06 * (y.max() - y.min())
    (x0, x1), (y0, y1) = (x.min(), x.max()), (y.min() - pad, y.max() + pad)

    def place(px, py):
        across, up = (px - x0) / (x1 - x0), (py - y0) / (y1 - y0)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - BOTTOM - TOP)

    middle = (LEFT + WIDTH - RIGHT) / 2
    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>', text(LEFT, 20, title, "start", 15)]
    parts.append(text(middle, HEIGHT - 8, x_label, "middle"))
    parts.append(f'<g transform="rotate(-90)">{text(-(TOP + HEIGHT - BOTTOM) / 2, 16, y_label, "middle")}</g>')
    for value in ticks(x0, x1, 5):
        across = place(value, y0)[0]
        parts.append(f'<path d="M{across:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#e5e5e5"/>')
        parts.append(text(across, HEIGHT - BOTTOM + 16, f"{value:g}", "middle"))
    for value in ticks(y0, y1, 4):
        up = place(x0, value)[1]
        parts.append(f'<path d="M{LEFT} {up:.1f}H{WIDTH - RIGHT}" stroke="#e5e5e5"/>')
        parts.append(text(LEFT - 8, up + 4, f"{value:g}", "end"))
    for line in lines:
        every = max(len(line.x) // MOST_POINTS, 1)
        corners = zip(line.x[::every], line.y[::every], strict=True)
        points = " ".join("{:.1f},{:.1f}".format(*place(*corner)) for corner in corners)
        colour = COLOURS[line.name]
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
    for k, line in enumerate(lines):
        parts.append(text(WIDTH - RIGHT - 70 * (len(lines) - 1 - k), 20, line.name, "end", 13, COLOURS[line.name]))
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
    sticking = picture(
        "A cart that sticks (ten times its usual friction)", "time in s", "velocity of the cart in m/s", velocity
    )
    (folder / "energy_sticking.svg").write_text(sticking)
    energy = [Line(name, time, energy) for name, (time, _, energy) in strong.items()]
    strong_picture = picture("Energy with a hundred times the usual friction", "time in s", "energy in J", energy)
    (folder / "energy_strong_friction.svg").write_text(strong_picture)
