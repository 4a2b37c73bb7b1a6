"""Values of a program as variables in CUDA C, and the assignments that make them: what every part of a kernel has."""

from collections.abc import Iterator, Sequence

from diffnea.kernels.cuda.operations import FAR, REAL, TRUTH, literal
from diffnea.kernels.cuda.schedule import missing, together
from diffnea.kernels.ir.layout import Plan
from diffnea.kernels.ir.program import LEAVES


class Values:
    """Operations of a program written as assignments, each value under a name that begins with `prefix`."""

    def __init__(self, plan: Plan, dtype: str, lines: list[str], varying: bool, prefix: str = "v"):
        self.plan, self.dtype, self.varying, self.prefix = plan, dtype, varying, prefix
        self.lines: list[str] = lines
        self.ready: set[int] = set()
        self.computed: set[int] = set()
        self.turned: set[int] = set()
        self.near: dict[int, str] = {}  # angles without whole turns
        self.groups: dict[int, list[int]] = {}  # angles whose size is tested at once
        self.loops: dict[int, list[str]] = {}
        self.keeps = False  # shared values in registers, all through a loop
        self.read: dict[int, tuple[int, str]] = {}  # groups of shared values: where they were read, under which name

    def leaf(self, i: int) -> None:
        """Read what is given, where it is first used."""
        raise NotImplementedError

    def shared(self, value: int) -> str:
        """A value that the prologue computed."""
        raise NotImplementedError

    def loop(self, i: int) -> list[str]:
        """Run a loop; the names of the numbers carried out of it."""
        raise NotImplementedError

    def value(self, i: int) -> str:
        operation, *operands = self.plan.program.instructions[i]
        if operation == "constant":
            return literal(operands[0], self.dtype)
        if self.plan.varies[i] != self.varying:
            return self.shared(i)
        if operation in LEAVES and i not in self.ready:
            self.leaf(i)
            self.ready.add(i)
        return f"{self.prefix}{i}"

    def assign(self, i: int, text: str) -> None:
        """Give a value its name."""
        self.lines.append(f"const {'bool' if self.plan.is_truth[i] else 'real'} {self.prefix}{i}={text};")

    def compute_each(self, order: Sequence[int]) -> Iterator[int]:
        """Compute values in this order; of angles that are near each other in it the size is tested at once."""
        if self.dtype in FAR:
            self.groups = together(self.plan, order)
        for i in order:
            self.compute(i)
            yield i

    def compute(self, i: int) -> None:
        """Compute a value, if that is not done."""
        if i in self.computed:
            return
        self.computed.add(i)
        operation, *operands = self.plan.program.instructions[i]
        if operation == "loop":
            self.loops[i] = self.loop(i)
        elif operation == "result":
            self.assign(i, self.loops[operands[0]][operands[1]])
        elif operation in ("sin", "cos"):
            self._turn(i, operation, operands[0])
        elif operation == "div" and self.plan.program.instructions[operands[0]] == ("constant", 1.0):
            self.assign(i, f"reciprocal({self.value(operands[1])})")
        else:
            values = [self.value(operand) for operand in operands]
            self.assign(i, (TRUTH if self.plan.is_truth[i] else REAL)[operation].format(*values))

    def _turn(self, i: int, operation: str, angle: int) -> None:
        """Both of an angle: what is not used, the compiler leaves out."""
        if angle not in self.turned:
            self.turned.add(angle)
            if self.dtype in FAR and angle not in self.near:
                self._bring_near(self.groups.get(angle, [angle]))
            sine, cosine = f"{self.prefix}s{angle}", f"{self.prefix}c{angle}"
            name = self.near.get(angle) or self.value(angle)
            self.lines.append(f"real {sine},{cosine};turn({name},&{sine},&{cosine});")
        self.assign(i, f"{self.prefix}{operation[0]}{angle}")

    def _bring_near(self, angles: Sequence[int]) -> None:
        """Angles without whole turns, if one of them is large."""
        for angle in angles:
            for value in missing(self.plan, angle, self.computed):
                self.compute(value)
            self.near[angle] = f"{self.prefix}n{angle}"
            value = self.value(angle)
            self.lines.append(f"real {self.near[angle]}={value};")
        names = [self.near[angle] for angle in angles]
        small = "&".join(f"(fabs({name})<{FAR[self.dtype]})" for name in names)
        self.lines.append(f"if(!({small})){{{''.join(f'{name}=near({name});' for name in names)}}}")
