"""XML with byte positions: read a file's elements, and change attributes without touching anything else.

Python's own expat reports where each tag stands, which tree libraries do not; so an edit replaces a few bytes and
leaves comments, order and spacing alone. Document types are refused, and with them every entity and outside file.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat
from xml.sax.saxutils import escape

import numpy as np

from diffnea.errors import DiffneaError

_DECLARED = re.compile(rb'<\?xml[^>]*?encoding\s*=\s*["\']([A-Za-z0-9._-]+)["\']')
# What robot files are written in; Python knows encodings that unpack, run backwards or take for ever.
_TEXT = re.compile(
    r"utf-8(-sig)?|ascii|iso8859-\d+|cp125\d|utf-16(-[lb]e)?|gb18030|gbk|gb2312|big5|shift_jis|euc_(jp|kr)|koi8-[ru]"
)
_TAG = re.compile(rb"""[^"'>]*(?:"[^"]*"[^"'>]*|'[^']*'[^"'>]*)*>""")
MOST_BYTES = 1 << 25
MOST_ELEMENTS, MOST_DEPTH = 50_000, 1000  # of a file; the largest robot files have some thousands
_ATTRIBUTE = re.compile(rb'(\s+)([^\s=<>/"\']+)\s*=\s*("[^"]*"|\'[^\']*\')')


def format_numbers(values) -> str:
    """Numbers as XML holds them: the shortest digits that read back as the same, single precision as single."""
    array = np.atleast_1d(values) + 0.0  # −0.0 becomes 0.0
    return " ".join(str(value).removesuffix(".0") for value in array)


class XMLFault(DiffneaError):
    """What is wrong with a file as XML, and on which line."""


@dataclass(eq=False)
class Element:
    """One element: its tag, attributes and children, and the byte span of its start tag and of the whole."""

    tag: str
    attributes: dict[str, str]
    line: int
    start: int
    open_end: int
    end: int = 0
    parent: "Element | None" = None
    children: list["Element"] = field(default_factory=list)

    def all(self, tag: str) -> list["Element"]:
        """The children with this tag."""
        return [child for child in self.children if child.tag == tag]

    def first(self, tag: str) -> "Element | None":
        """The first child with this tag."""
        return next((child for child in self.children if child.tag == tag), None)

    def walk(self) -> Iterator["Element"]:
        """This element and everything in it, in document order."""
        stack: list[Element] = [self]
        while stack:
            element = stack.pop()
            yield element
            stack.extend(reversed(element.children))


@dataclass(frozen=True)
class Document:
    """A file's text as UTF-8, its root element, and the encoding the file is in."""

    text: bytes
    root: Element
    encoding: str
    late: bool = False  # blanks stand before <?xml, where strict readers stop


def parse(data: bytes) -> Document:
    """Read XML; raises `XMLFault` with the line."""
    encoding = _encoding(data)
    try:
        text = data if encoding == "utf-8" else data.decode(encoding).encode()
    except UnicodeError:
        raise XMLFault(f"is not {encoding} text; save it as UTF-8") from None
    open_elements: list[Element] = []
    roots: list[Element] = []
    parser = expat.ParserCreate("utf-8")
    blank = len(text) - len(text.lstrip())  # expat wants <?xml at the very start
    skipped = text[:blank].count(b"\n")
    count = 0

    def start(tag, attributes):
        nonlocal count
        count += 1
        if count > MOST_ELEMENTS or len(open_elements) > MOST_DEPTH:
            found = f"{MOST_ELEMENTS} elements" if count > MOST_ELEMENTS else f"{MOST_DEPTH} elements within another"
            raise XMLFault(f"line {skipped + parser.CurrentLineNumber}: has more than {found}")
        at = blank + parser.CurrentByteIndex
        element = Element(tag, attributes, skipped + parser.CurrentLineNumber, at, _tag_end(text, at))
        if open_elements:
            element.parent = open_elements[-1]
            open_elements[-1].children.append(element)
        else:
            roots.append(element)
        open_elements.append(element)

    def end(_tag):
        element = open_elements.pop()
        element.end = element.open_end
        if not _closed(text, element):
            element.end = text.index(b">", blank + parser.CurrentByteIndex) + 1

    def doctype(*_):
        raise XMLFault(
            f"line {skipped + parser.CurrentLineNumber}: has a document type; remove it, entities are not expanded"
        )

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(text[blank:], True)
    except expat.ExpatError as error:
        reason = expat.errors.messages[error.code]
        raise XMLFault(f"line {skipped + error.lineno}: is not well-formed XML ({reason})") from None
    return Document(text, roots[0], encoding, blank > 0 and text[blank:].startswith(b"<?xml"))


def _encoding(data: bytes) -> str:
    for mark, name in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if data.startswith(mark):
            return name
    declared = _DECLARED.search(data[:200])
    name = declared[1].decode().lower() if declared else "utf-8"
    try:
        known = codecs.lookup(name).name
    except LookupError:
        raise XMLFault(f'declares the encoding "{name}", which is unknown; use UTF-8') from None
    if not _TEXT.fullmatch(known):
        raise XMLFault(f'declares the encoding "{name}", which no robot file is in; use UTF-8')
    return known


def _tag_end(text: bytes, start: int) -> int:
    """Just past the `>` of the start tag at `start`; quoted values may hold one."""
    found = _TAG.match(text, start)
    return found.end() if found else len(text)


def _closed(text: bytes, element: Element) -> bool:
    """Whether the element is `<tag/>`."""
    return text[element.open_end - 2 : element.open_end] == b"/>"


class Edits:
    """Changes to a document, collected and applied at once."""

    def __init__(self, document: Document):
        self.document = document
        self._changes: list[tuple[int, int, bytes]] = []
        self._opened: set[int] = set()
        self._newline = b"\r\n" if b"\r\n" in document.text else b"\n"

    def set(self, element: Element, name: str, value: str) -> None:
        """Give an attribute a value, in place where it stands already."""
        quoted = escape(value, {'"': "&quot;"}).encode()
        found = self._attribute(element, name)
        if found:
            self._changes.append((found.start(3) + 1, found.end(3) - 1, quoted))
        else:
            at = self._inside_end(element)
            self._changes.append((at, at, b" " + name.encode() + b'="' + quoted + b'"'))

    def remove(self, element: Element, name: str) -> None:
        """Take an attribute away, if it is there."""
        found = self._attribute(element, name)
        if found:
            self._changes.append((found.start(), found.end(), b""))

    def add(self, parent: Element, child: str) -> None:
        """Put a new child, given as text with lines indented from zero, before the others of `parent`."""
        outer = self._indent(parent)
        inner = self._indent(parent.children[0]) if parent.children else outer + (b"\t" if b"\t" in outer else b"  ")
        lines = child.encode().splitlines()
        block = b"".join(self._newline + inner + line for line in lines)
        if not _closed(self.document.text, parent):
            self._changes.append((parent.open_end, parent.open_end, block))
        elif parent.start in self._opened:
            raise AssertionError("one child at a time into an empty element")
        else:
            self._opened.add(parent.start)
            close = self._newline + outer + b"</" + parent.tag.encode() + b">"
            self._changes.append((self._inside_end(parent), parent.open_end, b">" + block + close))

    def append(self, parent: Element, child: str) -> None:
        """Put a new child, given as text with lines indented from zero, behind the others of `parent`."""
        if not parent.children:
            return self.add(parent, child)
        last = parent.children[-1]
        lines = child.encode().splitlines()
        block = b"".join(self._newline + self._indent(last) + line for line in lines)
        self._changes.append((last.end, last.end, block))

    def drop(self, element: Element) -> None:
        """Take a whole element away, and the blank before it."""
        start = len(self.document.text[: element.start].rstrip())
        self._changes.append((start, element.end, b""))

    def replace(self, element: Element, content: bytes) -> None:
        """Put other text in the place of a whole element."""
        self._changes.append((element.start, element.end, content))

    def apply(self) -> bytes:
        """The changed file, in the encoding it came in."""
        pieces, done = [], 0
        for start, end, content in sorted(self._changes, key=lambda change: change[:2]):
            assert start >= done, "changes overlap"
            pieces += [self.document.text[done:start], content]
            done = end
        text = b"".join([*pieces, self.document.text[done:]])
        return text if self.document.encoding == "utf-8" else text.decode().encode(self.document.encoding)

    def _attribute(self, element: Element, name: str):
        matches = _ATTRIBUTE.finditer(self.document.text, element.start, element.open_end)
        return next((match for match in matches if match[2] == name.encode()), None)

    def _inside_end(self, element: Element) -> int:
        """Where the start tag's last attribute ends."""
        at = element.open_end - (2 if _closed(self.document.text, element) else 1)
        while self.document.text[at - 1 : at].isspace():
            at -= 1
        return at

    def _indent(self, element: Element) -> bytes:
        line = self.document.text[: element.start].rpartition(b"\n")[2]
        return line[: len(line) - len(line.lstrip())]
