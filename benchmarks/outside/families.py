"""Families of robots: which joints follow each other, how large they are, and which have motors."""

from typing import NamedTuple

X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
DOWN = (0.0, 0.0, -1.0)


class Piece(NamedTuple):
    """A joint and the link behind it, before anything is drawn."""

    kind: str  # "revolute", "continuous" or "prismatic"
    parent: int  # −1: the base
    axis: tuple[float, float, float]
    along: tuple[float, float, float]  # where the link extends to at q = 0
    length: float  # m
    mass: float  # kg
    reach: float  # rad or m to either side
    driven: bool = True


FAMILIES: dict[str, tuple[Piece, ...]] = {
    "cartpole": (
        Piece("prismatic", -1, X, Z, 0.1, 1.2, 0.25),
        Piece("continuous", 0, Y, DOWN, 0.45, 0.3, 0.0, driven=False),
    ),
    "furuta": (
        Piece("revolute", -1, Z, X, 0.25, 0.4, 1.0),
        Piece("continuous", 0, X, DOWN, 0.3, 0.15, 0.0, driven=False),
    ),
    "planar2": (
        Piece("revolute", -1, Y, X, 0.4, 3.0, 0.9),
        Piece("revolute", 0, Y, X, 0.35, 1.5, 1.1),
    ),
    "planar3": (
        Piece("revolute", -1, Y, DOWN, 0.35, 3.0, 0.9),
        Piece("revolute", 0, Y, X, 0.3, 1.8, 1.0),
        Piece("revolute", 1, Y, X, 0.25, 0.9, 1.1),
    ),
    "rpr": (
        Piece("revolute", -1, Z, Z, 0.3, 4.0, 1.2),
        Piece("prismatic", 0, X, X, 0.4, 2.0, 0.25),
        Piece("revolute", 1, Y, X, 0.3, 1.0, 1.2),
    ),
    "scara": (
        Piece("revolute", -1, Z, X, 0.35, 4.0, 1.2),
        Piece("revolute", 0, Z, X, 0.3, 2.5, 1.3),
        Piece("prismatic", 1, Z, DOWN, 0.2, 1.0, 0.12),
        Piece("revolute", 2, Z, X, 0.12, 0.6, 1.5),
    ),
    "tree4": (
        Piece("revolute", -1, Z, X, 0.3, 4.0, 1.0),
        Piece("revolute", 0, Y, X, 0.35, 1.5, 1.0),
        Piece("prismatic", 1, X, X, 0.2, 0.7, 0.15),
        Piece("revolute", 0, X, Y, 0.3, 1.2, 1.0),
    ),
    "gantry": (
        Piece("prismatic", -1, X, Y, 0.4, 6.0, 0.35),
        Piece("prismatic", 0, Y, DOWN, 0.3, 3.0, 0.3),
        Piece("revolute", 1, X, DOWN, 0.35, 1.2, 1.2),
    ),
    "arm6": (
        Piece("revolute", -1, Z, Z, 0.3, 5.0, 1.2),
        Piece("revolute", 0, Y, X, 0.4, 4.0, 0.8),
        Piece("revolute", 1, Y, X, 0.35, 2.5, 1.0),
        Piece("revolute", 2, X, X, 0.15, 1.2, 1.3),
        Piece("revolute", 3, Y, X, 0.12, 0.8, 1.2),
        Piece("revolute", 4, X, X, 0.08, 0.4, 1.5),
    ),
}
