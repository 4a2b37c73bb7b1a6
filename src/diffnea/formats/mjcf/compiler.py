"""MJCF text → MuJoCo's spec and compiled model; bodies that bend are refused.

Meshes, textures and height fields are opened only where a body has its inertia from them.
"""

import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from diffnea.formats.description import RobotFileError
from diffnea.formats.inertia import pseudo_inertia
from diffnea.formats.mjcf import bounds
from diffnea.formats.xml_text import Document

# A body that moves needs at least mjMINVAL, 1e-15, of mass and of each moment; LEAST is written where a robot has less,
# and what has less than MASSLESS of all is read as having none.
LEAST = 2e-15
MASSLESS = 1e-14
# Ranges need a width: this stands for none at zero.
SLIVER = 1e-300
# What turning an inertia to its principal axes and back may lose, as a share of the largest moment.
ROUNDING_OFF = 1e-12


def mujoco() -> Any:
    """MuJoCo, imported only when an MJCF file is read: it takes time, and its parts have no types."""
    import mujoco

    return mujoco


class Compiled(NamedTuple):
    """MuJoCo's spec, the model compiled from it, and inertias that MuJoCo refuses, by body, as the file has them."""

    spec: Any
    model: Any
    refused: dict[int, np.ndarray]


def compile_text(document: Document, path: str, allow_unphysical: bool, parts: Mapping[str, bytes] | None) -> Compiled:
    """Compile the text; `path` only says where included files and meshes are looked for; `parts`: see `load_model`."""
    _refuse_nan(document)
    bounds.check(document, path, parts or {})
    texts = {**(parts or {}), os.path.abspath(path): document.text}

    def attempt(lenient: bool) -> Compiled:
        try:
            return _compile(texts, os.path.abspath(path), lenient, keep_fixed=True)
        except (FileNotFoundError, RobotFileError) as error:
            try:  # perhaps it is only what is fixed to the world, whose inertia nobody needs
                return _compile(texts, os.path.abspath(path), lenient, keep_fixed=False)
            except RobotFileError:
                if isinstance(error, RobotFileError):
                    raise error from None
                raise

    try:
        return attempt(lenient=False)
    except RobotFileError:
        if not allow_unphysical:
            raise
        return attempt(lenient=True)


# Parsing and compiling -------------------------------------------------------------------------------------------


def _compile(texts: dict[str, bytes], path: str, lenient: bool, keep_fixed: bool) -> Compiled:
    """With `keep_fixed`, `FileNotFoundError` tells that a mesh is missing, if only for what is fixed to the world."""
    mj = mujoco()
    try:
        spec = mj.MjSpec.from_file(path, include=texts)
    except (ValueError, RuntimeError, MemoryError, mj.FatalError) as error:
        raise RobotFileError(_one_line(str(error) or type(error).__name__)) from None
    _refuse_other_mechanics(spec)
    spec.compiler.fusestatic = False  # so that bodies are those of the file
    aside = _set_unphysical_aside(spec) if lenient else []
    needing = _drop_assets(spec, keep_fixed)
    bounds.trim(spec)
    bounds.check_meshes(spec, path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # MuJoCo's advice on old attributes is for those who run the file there
            model = spec.compile()
    except (ValueError, RuntimeError, MemoryError, mj.FatalError) as error:
        reason = _one_line(str(error) or type(error).__name__)
        if needing and "file" in reason:
            if keep_fixed:
                raise FileNotFoundError(reason) from None
            reason += f"; body {listed(needing, 3)} takes its inertia from meshes: add the file or an <inertial>"
        hint = " (allow_unphysical loads it all the same)" if "inertia" in str(error) else ""
        raise RobotFileError(reason + hint) from None
    return Compiled(spec, model, {body.id: inertia for body, inertia in aside})


def _one_line(message: str) -> str:
    """MuJoCo's error with the element before what is wrong with it, as our own errors have it."""
    first, *rest = [line.strip() for line in message.splitlines() if line.strip()]
    places = [re.sub(r"Element (?:name )?'(.*?)'(?:, id \d+)?", r'element "\1"', line) for line in rest]
    return ": ".join([*(place.removesuffix(", line 0") for place in places), re.sub(r"^(XML )?(Error: )+", "", first)])


def walk(body: Any, moves: bool = False) -> Iterator[tuple[Any, bool]]:
    """The bodies below, outwards, and whether each moves."""
    for child in body.bodies:
        child_moves = moves or bool(child.joints)
        yield child, child_moves
        yield from walk(child, child_moves)


def inference(spec: Any) -> str:
    """Whether bodies have their inertia from their geoms: true, false, or auto (where none is written)."""
    return ("false", "true", "auto")[int(spec.compiler.inertiafromgeom)]


def _inertial_geoms(spec: Any, body: Any) -> list[Any]:
    """The geoms that a body has its inertia from; none where that is written."""
    rule, (low, high) = inference(spec), spec.compiler.inertiagrouprange
    if rule == "false" or (rule == "auto" and body.explicitinertial):
        return []
    return [geom for geom in body.geoms if low <= geom.group <= high and geom.mass != 0 and geom.density != 0]


def _drop_assets(spec: Any, keep_fixed: bool) -> list[str]:
    """Put a ball without mass for each mesh and height field that gives no inertia; the bodies that need theirs."""
    needing, kept = [], set()
    for body, moves in [(spec.worldbody, False), *walk(spec.worldbody)]:
        needed = _inertial_geoms(spec, body) if moves or (keep_fixed and body.id != 0) else []
        meshes = {geom.meshname for geom in needed if geom.meshname}
        needing, kept = [*needing, *([body.name or "(no name)"] if meshes else [])], kept | meshes
        for shape in [*body.geoms, *body.sites]:
            held = getattr(shape, "meshname", "") or getattr(shape, "hfieldname", "")
            if held and shape not in needed:
                _make_ball(shape)
    for material in spec.materials:
        material.textures = [""] * len(material.textures)
    unused = [mesh for mesh in spec.meshes if (mesh.name or _stem(mesh.file)) not in kept]
    for asset in [*spec.textures, *unused, *spec.hfields, *spec.skins]:
        spec.delete(asset)
    return needing


def _make_ball(shape: Any) -> None:
    shape.type, shape.size, shape.meshname = mujoco().mjtGeom.mjGEOM_SPHERE, [1.0, 0.0, 0.0], ""
    if hasattr(shape, "hfieldname"):
        shape.hfieldname, shape.mass = "", 0.0


def _stem(file: str) -> str:
    return os.path.splitext(os.path.basename(file.replace("\\", "/")))[0]


def _set_unphysical_aside(spec: Any) -> list[tuple[Any, np.ndarray]]:
    """Inertias as written where MuJoCo takes none such, and a plain one there for it to compile."""
    aside = []
    for body, _ in walk(spec.worldbody):
        if body.explicitinertial and inference(spec) != "true":
            rotation = rotation_of(spec, body.iquat, body.ialt)
            full = _symmetric(body.fullinertia)
            written = body.inertia if np.isnan(full[0, 0]) else body.fullinertia
            if not np.isfinite([body.mass, *body.ipos, *written]).all():
                raise RobotFileError(f'body "{body.name}": a number of its inertia is not finite; use finite numbers')
            rotational = rotation @ np.diag(body.inertia) @ rotation.T if np.isnan(full[0, 0]) else full
            if body.mass < MASSLESS or not _sound(rotational):
                aside.append((body, pseudo_inertia(float(body.mass), np.array(body.ipos), rotational)))
                body.mass, body.inertia, body.fullinertia = 1.0, np.ones(3), np.full(6, np.nan)
    spec.compiler.boundmass = max(spec.compiler.boundmass, LEAST)
    spec.compiler.boundinertia = max(spec.compiler.boundinertia, LEAST)
    return aside


def _sound(rotational: np.ndarray) -> bool:
    """Whether a rotational inertia about the centre of mass is clear of the bounds that MuJoCo sets without slack."""
    a, b, c = np.linalg.eigvalsh(rotational)
    return bool(a > max(LEAST, ROUNDING_OFF * c) and a + b - c > ROUNDING_OFF * c)


def _symmetric(full: Any) -> np.ndarray:
    """A matrix from MuJoCo's xx, yy, zz, xy, xz, yz."""
    return np.array(full)[[[0, 3, 4], [3, 1, 5], [4, 5, 2]]]


# Refusals --------------------------------------------------------------------------------------------------------


def _refuse_nan(document: Document) -> None:
    for element in document.root.walk():
        for name, value in element.attributes.items():
            if name not in ("name", "class", "file") and "nan" in value.lower().split():
                raise RobotFileError(f'line {element.line}: <{element.tag} {name}="{value}">; use finite numbers')


def _refuse_other_mechanics(spec: Any) -> None:
    """Bodies that bend."""
    if spec.flexes:
        raise RobotFileError(f'flex "{spec.flexes[0].name}" is deformable; use rigid bodies')


# Shared with the records -----------------------------------------------------------------------------------------


def listed(names: Iterable[str], most: int = 8) -> str:
    """Names in quotes, the first few of many."""
    quoted = [f'"{name}"' for name in names]
    rest = [f"{len(quoted) - most} more"] if len(quoted) > most else []
    return ", ".join([*quoted[:most], *rest])


def rotation_of(spec: Any, quat: Any, alt: Any) -> np.ndarray:
    """An orientation as the file has it: a quaternion, or angles or axes in its stead."""
    mj = mujoco()

    if alt.type != mj.mjtOrientation.mjORIENTATION_QUAT:
        degree, sequence = spec.compiler.degree, spec.compiler.eulerseq
        quat = mj.MjSpec.resolve_orientation(degree=degree, sequence=sequence, orientation=alt)
    return quaternion_matrix(np.array(quat) / np.linalg.norm(quat))


def quaternion_matrix(quat: np.ndarray) -> np.ndarray:
    """A rotation from a unit quaternion (w, x, y, z)."""
    w, v = quat[0], quat[1:]
    return 2 * np.outer(v, v) + (w * w - v @ v) * np.eye(3) + 2 * w * np.cross(np.eye(3), v)
