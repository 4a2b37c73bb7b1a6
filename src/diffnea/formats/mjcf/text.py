"""MJCF as text: a file and what it includes read as one, and elements written out.

Where a change falls into an included file, that file's text takes the place of the `<include>`.
"""

import os
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

import numpy as np

from diffnea.formats.description import Joint, RobotFileError
from diffnea.formats.inertia import central_moments
from diffnea.formats.mjcf.compiler import ROUNDING_OFF, SLIVER
from diffnea.formats.xml_text import Document, Edits, Element, format_numbers, parse
from diffnea.manifold import quaternion_of

FRESH = "save with fresh=True to write a new file"
# MuJoCo lets joints creep for 20 ms before its dry friction holds. With this it holds as soon as a time step allows: of
# time constants below two steps MuJoCo makes two steps.
HARD_FRICTION = {"solreffriction": (1e-4, 1.0), "solimpfriction": (0.9999, 0.9999, 0.001, 0.5, 2.0)}
# A motor needs a winding: of this one MuJoCo feels 1e-16 N·m·s/rad. Releases before 4.0 take no motor constant of 0.
NO_WINDING = {"resistance": 1.0, "motorconst": 1e-8}
# LuGre's friction follows the sign of the velocity within a step. Runge-Kutta's inner stages have it without bound.
NOT_RUNGE_KUTTA = "<!-- friction that changes with speed; for integrators other than RK4 -->"
# Products of inertia below this share of the largest moment are rounding.
_SAME_AXES = 1e-15


@dataclass
class _File:
    """A file, where it is, the `<include>` that names it, and what changes in it."""

    edits: Edits
    path: str
    include: Element | None = None
    changed: bool = False


class Text:
    """An MJCF file with its includes; changes go to the file that holds the element."""

    def __init__(self, document: Document, path: str):
        self.root = document.root
        main = _File(Edits(document), os.path.abspath(path))
        self._folder = self._target = os.path.dirname(main.path)
        self._files = {document.root: main}  # by root element, including files before included ones
        self._included: dict[Element, Element] = {}  # include → root of the file it names

    def children(self, element: Element) -> list[Element]:
        """An element's children, those of included files in their place."""
        found = []
        for child in element.children:
            found += self.children(self._open(child)) if child.tag == "include" else [child]
        return found

    def first(self, element: Element, name: str) -> Element | None:
        """The first child with this tag."""
        return next((child for child in self.children(element) if child.tag == name), None)

    def sections(self, name: str) -> list[Element]:
        """The top-level elements with this tag: MJCF may have several of each."""
        return [child for child in self.children(self.root) if child.tag == name]

    def set(self, element: Element, name: str, value) -> None:
        """Give an attribute a value: text, or numbers."""
        self._edits(element).set(element, name, value if isinstance(value, str) else format_numbers(value))

    def put(self, element: Element, rivals: tuple[str, ...], values: dict[str, str]) -> None:
        """Give attributes their values, and take away the rivals that would say otherwise."""
        for name in rivals:
            if name not in values:
                self._edits(element).remove(element, name)
        for name, value in values.items():
            self.set(element, name, value)

    def set_compiler(self, name: str, value: str) -> None:
        """Change a setting wherever it stands in a <compiler>."""
        for compiler in self.sections("compiler"):
            if name in compiler.attributes:
                self.set(compiler, name, value)

    def add(self, parent: Element, lines: list[str]) -> None:
        """Put a new child before the others."""
        self._edits(parent).add(parent, "\n".join(lines))

    def append(self, parent: Element, lines: list[str]) -> None:
        """Put a new child behind the others."""
        self._edits(parent).append(parent, "\n".join(lines))

    def replace(self, element: Element, line: str) -> None:
        """Put another element in its place."""
        self._edits(element).replace(element, line.encode())

    def drop(self, element: Element) -> None:
        """Take an element away."""
        self._edits(element).drop(element)

    def relocate(self, folder: str) -> None:
        """Make the names of files good from another folder."""
        self._target = os.path.abspath(folder)
        self._open_all(self.root)
        elements = [element for section in self.sections("asset") for element in self.children(section)]
        for model in [element for element in elements if element.tag == "model"]:
            self.set(model, "file", self._moved(model.attributes.get("file", "")))
        if any(name.startswith("file") for element in elements for name in element.attributes):
            self._move_assets()

    def _open_all(self, root: Element) -> bool:
        """Whether a file includes others; an included one that does must give way to its text.

        MuJoCo looks for what it names from the main file's folder, which is another now.
        """
        includes = [element for element in root.walk() if element.tag == "include"]
        for include in includes:
            inner = self._open(include)
            self._files[inner].changed |= self._open_all(inner)
        return bool(includes)

    def _move_assets(self) -> None:
        compilers = self.sections("compiler")
        given = {name: value for compiler in compilers for name, value in compiler.attributes.items()}
        settings = ("meshdir", "texturedir")
        values = {name: self._moved(given.get(name, given.get("assetdir", ""))) for name in settings}
        if compilers:
            self.put(compilers[-1], (), values)
        else:
            self.add(self.root, [tag("compiler", **values)])

    def _moved(self, name: str) -> str:
        return name if os.path.isabs(name) else os.path.relpath(os.path.join(self._folder, name), self._target)

    def apply(self) -> bytes:
        """The main file, with the files that changed in the place of their includes."""
        main, *others = self._files.values()
        for file in reversed(others):
            if file.changed and file.include is not None:
                self._edits(file.include).replace(file.include, self._content(file))
        if self._target != self._folder:
            self._name_includes(main)
        return main.edits.apply()

    def _content(self, file: _File) -> bytes:
        """What stands between the root's tags."""
        self._name_includes(file)
        document = parse(file.edits.apply())
        end = document.text.rindex(b"</", document.root.open_end, document.root.end)
        return document.text[document.root.open_end : end].strip()

    def _name_includes(self, file: _File) -> None:
        """Name the files that stay included as they are found from the folder that the text is for."""
        for include in [element for element in file.edits.document.root.walk() if element.tag == "include"]:
            inner = self._files[self._open(include)]
            relative = os.path.relpath(inner.path, self._target)
            if not inner.changed and os.path.normpath(include.attributes["file"]) != relative:
                self.set(include, "file", relative)

    def _open(self, include: Element) -> Element:
        """The root of an included file: looked for beside the main file, then beside the one that includes it."""
        if include not in self._included:
            name = include.attributes.get("file", "")
            folders = (self._folder, os.path.dirname(self._home(include).path))
            paths = [os.path.join(folder, name) for folder in folders]
            path = next((path for path in paths if os.path.isfile(path)), None)
            if path is None:
                raise RobotFileError(f'{where(include)} names "{name}", which is not there')
            with open(path, "rb") as file:
                document = parse(file.read())
            self._included[include] = document.root
            self._files[document.root] = _File(Edits(document), path, include)
        return self._included[include]

    def _home(self, element: Element) -> _File:
        while element.parent is not None:
            element = element.parent
        return self._files[element]

    def _edits(self, element: Element) -> Edits:
        home = self._home(element)
        home.changed = True
        return home.edits


def where(element: Element) -> str:
    """An element as an error names it."""
    name = f" name={quoteattr(element.attributes['name'])}" if "name" in element.attributes else ""
    return f"<{element.tag}{name}> (line {element.line})"


def tag(element: str, /, **values) -> str:
    """An element without children; values are text or numbers."""
    texts = {key: value if isinstance(value, str) else format_numbers(value) for key, value in values.items()}
    return f"<{element} " + " ".join(f"{key}={quoteattr(text)}" for key, text in texts.items()) + "/>"


def friction_tag(joint: Joint, name: str, **others) -> str:
    """Friction that changes with speed, beside a joint's steady one: LuGre's, of a motor without winding or command."""
    return tag(
        "dcmotor", name=name, joint=joint.name, gear=1.0, **others, **NO_WINDING, input="none", lugre=bristles(joint)
    )


def bristles(joint: Joint) -> list[float]:
    """The attribute `lugre`: stiffness, damping, and friction at speed and at rest beyond the steady one; speed.

    Damping would resist acceleration wherever friction changes. The steady friction damps the bristles well enough.
    """
    assert joint.curve is not None
    curve, steady = joint.curve, joint.steady_friction
    return [curve.stiffness, 0.0, joint.friction - steady, curve.static - steady, curve.speed]


def actuator_range(joint: Joint) -> list[float]:
    """What actuators may do to a joint: its effort, and what of its friction is an actuator's to MuJoCo."""
    bound = joint.effort + joint.varying_friction
    return widened(-bound, bound)


def widened(lower: float, upper: float) -> list[float]:
    """A range as MuJoCo takes it: with a width, be it the least there is."""
    above = np.nextafter(lower, np.inf) if lower else SLIVER
    return [lower, max(upper, above) if upper == lower else upper]


def inertial_attributes(
    link: str, inertia: np.ndarray, origin: np.ndarray, least: float, axes: np.ndarray
) -> dict[str, str]:
    """What an <inertial> says of a pseudo-inertia in a frame in which the body's origin is `origin`.

    Moments are principal ones, since MuJoCo before 4.0 turns others to theirs with an error of 1e-12, and takes none
    that break its bounds by rounding. No `quat` comes back where they are about `axes`. Mass and moments below `least`
    are raised to it.
    """
    refused = refusal(inertia)
    if refused:
        raise RobotFileError(f'link "{link}": {refused}')
    mass, centre, rotational = central_moments(inertia)
    about_axes = axes.T @ rotational @ axes
    moments, turned = np.diag(about_axes), {}
    if np.abs(about_axes - np.diag(moments)).max() > _SAME_AXES * np.abs(inertia[:3, :3]).max():
        moments, axes = np.linalg.eigh(rotational)
        turned = {"quat": format_numbers(quaternion_of(axes * np.linalg.det(axes)))}
    moments = np.maximum(moments, least)
    largest = np.argmax(moments)
    moments[largest] = min(moments[largest], np.delete(moments, largest).sum())
    placed = {"pos": format_numbers(centre - origin), **turned}
    return {**placed, "mass": format_numbers(max(mass, least)), "diaginertia": format_numbers(moments)}


def refusal(inertia: np.ndarray) -> str | None:
    """Why MuJoCo takes no body with this pseudo-inertia; it leaves no room for rounding, so there is none here."""
    mass, _, rotational = central_moments(inertia)
    a, b, c = np.linalg.eigvalsh(rotational)
    slack = ROUNDING_OFF * np.abs(inertia[:3, :3]).max()
    if mass >= 0 and a >= -slack and a + b - c >= -slack:
        return None
    found = f"MuJoCo takes no body with mass {mass:g} and principal moments {a:.6g}, {b:.6g}, {c:.6g}"
    return f"{found}; mass and moments must be at least 0, and no moment above the sum of the other two"
