"""Values of a program as variables in CUDA C, and the assignments that make them: what every part of a kernel has."""

from diffnea.kernels.cuda_operations import REAL, TRUTH, literal
from diffnea.kernels.plan import Plan
from diffnea.kernels.program import LEAVES


class Values:
    """Operations of a program written as assignments, each value under a name that begins with `prefix`."""

    def __init__(self, plan: Plan, dtype: str, lines: list[str], varying: bool, prefix: str = "v"):
        self.plan, self.dtype, self.varying, self.prefix = plan, dtype, varying, prefix
        self.lines: list[str] = lines
        self.ready: set[int] = set()
        turns: dict[int, set[str]] = {}
        for operation, *operands in self.plan.program.instructions:
            if operation in ("sin", "cos"):
                turns.setdefault(operands[0], set()).add(operation)
        self.pairs = {angle for angle, both in turns.items() if len(both) == 2}
        self.turned: set[int] = set()
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

    def compute(self, i: int) -> None:
        operation, *operands = self.plan.program.instructions[i]
        if operation == "loop":
            self.loops[i] = self.loop(i)
        elif operation == "result":
            self.assign(i, self.loops[operands[0]][operands[1]])
        elif operation in ("sin", "cos"):
            self._turn(i, operation, operands[0])
        else:
            values = [self.value(operand) for operand in operands]
            self.assign(i, (TRUTH if self.plan.is_truth[i] else REAL)[operation].format(*values))

    def _turn(self, i: int, operation: str, angle: int) -> None:
        if angle not in self.pairs:
            self.assign(i, f"{operation}({self.value(angle)})")
            return
        sine, cosine = f"{self.prefix}s{angle}", f"{self.prefix}c{angle}"
        if angle not in self.turned:
            self.turned.add(angle)
            self.lines.append(f"real {sine},{cosine};turn({self.value(angle)},&{sine},&{cosine});")
        self.assign(i, sine if operation == "sin" else cosine)
