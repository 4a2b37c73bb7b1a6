"""Lines of LLVM assembly, read back: what each names, uses and is, and what can be done again elsewhere."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

VALUE = re.compile(r"%(?:v\d+|block)\b")
_TYPE = re.compile(r"<(\d+) x (\w+)>|\b(ptr|double|float|i\d+)\b")
_BITS = {"ptr": 64, "double": 64, "float": 32, "i64": 64, "i32": 32, "i1": 1}
_ROOT = re.compile(r"ptr ([%@]\w+)")
# Addresses, and what is read through them from arguments and shared numbers, in one lane or all.
_AGAIN = ("getelementptr ", "add i64 ", "mul i64 ", "load ptr,", "load double,", "load float,", "call ptr asm ")


@dataclass(slots=True)
class Line:
    """A line: the value it names, if any, and its type; the values it uses; whether it can be done again anywhere."""

    text: str
    name: str = ""
    uses: tuple[str, ...] = ()
    again: bool = False
    kind: str = ""
    is_phi: bool = False
    bounds: bool = False  # begins or ends a block

    @property
    def expression(self) -> str:
        """What follows the name."""
        return self.text.partition("=")[2]

    @property
    def is_real(self) -> bool:
        """Whether its value takes a register for vectors, or for reals."""
        return self.kind in ("double", "float") or self.kind[:1] == "<" and not self.kind.endswith("i1>")


def kind_of(expression: str) -> str:
    """The type of an instruction's value."""
    return _kind(re.sub(r"%\w+|0x\w+|(?<!\w)-?\d+(?=[,)]|$)", "", expression))


@lru_cache(maxsize=4096)
def _kind(expression: str) -> str:
    operation = expression.split(" ", 1)[0]
    kinds = [found[0] for found in _TYPE.finditer(expression)]
    if operation == "getelementptr":
        return "ptr"
    if " to " in expression:
        return kinds[-1]
    if operation == "select":
        return kinds[1]
    if operation in ("fcmp", "icmp"):
        return re.sub(r"\w+(>?)$", r"i1\1", kinds[0])
    if operation == "shufflevector":
        return re.sub(r"\d+ x", kinds[2][1:].split(" ")[0] + " x", kinds[0])
    return kinds[0]


@lru_cache(maxsize=256)
def bytes_of(kind: str) -> int:
    """The room that a value takes in memory, at least eight bytes."""
    found = _TYPE.fullmatch(kind)
    assert found is not None, kind
    count, element, alone = found.groups()
    return max(8, int(count or 1) * _BITS[alone or element] // 8)


def read(text: Sequence[str]) -> list[Line]:
    """The lines of a function after its head."""
    lines = []
    roots: dict[str, str] = {}  # what an address was reached from
    again: set[str] = set()
    for one in text:
        name, _, expression = one.partition("=")
        if one[0] != "%" or not VALUE.fullmatch(name):
            bounds = one.endswith((":", "}")) or one.startswith(("br ", "ret "))
            lines.append(Line(one, uses=tuple(VALUE.findall(one)), bounds=bounds))
            continue
        uses, is_phi = tuple(VALUE.findall(expression)), expression.startswith("phi ")
        line = Line(one, name, uses, _can_be_again(name, expression, uses, roots, again), kind_of(expression))
        line.is_phi = line.bounds = is_phi
        lines.append(line)
        if line.again:
            again.add(name)
    return lines


def _can_be_again(name: str, expression: str, uses: tuple[str, ...], roots: dict[str, str], again: set[str]) -> bool:
    if expression.startswith(("shufflevector", "insertelement")):
        one_number = expression.endswith("zeroinitializer") or expression.startswith("insertelement")
        return one_number and len(set(uses)) == 1 and uses[0] in again
    if not expression.startswith(_AGAIN):
        return False
    if pointer := _ROOT.search(expression):
        root = roots[name] = roots.get(pointer[1], pointer[1])
        return not expression.startswith("load") or root in ("%arrays", "%shared") or root[0] == "@"
    return True


def sunk(lines: list[Line]) -> list[Line]:
    """With products that become part of a sum just before it: there LLVM makes one instruction of both."""
    count = Counter(value for line in lines for value in line.uses)
    products: dict[str, Line] = {}  # of this block, each used once
    moved: dict[str, Line] = {}  # by the sum, the product
    for line in lines:
        if line.bounds:
            products = {}
        elif "=fmul contract" in line.text and count[line.name] == 1:
            products[line.name] = line
        elif "=fadd contract" in line.text or "=fsub contract" in line.text:
            found = [value for value in line.uses if value in products]
            if found:
                moved[line.name] = products[found[0]]
    gone = {product.name for product in moved.values()}
    kept = [line for line in lines if line.name not in gone]
    return [one for line in kept for one in ([moved[line.name], line] if line.name in moved else [line])]
