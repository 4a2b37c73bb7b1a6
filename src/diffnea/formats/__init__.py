"""Robot files: URDF and MJCF in, and identified numbers back into the file they came from."""

import os
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from diffnea import canonical, files
from diffnea.formats import mjcf, urdf
from diffnea.formats.assembly import assemble, massless_note
from diffnea.formats.couplings import uncouple
from diffnea.formats.description import Curve, Description, MissingRobotFile, RobotFileError, Servo, check_bounds
from diffnea.formats.locking import float_base, ground_base, places, unlock
from diffnea.formats.locking import lock as locked
from diffnea.formats.merging import attached, check_physical, frames, tips
from diffnea.formats.read_back import curves_of, servos_of, verify, verify_curves, verify_servos
from diffnea.formats.revision import Curves, Servos, describe, revise
from diffnea.formats.shapes import shapes
from diffnea.formats.xml_text import MOST_BYTES, XMLFault, parse
from diffnea.robot import Robot, Source, astype, pulled
from diffnea.text import one_line

_FORMATS = {".urdf": "urdf", ".xml": "mjcf", ".mjcf": "mjcf"}


def load_robot(
    path: str | os.PathLike[str],
    *,
    lock: Mapping[str, float | None] | Iterable[str] = (),
    base: str | None = None,
    couplings: bool = True,
    allow_unphysical: bool = False,
) -> Robot:
    """Read a robot from a URDF or MJCF file, told apart by content; links joined by fixed joints become one.

    Free joints and balls are held where the file has them; one without a name in the file is called after its body,
    `<body>_joint`.

    Args:
        path: the file.
        lock: joints that are held still, at 0 or where a mapping says (rad or m), and are no joints of the robot; files
            that are written from it have them as before.
        base: whether the root is free to move: "floating" sets that of a URDF free, "fixed" holds what the file has
            free; None takes the file's word.
        couplings: whether joints that follow others (URDF `mimic`, MJCF `equality joint`) move with them and are no
            coordinates of the robot; with False they move by themselves.
        allow_unphysical: take links that no body can be (negative mass, moments that break the triangle inequality),
            since vendors do ship such files; else they are refused.
    """
    path = Path(path)
    text = _bytes(path)
    try:
        kind = _kind(text)
        floated = _is_floated(base, kind)
        description = (_read_any if allow_unphysical else _read_physical)(text, str(path), kind, floated)
        description = description if couplings else uncouple(description)
        held = places(description, _with_base(description, lock, base))
        description = locked(description, held)
        robot = assemble(description, Source(kind, str(path), text, held, floated, couplings))
    except XMLFault as error:
        raise RobotFileError(f"{path}: {one_line(str(error))}; give a URDF or MJCF file") from None
    except RobotFileError as error:
        raise RobotFileError(f"{path}: {one_line(str(error))}") from None
    for note in (*description.notes, *massless_note(robot)):
        warnings.warn(f"{path}: {one_line(note)}", stacklevel=2)
    canonical.note(robot)
    return robot


def save_robot(
    robot: Robot,
    path: str | os.PathLike[str],
    *,
    fresh: bool = False,
    allow_unphysical: bool = False,
    curves: Curves | None = None,
    servos: Servos | None = None,
    replacing: Collection[str] = (),
) -> tuple[Path, ...]:
    """Write a robot as `.urdf` or MJCF `.xml`; read back, it is the same robot. Returns the files that were written.

    A robot that came from a file of that format is written as that file with only the changed numbers edited. The
    result is read back and compared before anything is put in place; nothing is half-written.

    An MJCF file that includes others still does: those that must change are written beside it, under the names they
    have if these are free there, else as `<name of the new file>_<name>`.

    Args:
        robot: the robot.
        path: the file, whose ending says the format.
        fresh: write the file anew, without what the robot's own file has besides.
        allow_unphysical: write links that no body can be; else they are refused.
        curves: MJCF only: dry friction that changes with speed, by joint; without any, that of the robot's file stays.
        servos: MJCF only: servos of positions, by joint; without any, those of the robot's file stay.
        replacing: names of files that may be overwritten.
    """
    if not isinstance(robot, Robot):
        raise TypeError(f"save_robot: got a {type(robot).__name__}; give a Robot, as load_robot reads it, and a path")
    path = Path(path)
    kind = _FORMATS.get(path.suffix.lower())
    if kind is None:
        raise RobotFileError(f'{path}: ends in "{path.suffix}"; use .urdf, or .xml for MJCF')
    if not path.parent.is_dir():
        raise MissingRobotFile(f"{path.parent}: no such folder")
    try:
        if not allow_unphysical:
            check_physical(describe(robot))
        if kind == "urdf" and curves:
            raise RobotFileError("URDF has no place for friction that changes with speed; use .xml for MJCF")
        if kind == "urdf" and servos:
            raise RobotFileError("URDF has no place for servos; use .xml for MJCF")
        robot = _with_servos(robot, servos)
        text, parts = _write(robot, path, kind, fresh, curves, servos, replacing)
        source = None if fresh else robot.source
        floated = source is not None and source.format == kind and source.floated
        written = _read(text, str(path), kind, True, floated, parts)
        written = written if source is None or source.coupled else uncouple(written)
        written = locked(written, () if source is None else source.locked)
        back = assemble(written)
        verify(robot, back, kind)
        verify_curves(written, curves)
        verify_servos(written, servos)
    except (RobotFileError, XMLFault) as error:
        raise RobotFileError(f"{path}: {error}") from None
    _put(path, text, parts)
    if back.joint_names != robot.joint_names:
        order = ", ".join(back.joint_names)
        warnings.warn(f"{path}: MJCF numbers joints depth first, so q comes back as {order}", stacklevel=2)
    return (path, *(path.parent / Path(each).name for each in parts))


def _put(path: Path, text: bytes, parts: Mapping[str, bytes]) -> None:
    """The file and the changed ones that it includes; where one cannot be written, no new one stays."""
    new = [Path(each) for each in parts if not os.path.exists(each)]
    try:
        for each, content in parts.items():
            files.replace(Path(each), content)
        files.replace(path, text)
    except OSError:
        for each in new:
            each.unlink(missing_ok=True)
        raise


def fixed_parts(robot: Robot) -> np.ndarray:
    """What the robot's file has rigidly fixed to each moving link, locked joints included: (n, 10) parameters."""
    if robot.source is None:
        return np.zeros((robot.num_links, 10))
    return attached(locked(_described(robot.source), robot.source.locked))


def link_frames(robot: Robot) -> dict[str, tuple[int, np.ndarray]]:
    """Each link of the robot's file, fixed ones too: the moving link that carries it (−1: the base), its pose therein.

    A robot without a file has its moving links only.
    """
    if robot.source is None:
        poses = np.tile(np.eye(4), (robot.num_links, 1, 1))
        poses[:, :3, 3] = np.asarray(robot.frame_offset)
        return {name: (i, poses[i]) for i, name in enumerate(robot.link_names)}
    return frames(locked(_described(robot.source), robot.source.locked))


def flange(robot: Robot, link: str) -> tuple[str, np.ndarray]:
    """The last link that the file's fixed joints join to a moving link, and its 4 × 4 pose in that link's frame.

    What hangs on a locked joint, as a finger, is not on the way.
    """
    if robot.source is None:
        return link, np.eye(4)
    description = _described(robot.source)
    for name, _ in robot.source.locked:  # cut there: its child is another link's business
        kept = tuple(joint for joint in description.joints if joint.name != name)
        gone = _below(description, name)
        description = replace(
            description,
            links=tuple(each for each in description.links if each.name not in gone),
            joints=tuple(joint for joint in kept if joint.parent not in gone and joint.child not in gone),
        )
    return tips(description)[link]


def link_shapes(robot: Robot) -> list[tuple[int, np.ndarray]]:
    """Shapes that the file draws: the moving link that carries each (−1: the base), and points in its frame.

    A shape is the convex hull of its points. Empty without a file, and where that names meshes which are not there.
    """
    if robot.source is None:
        return []
    placed, found = link_frames(robot), []
    for name, points in shapes(robot.source):
        if name in placed:
            owner, pose = placed[name]
            found.append((owner, points @ pose[:3, :3].T + pose[:3, 3]))
    return found


def _below(description: Description, joint: str) -> set[str]:
    """The links that a joint moves."""
    found = {each.child for each in description.joints if each.name == joint}
    while True:
        more = {each.child for each in description.joints if each.parent in found} - found
        if not more:
            return found
        found |= more


def _bytes(path: Path) -> bytes:
    """The text of a file."""
    try:
        return files.read(path, MOST_BYTES)
    except FileNotFoundError:
        raise MissingRobotFile(f"{path}: no such file or directory") from None
    except OSError as error:
        raise RobotFileError(f"{path}: {error.strerror}") from None


def _kind(text: bytes) -> str:
    """The format by its root element."""
    root = parse(text).root.tag
    kind = {"robot": "urdf", "mujoco": "mjcf", "mujocoinclude": "mjcf"}.get(root)
    if kind is None:
        raise RobotFileError(f"its root element is <{root}>; use URDF (<robot>) or MJCF (<mujoco>)")
    return kind


def _is_floated(base: str | None, kind: str) -> bool:
    if base not in (None, "fixed", "floating"):
        raise RobotFileError(f'base is "{base}"; use "fixed" or "floating"')
    return base == "floating" and kind == "urdf"


def _with_base(description: Description, lock: Mapping[str, float | None] | Iterable[str], base: str | None):
    """What is to be locked, with free joints where the base is to be fixed."""
    free = [joint.name for joint in description.joints if joint.kind == "free"]
    if base == "floating" and not free:
        raise RobotFileError("no body has a free joint to be the floating base; give one a <freejoint/>")
    asked = dict(lock) if isinstance(lock, Mapping) else dict.fromkeys(lock)
    return asked | dict.fromkeys(free if base == "fixed" else ())


def _described(source: Source) -> Description:
    found = _read(source.text, source.path, source.format, allow_unphysical=True, floated=source.floated)
    return found if source.coupled else uncouple(found)


def _read_physical(text: bytes, path: str, kind: str, floated: bool) -> Description:
    """Read what bodies can be; what MuJoCo refuses may still be well as a whole, or not move at all."""
    try:
        description = _read(text, path, kind, False, floated)
    except RobotFileError as error:
        try:
            description = _read(text, path, kind, True, floated)
            unlike = check_physical(description)
        except RobotFileError:
            raise error from None
        if not unlike:  # then it was not the inertia of a link
            raise
        return replace(description, notes=(*description.notes, *unlike))
    return replace(description, notes=(*description.notes, *check_physical(description)))


def _read_any(text: bytes, path: str, kind: str, floated: bool) -> Description:
    return _read(text, path, kind, allow_unphysical=True, floated=floated)


def _read(
    text: bytes,
    path: str,
    kind: str,
    allow_unphysical: bool,
    floated: bool = False,
    parts: Mapping[str, bytes] | None = None,
) -> Description:
    if kind == "urdf":
        description = urdf.read(text, allow_unphysical)
    else:
        description = mjcf.read(text, path, allow_unphysical, parts)
    check_bounds(description)
    return float_base(description) if floated else description


def _write(
    robot: Robot,
    path: Path,
    kind: str,
    fresh: bool,
    curves: Curves | None,
    servos: Servos | None,
    replacing: Collection[str],
) -> mjcf.Written:
    source = robot.source

    def render(description: Description) -> mjcf.Written:
        return mjcf.Written((urdf.render if kind == "urdf" else mjcf.render)(description), {})

    if source is None or (fresh and curves is not None and servos is not None):
        return render(describe(robot, curves, servos))
    old = _described(source)
    if fresh:
        kept = locked(old, source.locked)
        curved = curves_of(kept) if curves is None else curves
        return render(describe(robot, curved, servos_of(kept) if servos is None else servos))
    new = unlock(revise(locked(old, source.locked), robot, curves, servos), old)
    if source.format != kind:
        return render(new)
    if source.floated:
        old, new = ground_base(old), ground_base(new)
    if kind == "urdf":
        return mjcf.Written(urdf.edit(source.text, old, new), {})
    return mjcf.edit(source.text, source.path, old, new, str(path), replacing)


def _with_servos(robot: Robot, servos: Servos | None) -> Robot:
    """The robot without gears where servos take the place of motors."""
    if not servos:
        return robot
    own = np.array([name in servos for name in robot.tree.joint_names])
    return replace(robot, gear=jnp.where(own, 1.0, robot.gear))


def servos(robot: Robot) -> dict[str, Servo]:
    """The servos that the robot's file has, by joint: MJCF's `position`, `velocity` and the like."""
    if robot.source is None or robot.source.format != "mjcf":
        return {}
    return servos_of(locked(_described(robot.source), robot.source.locked))
