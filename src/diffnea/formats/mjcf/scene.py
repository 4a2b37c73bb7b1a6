"""An MJCF file with those it includes: read as one, changed one by one, and written beside one another.

An included file that must change is not touched: a changed copy stands beside the file that is written, which includes
the copy. It has the name it had, unless something else has that name there.
"""

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple

from diffnea import files
from diffnea.formats.description import RobotFileError
from diffnea.formats.mjcf.text import tag, where
from diffnea.formats.xml_text import MOST_BYTES, Document, Edits, Element, XMLFault, format_numbers, parse


class Written(NamedTuple):
    """A file's text, and the texts of files that it includes and that changed with it, by path."""

    text: bytes
    parts: dict[str, bytes]


@dataclass
class _File:
    """A file, where it is found once all is written, and what changes in it."""

    edits: Edits
    path: str
    place: str
    changed: bool = False


class Scene:
    """An MJCF file with its includes; changes go to the file that holds the element."""

    def __init__(self, document: Document, path: str):
        self.root = document.root
        main = os.path.abspath(path)
        self._folder = os.path.dirname(main)
        self._files = {document.root: _File(Edits(document), main, main)}  # by root element
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

    # Changes -----------------------------------------------------------------------------------------------------

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

    # Into their places -------------------------------------------------------------------------------------------

    def written(self, target: str, replacing: Collection[str] = ()) -> Written:
        """All that is to be written for the file to stand at `target`; files of the names `replacing` give way."""
        main, *others = self._open_all()
        main.place = os.path.abspath(target)
        if os.path.dirname(main.place) != self._folder:
            self._move_assets(os.path.dirname(main.place))
        parts: dict[str, bytes] = {}
        for file in reversed(others):  # the names of those that a file includes are known before its own
            self._name_includes(file, main.place)
            if file.changed:
                content = file.edits.apply()
                file.place = self._free(main.place, os.path.basename(file.path), content, parts, replacing)
                parts[file.place] = content
        self._name_includes(main, main.place)
        return Written(main.edits.apply(), parts)

    def _open_all(self) -> list[_File]:
        """The file and all that it includes, including ones before included ones."""
        roots = [self.root]
        for root in roots:
            roots += [self._open(element) for element in root.walk() if element.tag == "include"]
        return [self._files[root] for root in roots]

    def _move_assets(self, folder: str) -> None:
        """Make the names of meshes, textures and models good from another folder."""

        def moved(name: str) -> str:
            return name if os.path.isabs(name) else os.path.relpath(os.path.join(self._folder, name), folder)

        elements = [element for section in self.sections("asset") for element in self.children(section)]
        for model in [element for element in elements if element.tag == "model"]:
            self.set(model, "file", moved(model.attributes.get("file", "")))
        if not any(name.startswith("file") for element in elements for name in element.attributes):
            return
        compilers = self.sections("compiler")
        given = {name: value for compiler in compilers for name, value in compiler.attributes.items()}
        settings = ("meshdir", "texturedir")
        values = {name: moved(given.get(name, given.get("assetdir", ""))) for name in settings}
        if compilers:
            self.put(compilers[-1], (), values)
        else:
            self.add(self.root, [tag("compiler", **values)])

    def _name_includes(self, file: _File, target: str) -> None:
        """Give includes other names where MuJoCo would find no file by them, or another one."""
        folder = os.path.dirname(target)
        for include in [element for element in file.edits.document.root.walk() if element.tag == "include"]:
            place = self._files[self._included[include]].place
            paths = _candidates(include.attributes["file"], folder, os.path.dirname(file.place))
            # A copy stands beside the target, whatever folder its original is in.
            if paths[0] != place and (file.changed or os.path.lexists(paths[0]) or paths[1] != place):
                self.set(include, "file", os.path.relpath(place, folder))

    def _free(self, target: str, name: str, content: bytes, taken: Collection[str], replacing: Collection[str]) -> str:
        """Where a changed file can stand beside the target without another's loss.

        A file of the user's own is left alone. One that is called after the target and is part of what stands there
        gives way with it.
        """
        folder, stem = os.path.split(os.path.splitext(target)[0])
        own = {file.path for file in self._files.values()}
        parts = _parts_of(target) - own
        for path in (os.path.join(folder, each) for each in _names(stem, name)):
            if path == target or path in taken:
                continue
            named = path in parts and os.path.basename(path) != name
            given = os.path.basename(path) in replacing and path not in own
            if not os.path.lexists(path) or named or given or _holds(path, content):
                return path
        raise AssertionError("names do not end")

    # Files -------------------------------------------------------------------------------------------------------

    def _open(self, include: Element) -> Element:
        """The root of an included file: looked for beside the main file, then beside the one that includes it."""
        if include not in self._included:
            name = include.attributes.get("file", "")
            paths = _candidates(name, self._folder, os.path.dirname(self._home(include).path))
            path = next((path for path in paths if os.path.isfile(path)), None)
            if path is None:
                raise RobotFileError(f'{where(include)} names "{name}", which is not there')
            if any(file.path == path for file in self._files.values()):
                raise RobotFileError(f'{where(include)} names "{name}", which is included already; include it once')
            document = parse(files.read(Path(path), MOST_BYTES))
            self._included[include] = document.root
            self._files[document.root] = _File(Edits(document), path, path)
        return self._included[include]

    def _home(self, element: Element) -> _File:
        while element.parent is not None:
            element = element.parent
        return self._files[element]

    def _edits(self, element: Element) -> Edits:
        home = self._home(element)
        home.changed = True
        return home.edits


def _candidates(name: str, *folders: str) -> list[str]:
    """Where a file may be by its name, from each of these folders."""
    return [os.path.normpath(os.path.join(folder, name)) for folder in folders]


def _names(stem: str, name: str) -> Iterator[str]:
    """What a changed file may be called: as it was, or after the file that includes it."""
    yield name
    yield f"{stem}_{name}"
    for number in count(2):
        yield f"{stem}_{number}_{name}"


def _holds(path: str, content: bytes) -> bool:
    """Whether a file has this very text."""
    try:
        return files.read(Path(path), len(content)) == content
    except OSError:
        return False


def _parts_of(path: str) -> set[str]:
    """What a file includes, where there is one."""
    try:
        there = Scene(parse(files.read(Path(path), MOST_BYTES)), path)
        return {file.path for file in there._open_all()}
    except (OSError, XMLFault, RobotFileError):
        return set()
