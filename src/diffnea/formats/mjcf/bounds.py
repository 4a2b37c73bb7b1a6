"""What an MJCF file asks of MuJoCo, bounded before MuJoCo is asked: one attribute can ask for all of the memory.

MuJoCo's time grows with the square of the bodies, and of copies that a file asks for by number. What no robot needs
of a compiled model (user data, sensors, key frames, its arena) is taken away.
"""

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from diffnea import files
from diffnea.formats.description import MOST_LINKS, RobotFileError
from diffnea.formats.xml_text import MOST_BYTES, Document, Element, parse

MOST_COPIED, MOST_CELLS = 20_000, 1e8
MOST_STATES = 1000  # of an actuator
MOST_MESH_PARAMETER = 500
MOST_FILES, MOST_NESTED = 200, 20
_NAMING = ("include", "model")  # elements that name further XML files


def check(document: Document, path: str, parts: Mapping[str, bytes]) -> None:
    """Refuse a file that asks for more than a robot has, in what it includes too; `parts`: see `load_model`."""
    bodies = copied = 0
    for number, (element, copies) in enumerate(_with_copies(document.root, os.path.abspath(path), parts)):
        bodies += copies * (element.tag == "body")
        copied += copies * (copies > 1)
        if bodies > MOST_LINKS:
            raise RobotFileError(f"has more than {MOST_LINKS} bodies with their copies; give one robot")
        if copied > MOST_COPIED or number > 10 * MOST_COPIED:
            raise RobotFileError(f"line {element.line}: asks for more than {MOST_COPIED} copies; give one robot")
        if element.tag == "hfield" and _cells(element) > MOST_CELLS:
            raise RobotFileError(f"line {element.line}: a height field has more than {MOST_CELLS:g} cells; use fewer")
        if element.tag == "mesh" and _largest(element.attributes.get("params", "")) > MOST_MESH_PARAMETER:
            raise RobotFileError(f"line {element.line}: a mesh has params above {MOST_MESH_PARAMETER}; use fewer")


def _with_copies(root: Element, path: str, parts: Mapping[str, bytes]) -> Iterator[tuple[Element, int]]:
    """All elements, those of included files too, each with how many times <replicate> makes it."""
    opened, main = 0, os.path.dirname(path)
    stack = [(root, 1, path, 0)]
    while stack:
        element, copies, home, depth = stack.pop()
        yield element, copies
        copies *= _count(element)
        stack += [(child, copies, home, depth) for child in element.children]
        if element.tag in _NAMING and "file" in element.attributes:
            found = _found(element.attributes["file"], parts, main, os.path.dirname(home))
            opened += 1
            if depth == MOST_NESTED or opened > MOST_FILES:
                raise RobotFileError(f"includes more than {MOST_FILES} files, or itself; include each once")
            if found is not None:
                stack.append((_root(found, parts), copies, found, depth + 1))


def _found(name: str, parts: Mapping[str, bytes], *folders: str) -> str | None:
    """Beside the main file, then beside the one that names it; what is not there is MuJoCo's to say."""
    paths = [os.path.normpath(os.path.join(folder, name)) for folder in folders]
    return next((path for path in paths if path in parts or os.path.exists(path)), None)


def _root(path: str, parts: Mapping[str, bytes]) -> Element:
    try:
        return parse(parts[path] if path in parts else files.read(Path(path), MOST_BYTES)).root
    except OSError as error:
        raise RobotFileError(f'names "{path}", which {error.strerror}') from None


def _count(element: Element) -> int:
    if element.tag != "replicate":
        return 1
    return max(1, int(min(_largest(element.attributes.get("count", "1")), 10.0 * MOST_COPIED)))


def _cells(element: Element) -> float:
    return math.prod(_largest(element.attributes.get(name, "")) for name in ("nrow", "ncol"))


def _largest(text: str) -> float:
    """The largest number in an attribute; what is none is MuJoCo's to say."""
    found = [0.0]
    for word in text.split():
        try:
            found.append(abs(float(word)))
        except ValueError:
            continue
    return max(each if math.isfinite(each) else math.inf for each in found)


def trim(spec: Any) -> None:
    """Take from a spec what costs memory and tells nothing of the robot."""
    for name in ("actuator", "body", "cam", "geom", "jnt", "sensor", "site", "tendon"):
        setattr(spec, f"nuser_{name}", -1)  # as many as are given
    spec.memory = spec.njmax = spec.nconmax = spec.nstack = -1
    spec.nuserdata = spec.nkey = 0
    for unused in [*spec.sensors, *spec.keys, *spec.numerics, *spec.texts, *spec.tuples]:
        spec.delete(unused)
    for actuator in spec.actuators:
        if actuator.actdim > MOST_STATES:
            raise RobotFileError(f'actuator "{actuator.name}" has {actuator.actdim} states; at most {MOST_STATES}')


def check_meshes(spec: Any, path: str) -> None:
    """Refuse meshes that are pipes or devices, which MuJoCo would read without end."""
    for mesh in spec.meshes:
        place = Path(os.path.join(os.path.dirname(path), spec.meshdir, mesh.file))
        if mesh.file and place.exists() and not place.is_file():
            raise RobotFileError(f'mesh "{mesh.name or mesh.file}" names {place}, which is no regular file')
