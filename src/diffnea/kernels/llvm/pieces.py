"""Long straight-line code in pieces: functions of their own, each with no more values at a time than registers.

What LLVM's register allocation, scheduling and instruction selection take grows faster than the length of a block, and
a robot of 60 joints has blocks of 60 000 lines. So a long block is cut, and which values stay in registers is decided
here: when there are too many, the one whose next use is farthest goes (Belady's rule), to a frame on the stack if it is
not there, and is read again when it is used. Addresses, and numbers that all samples share, are found again instead.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from diffnea.kernels.llvm.lines import VALUE, Line, bytes_of, read, sunk

LONG = 1500  # lines a piece, about
FENCE = 64  # among so many lines LLVM chooses the order: within one, what our own leaves
SPARE = 2  # registers that are left for what LLVM keeps for a moment
CLEAN = 3.0  # a value that need not be written goes before one whose next use is up to so many times as far

_WAY = re.compile(r"\[([^,\]]*),%(\w+)\]")  # of a phi: a value, and the block it comes from
# A label: LLVM's scheduler moves nothing across it.
_FENCE = "call void @llvm.codeview.annotation(metadata !1)"
DECLARED = ("declare void @llvm.codeview.annotation(metadata)", '!1=!{!"piece"}')


def in_pieces(lines: Sequence[str], registers: int) -> list[str]:
    """The same functions, the pieces of long ones as further functions; the module must contain `DECLARED`."""
    found: list[str] = []
    start = 0
    for end, line in enumerate(lines):
        if line == "}":
            found += _cut(lines[start : end + 1], registers - SPARE)
            start = end + 1
    return found


def _cut(text: Sequence[str], registers: int) -> list[str]:
    if len(text) < LONG / 2:
        return list(text)
    lines = sunk(read(text[1:]))
    pieces = list(_pieces(lines))
    return _Cut(text[0], lines, pieces, registers).text() if pieces else list(text)


def _pieces(lines: Sequence[Line]) -> Iterator[tuple[int, int]]:
    """Where pieces begin and end, in blocks that are long."""
    last = {value: k for k, line in enumerate(lines) for value in line.uses}
    start = 0
    for k, line in enumerate(lines):
        if line.bounds or "alloca" in line.text:
            if k - start > LONG / 2:
                yield from _even(lines, last, start, k)
            start = k + 1


def _even(lines: Sequence[Line], last: dict[str, int], start: int, end: int) -> Iterator[tuple[int, int]]:
    """About even pieces, cut where few of the values made between cross."""
    change = [0] * (end - start + 2)
    for k in range(start, end):
        if lines[k].name and not lines[k].again:
            change[k - start + 1] += 1
            change[min(max(last.get(lines[k].name, k), k), end) - start + 1] -= 1
    crossing = list(accumulate(change))
    count = max(1, round((end - start) / LONG))
    size, before = (end - start) / count, start
    for n in range(1, count):
        middle = start + round(n * size)
        near = range(middle - round(size / 5), middle + round(size / 5))
        cut = min(near, key=lambda k: (crossing[k - start], abs(k - middle)))
        yield before, cut
        before = cut
    yield before, end


class _Cut:
    """A function in pieces: which line is in which, where values are used, and where in the frame they are."""

    def __init__(self, head: str, lines: list[Line], pieces: list[tuple[int, int]], registers: int):
        self.head, self.lines, self.pieces, self.registers = head, lines, pieces, registers
        self.made = {line.name: k for k, line in enumerate(lines) if line.name}
        self.line_of = {line.name: line for line in lines if line.name}
        self.place = [-1] * len(lines)  # the piece of each line
        for number, (start, end) in enumerate(pieces):
            self.place[start:end] = [number] * (end - start)
        self.for_phis: dict[str, list[tuple[str, str]]] = {}  # by block, values that phis take from it, and the phis
        for line in lines:
            for value, block in _WAY.findall(line.text) if line.is_phi else ():
                self.for_phis.setdefault(block, []).append((value, line.name))
        self.ends: dict[str, int] = {}  # where each block ends
        self.used = self._used()
        self.until = self._until()
        self.joined = self._joined()
        self.frame = _Frame()

    def _used(self) -> dict[str, list[int]]:
        """The lines that use each value, in order; a phi uses one where the block ends that it comes from."""
        used: dict[str, list[int]] = {}
        block = ""
        for k, line in enumerate(self.lines):
            if line.bounds and line.text.endswith(":"):
                block = line.text[:-1]
            for value in () if line.is_phi else line.uses:
                self._use(used, value, k)
            if line.text.startswith("br "):
                self.ends[block] = k
                for value, _ in self.for_phis.get(block, ()):
                    self._use(used, value, k)
        return used

    def _use(self, used: dict[str, list[int]], value: str, k: int) -> None:
        made = self.made.get(value)
        if made is None:
            return
        used.setdefault(value, []).append(k)
        if self.lines[made].again and self.place[made] != self.place[k]:
            for needed in self.lines[made].uses:
                self._use(used, needed, k)

    def _until(self) -> dict[str, int]:
        """When each value is used last; what a loop uses and does not make is kept until the loop's end."""
        labels = {line.text[:-1]: k for k, line in enumerate(self.lines) if line.text.endswith(":")}
        loops = []
        for k, line in enumerate(self.lines):
            if line.text.startswith("br "):
                heads = [labels[name] for name in re.findall(r"label %(\w+)", line.text)]
                loops += [(head, k) for head in heads if head <= k]
        until = {value: uses[-1] for value, uses in self.used.items()}
        for head, end in sorted(loops, reverse=True):
            until |= {value: end for value, k in until.items() if self.made[value] < head <= k <= end}
        return until

    def _joined(self) -> dict[str, str]:
        """Phis after a branch that are read from memory, each with the value of a piece whose place there it takes."""
        found: dict[str, str] = {}
        for k, line in enumerate(self.lines):
            if not line.is_phi or not self.elsewhere(line.name, -1):
                continue
            ends = [self.ends[block] for _, block in _WAY.findall(line.text)]
            if max(ends) > k:  # carried round a loop
                continue
            for value in dict.fromkeys(line.uses):
                made = self.made[value]
                its_own = self.until[value] < k and value not in found.values() and not self.lines[made].again
                if self.place[made] >= 0 and its_own and made < min(ends):  # the others overwrite it
                    found[line.name] = value
                    self.until[value] = k
                    break
        return found

    def elsewhere(self, value: str, place: int) -> bool:
        """Whether a value is used in another piece."""
        return any(self.place[k] != place for k in self.used.get(value, ()))

    def text(self) -> list[str]:
        """All functions."""
        head = re.fullmatch(r"define internal void @(\w+)\((.*)\) \{", self.head)
        assert head is not None, self.head
        name, parameters = head[1], f"{head[2]},ptr %room,ptr noalias %kept"
        given = parameters.replace(" noalias", "")
        calls = {start: f"call void @{name}_{number}({given})" for number, (start, _) in enumerate(self.pieces)}
        rest, pieces = _Rest(self), [_Piece(self, number) for number in range(len(self.pieces))]
        dropped: dict[int, list[str]] = {}
        for value, k in self.until.items():
            dropped.setdefault(k, []).append(value)
        for k, line in enumerate(self.lines):
            if k in calls:
                rest.add(Line(calls[k]), k)
            (rest if self.place[k] < 0 else pieces[self.place[k]]).add(line, k)
            for value in dropped.get(k, ()):
                self.frame.drop(value)
        found: list[str] = []
        for number, piece in enumerate(pieces):
            found += [f"define internal void @{name}_{number}({parameters}) noinline {{", *piece.lines, "ret void", "}"]
        entry, *lines = rest.finished()
        return [*found, self.head, entry, f"%kept=alloca i8,i64 {max(self.frame.size, 1)},align 64", *lines]


class _Frame:
    """Room for values in memory; what one leaves another takes."""

    def __init__(self):
        self.size = 0
        self._places: dict[str, tuple[int, int]] = {}  # where each value is, and its size
        self._free: dict[int, list[int]] = {}

    def __contains__(self, value: str) -> bool:
        return value in self._places

    def put(self, value: str, kind: str) -> None:
        room = bytes_of(kind)
        if not self._free.get(room):
            start = -(-self.size // room) * room
            self._free[room], self.size = [start], start + room
        self._places[value] = self._free[room].pop(), room

    def drop(self, value: str) -> None:
        if value in self._places:
            start, room = self._places.pop(value)
            self._free.setdefault(room, []).append(start)

    def hand_on(self, value: str, to: str) -> None:
        self._places[to] = self._places.pop(value)

    def at(self, value: str) -> tuple[int, int]:
        return self._places[value]


class _Writer:
    """Lines of one function, which reads values of others from the frame and writes those for others to it."""

    def __init__(self, cut: _Cut):
        self.cut = cut
        self.lines: list[str] = []
        self.base = "%kept"

    def let(self, expression: str) -> str:
        name = f"%r{len(self.lines)}"
        self.lines.append(f"{name}={expression}")
        return name

    def store(self, value: str, name: str) -> None:
        """Write a value, which has this name here."""
        kind = self.cut.line_of[value].kind
        if value not in self.cut.frame:
            self.cut.frame.put(value, kind)
        self.lines.append(f"store {kind} {name},ptr {self._slot(value)}")

    def load(self, value: str) -> str:
        """Read a value."""
        return self.let(f"load {self.cut.line_of[value].kind},ptr {self._slot(value)}")

    def _slot(self, value: str) -> str:
        start, room = self.cut.frame.at(value)
        return f"{self.let(f'getelementptr i8,ptr {self.base},i64 {start}')},align {min(room, 64)}"

    def again(self, line: Line) -> str:
        """Find a value again that need not be kept."""
        return self.let(VALUE.sub(lambda found: self.name(found[0]), line.expression))

    def name(self, value: str) -> str:
        """What a value is called here."""
        raise NotImplementedError


class _Rest(_Writer):
    """What is left of the function, which calls the pieces."""

    def __init__(self, cut: _Cut):
        super().__init__(cut)
        self._names: dict[str, str] = {}  # of values from pieces, in this block
        self._block = ""
        self._for_phis: dict[tuple[str, str], str] = {}  # by block and value, its name there
        self._phis: list[str] = []  # whose values are still to be written

    def add(self, line: Line, k: int) -> None:
        """A line that belongs here."""
        if line.text.endswith(":"):
            self._block, self._names = line.text[:-1], {}
        if self._phis and not line.is_phi:
            phis, self._phis = self._phis, []
            for phi in phis:
                self.store(phi, phi)
        if line.name in self.cut.joined:
            self.cut.frame.hand_on(self.cut.joined[line.name], line.name)
            return
        if line.text.startswith("br "):
            self._end(self._block)
        self.lines.append(line.text if line.is_phi else VALUE.sub(lambda found: self.name(found[0]), line.text))
        if line.name and not line.again and self.cut.elsewhere(line.name, -1):
            if line.is_phi:
                self._phis.append(line.name)
            else:
                self.store(line.name, line.name)

    def _end(self, block: str) -> None:
        """Get ready what phis take from a block."""
        for value, phi in self.cut.for_phis.get(block, ()):
            if self.cut.joined.get(phi) != value:
                name = self._for_phis[block, value] = self.name(value)
                if phi in self.cut.joined:
                    self.store(self.cut.joined[phi], name)

    def name(self, value: str) -> str:
        made = self.cut.made.get(value)
        if made is None or self.cut.place[made] < 0 and value not in self.cut.joined:
            return value
        if value not in self._names:
            line = self.cut.lines[made]
            self._names[value] = self.again(line) if line.again else self.load(value)
        return self._names[value]

    def finished(self) -> list[str]:
        """All lines, once it is known what phis take from each block."""

        def named(found: re.Match) -> str:
            return f"[{self._for_phis.get((found[2], found[1]), found[1])},%{found[2]}]"

        return [_WAY.sub(named, line) if "=phi " in line else line for line in self.lines]


class _Piece(_Writer):
    """A piece, with no more values in registers than there are."""

    def __init__(self, cut: _Cut, number: int):
        super().__init__(cut)
        self._number, self._end = number, cut.pieces[number][1]
        self._scalar = all(line.kind[:1] != "<" for line in cut.lines)
        self._fenced = 0
        self._held: dict[str, str] = {}  # the names of values in registers
        self._due: dict[str, int] = {}  # and the lines where they are used next
        self._names: dict[str, str] = {}  # of others: addresses, truths
        self._read: set[str] = set()  # what was read by the present base

    def add(self, line: Line, k: int) -> None:
        """A line that belongs here; what can be found again is, when it is used."""
        if line.again:
            return
        values = dict.fromkeys(line.uses)
        for value in values:
            if value not in self._held and self._takes_register(value):
                self._make_room(k, values)
                self._held[value] = self._found(value)
        self.lines.append(
            VALUE.sub(lambda found: found[0] if found[0] == line.name else self.name(found[0]), line.text)
        )
        if len(self.lines) > self._fenced + FENCE and "=fmul" not in line.text:  # a product stays with its sum
            self._fenced = len(self.lines)
            self.lines.append(_FENCE)
        for value in values:
            if value in self._held:
                self._hold(value, self._held[value], k)
        if line.name in self.cut.used:
            self._keep(line, k)

    def _keep(self, line: Line, k: int) -> None:
        """The value of a line that was just made."""
        if line.is_real:
            self._make_room(k, ())
            self._hold(line.name, line.name, k)
        else:
            self._names[line.name] = line.name
            if self.cut.elsewhere(line.name, self._number):
                self.store(line.name, line.name)

    def _takes_register(self, value: str) -> bool:
        """Numbers do; where there are vectors, one number is only on its way to all lanes."""
        line = self.cut.line_of.get(value)
        return line is not None and line.is_real and (line.kind[0] == "<" or self._scalar)

    def _hold(self, value: str, name: str, k: int) -> None:
        """Hold a value until its next use here after line k, if there is any."""
        self._held[value] = name
        uses = self.cut.used[value]
        following = bisect_right(uses, k)
        if following < len(uses) and uses[following] < self._end:
            self._due[value] = uses[following]
        else:
            self._leave(value, k)

    def _make_room(self, k: int, needed: Sequence[str] | dict[str, None]) -> None:
        """Let the value go whose next use is farthest, if there is no register left."""
        if len(self._held) < self.cut.registers:
            return

        def far(value: str) -> float:
            return (self._due[value] - k) * (CLEAN if self._is_clean(value) else 1.0)

        self._leave(max((value for value in self._held if value not in needed), key=far), k)

    def _is_clean(self, value: str) -> bool:
        return value in self.cut.frame or self.cut.line_of[value].again

    def _leave(self, value: str, k: int) -> None:
        """Take a value out of its register, written to memory if it is used later."""
        name = self._held.pop(value)
        if self.cut.until[value] > k and not self._is_clean(value):
            self.store(value, name)

    def _found(self, value: str) -> str:
        """A value read or found again, by another pointer than before: else LLVM would keep what was read then."""
        line = self.cut.line_of[value]
        if value in self._read:
            self._read.clear()
            self._names = {v: name for v, name in self._names.items() if "asm" not in self.cut.line_of[v].text}
            self.base = self.let('call ptr asm "","=r,0"(ptr %kept)')
        self._read.add(value)
        return self.again(line) if line.again else self.load(value)

    def name(self, value: str) -> str:
        line = self.cut.line_of.get(value)
        if line is None:
            return value
        if value in self._held:
            return self._held[value]
        if line.again and line.kind not in ("ptr", "i64"):
            return self.again(line)
        if value not in self._names:
            self._names[value] = self.again(line) if line.again else self.load(value)
        return self._names[value]
