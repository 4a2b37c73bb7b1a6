"""Shapes that a robot's file draws its links with: points whose convex hull is the shape, in the moving link's frame.

Of meshes the outermost points along some directions stand for all. What a file names and is not there is left out.
"""

import math
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from diffnea import files
from diffnea.formats.description import RobotFileError
from diffnea.formats.mjcf.compiler import mujoco, quaternion_matrix
from diffnea.formats.urdf import read_origin
from diffnea.formats.xml_text import Element, XMLFault, parse
from diffnea.robot import Source

# Bytes of a mesh file that are read at most, and shapes of a robot that are drawn.
MOST_MESH, MOST_SHAPES = 32 << 20, 400
# Points on a circle, and directions along which a mesh is sampled.
ROUND, DIRECTIONS = 12, 48
# Groups of MuJoCo's geoms that viewers show; those after them are for collisions.
SHOWN = 3


class Shape(NamedTuple):
    """The link of the file that has it, and its points in that link's frame."""

    link: str
    points: Float[np.ndarray, "k 3"]


def shapes(source: Source) -> list[Shape]:
    """What the file draws; nothing where it cannot be read again."""
    found = _urdf(source) if source.format == "urdf" else _mjcf(source)
    try:
        return [shape for shape, _ in zip(found, range(MOST_SHAPES), strict=False)]
    except (RobotFileError, XMLFault, ValueError, RuntimeError, OSError):
        return []


def _box(half: Any) -> np.ndarray:
    signs = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T
    return signs * np.asarray(half, float)


def _cylinder(radius: float, half: float) -> np.ndarray:
    turn = 2 * np.pi * np.arange(ROUND) / ROUND
    ring = radius * np.column_stack([np.cos(turn), np.sin(turn), 0 * turn])
    return np.concatenate([ring + [0, 0, half], ring - [0, 0, half]])


def _ball(radii: Any) -> np.ndarray:
    return _directions() * np.asarray(radii, float)


def _directions() -> np.ndarray:
    """Evenly over the sphere, along a spiral."""
    k = np.arange(DIRECTIONS) + 0.5
    z, turn = 1 - 2 * k / DIRECTIONS, math.pi * (1 + math.sqrt(5)) * k
    return np.column_stack([np.sqrt(1 - z**2) * np.cos(turn), np.sqrt(1 - z**2) * np.sin(turn), z])


def outermost(points: Float[np.ndarray, "many 3"]) -> Float[np.ndarray, "k 3"]:
    """Those that are farthest along some direction."""
    middle = points.mean(axis=0)
    return points[np.unique(np.argmax((points - middle) @ _directions().T, axis=0))]


# URDF ------------------------------------------------------------------------------------------------------------


def _urdf(source: Source) -> Iterator[Shape]:
    for link in parse(source.text).root.all("link"):
        for visual in link.all("visual"):
            geometry = visual.first("geometry")
            points = None if geometry is None else _geometry(geometry, Path(source.path))
            if points is not None:
                pose = read_origin(visual, "a visual")
                yield Shape(link.attributes.get("name", ""), points @ pose[:3, :3].T + pose[:3, 3])


def _geometry(geometry: Element, path: Path) -> np.ndarray | None:
    def numbers(element: Element, name: str, usual: str) -> np.ndarray:
        return np.array(element.attributes.get(name, usual).split(), float)

    if (box := geometry.first("box")) is not None:
        return _box(numbers(box, "size", "0 0 0") / 2)
    if (ball := geometry.first("sphere")) is not None:
        return _ball(numbers(ball, "radius", "0"))
    for name in ("cylinder", "capsule"):
        if (bar := geometry.first(name)) is not None:
            return _cylinder(numbers(bar, "radius", "0")[0], numbers(bar, "length", "0")[0] / 2)
    mesh = geometry.first("mesh")
    points = None if mesh is None else _mesh(mesh.attributes.get("filename", ""), path)
    return None if points is None or mesh is None else points * numbers(mesh, "scale", "1 1 1")


def _mesh(name: str, path: Path) -> np.ndarray | None:
    """The outermost points of a mesh that lies where the file says; packages are looked for above the file."""
    inner = name.removeprefix("file://")
    places = [path.parent / inner]
    if name.startswith("package://"):
        inner = name.removeprefix("package://")
        short = inner.partition("/")[2]
        places = [above / each for above in path.absolute().parents for each in (inner, short)]
    place = next((each for each in places if os.path.isfile(each)), None)
    if place is None:
        return None
    points = mesh_points(files.read(place, MOST_MESH), place.suffix.lower())
    return None if points is None else outermost(points)


def mesh_points(data: bytes, ending: str) -> Float[np.ndarray, "many 3"] | None:
    """Corners of an STL or OBJ file; None of others, and where there are none."""
    if ending == ".obj":
        rows = [line.split()[1:4] for line in data.decode("utf-8", "replace").splitlines() if line.startswith("v ")]
        found = np.array(rows, float).reshape(-1, 3)
    elif ending == ".stl" and data[:5] == b"solid" and b"facet" in data[:1000]:
        words = [line.split()[1:4] for line in data.decode("utf-8", "replace").splitlines() if "vertex" in line]
        found = np.array(words, float).reshape(-1, 3)
    elif ending == ".stl" and len(data) >= 84:
        count = min(struct.unpack("<I", data[80:84])[0], (len(data) - 84) // 50)
        rows = np.frombuffer(data, np.uint8, 50 * count, 84).reshape(count, 50)[:, 12:48]
        found = np.ascontiguousarray(rows).view("<f4").reshape(-1, 3).astype(float)
    else:
        return None
    return found if len(found) and np.isfinite(found).all() else None


# MJCF ------------------------------------------------------------------------------------------------------------


def _mjcf(source: Source) -> Iterator[Shape]:
    """By MuJoCo, without meshes that are not there."""
    mj, path = mujoco(), os.path.abspath(source.path)
    spec = mj.MjSpec.from_file(path, include={path: source.text})
    folder = os.path.join(os.path.dirname(path), spec.meshdir or "")
    lost = {mesh.name for mesh in spec.meshes if not os.path.isfile(os.path.join(folder, mesh.file))}
    for geom in list(spec.geoms):
        if geom.meshname in lost or getattr(geom, "hfieldname", ""):
            spec.delete(geom)
    for material in spec.materials:
        material.textures = [""] * len(material.textures)
    for asset in [*spec.textures, *spec.hfields, *spec.skins, *(mesh for mesh in spec.meshes if mesh.name in lost)]:
        spec.delete(asset)
    spec.compiler.boundmass = spec.compiler.boundinertia = 1e-6  # of bodies that were meshes
    model = spec.compile()
    shown = [i for i in range(model.ngeom) if model.geom_bodyid[i] > 0 and model.geom_group[i] < SHOWN]
    for i in shown or [i for i in range(model.ngeom) if model.geom_bodyid[i] > 0]:
        points = _geom(mj, model, i)
        if points is not None:
            placed = points @ quaternion_matrix(model.geom_quat[i]).T + model.geom_pos[i]
            yield Shape(model.body(model.geom_bodyid[i]).name, placed)


def _geom(mj: Any, model: Any, i: int) -> np.ndarray | None:
    kind, size, types = int(model.geom_type[i]), model.geom_size[i], mj.mjtGeom
    if kind == int(types.mjGEOM_MESH):
        mesh = int(model.geom_dataid[i])
        start, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
        return outermost(np.array(model.mesh_vert[start : start + count], float))
    ends = {
        int(types.mjGEOM_BOX): lambda: _box(size),
        int(types.mjGEOM_SPHERE): lambda: _ball(size[:1]),
        int(types.mjGEOM_ELLIPSOID): lambda: _ball(size),
        int(types.mjGEOM_CYLINDER): lambda: _cylinder(size[0], size[1]),
        int(types.mjGEOM_CAPSULE): lambda: np.concatenate(
            [_ball(size[:1]) + [0, 0, size[1]], _ball(size[:1]) - [0, 0, size[1]]]
        ),
    }
    return ends[kind]() if kind in ends else None
