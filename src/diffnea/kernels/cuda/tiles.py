"""Rows of samples by way of shared memory: a block moves its samples' rows together, so that memory is read in order.

A thread that reads its own row touches a line of memory of its own with every number. Here neighbouring threads read
neighbouring numbers; each thread then finds its row in shared memory, in a bank of its own, and need not keep it. Where
a row is one of angles, their sines and cosines are computed on the way, in a loop: long programs must be short as code,
or their instructions do not fit in the cache.
"""

from collections.abc import Sequence

from diffnea.kernels.cuda.operations import FAR
from diffnea.kernels.ir.layout import Plan
from diffnea.kernels.ir.program import operands

# Rows this long are moved together, if a block's fit in this many bytes: then two blocks share a multiprocessor.
LONG_ROW = 16
MOST_BYTES = 100_000
AHEAD = 8  # numbers a thread asks for before it waits


class Tiles:
    """Which arrays go through shared memory: a row a thread, from `start` on, in numbers."""

    def __init__(self, plan: Plan, start: int, threads: int, dtype: str, number_bytes: int):
        self.start, self.threads, self.dtype, self._plan = start, threads, dtype, plan
        self.count = len(plan.arguments)
        self.arrays = [*plan.arguments, *plan.outputs]
        self.columns: dict[tuple[str, int], int] = {}  # of an array as it is, or of its sines and cosines
        self.width = 0
        self._widest = 16 // number_bytes
        self._most = MOST_BYTES // (threads * number_bytes) - 1
        if not any(instruction[0] == "loop" for instruction in plan.program.instructions):
            self._choose()
        self.stride = self.width | 1  # odd, so that threads side by side meet different banks
        self.size = -(-threads * self.stride // 4) * 4 if self.width else 0

    def _choose(self) -> None:
        turned, plain = self._uses()
        for k, array in enumerate(self.arrays):
            if not array.has_samples or array.samples_last or array.size < LONG_ROW:
                continue
            angles = k < self.count and 2 * len(turned.get(k, ())) > array.size
            wanted = ["sin", "cos"] * angles + ["value"] * (k >= self.count or bool(plain.get(k)))
            if self.width + len(wanted) * array.size <= self._most:
                for what in wanted:
                    self.columns[what, k] = self.width
                    self.width += array.size

    def _uses(self) -> tuple[dict[int, set[int]], dict[int, set[int]]]:
        """Of each argument, the elements used as angles, and those used otherwise."""
        turned: dict[int, set[int]] = {}
        plain: dict[int, set[int]] = {}
        instructions = self._plan.program.instructions
        for name, *used in instructions:
            for value in operands((name, *used)):
                if instructions[value][0] == "input":
                    _, argument, element = instructions[value]
                    angle = name in ("sin", "cos") and self.dtype in FAR
                    (turned if angle else plain).setdefault(argument, set()).add(element)
        for output in self._plan.program.outputs:
            for value in output:
                if value >= 0 and instructions[value][0] == "input":
                    plain.setdefault(instructions[value][1], set()).add(instructions[value][2])
        return turned, plain

    def column(self, value: int) -> int | None:
        """Where in a row a value is found that need not be computed."""
        name, *used = self._plan.program.instructions[value]
        if name in ("sin", "cos"):
            angle = self._plan.program.instructions[used[0]]
            place = self.columns.get((name, angle[1])) if angle[0] == "input" else None
            return None if place is None else place + angle[2]
        place = self.columns.get(("value", used[0])) if name == "input" else None
        return None if place is None else place + used[1]

    def result(self, k: int, element: int) -> int | None:
        """Where in a row an element of the k-th output is left."""
        place = self.columns.get(("value", self.count + k))
        return None if place is None else place + element

    def load(self, names: Sequence[str]) -> list[str]:
        """Before the block's samples are computed: their rows of all arguments, in; nobody needs the last ones now.

        A thread computes sines and cosines of the angles that it moved itself.
        """
        moved, turned = [], []
        for k in dict.fromkeys(k for _, k in self.columns if k < self.count):
            column = min(column for (_, other), column in self.columns.items() if other == k)
            moved += self._each(
                k, f"const auto x=*(const wide{{0}}*)({names[k]}+from);", f"memory[to+{column}+{{0}}]={{1}};"
            )
            if ("sin", k) in self.columns:
                turned += self._each(k, "", f"{{{{{self._turn(k, column)}}}}}", ahead=1)
        return ["__syncthreads();", *moved, *turned, "__syncthreads();"] if self.width else []

    def _turn(self, k: int, column: int) -> str:
        """Sine and cosine of an angle, left in their columns."""
        text = f"real s,c,y=memory[to+{column}+{{0}}];"
        if ("value", k) in self.columns:
            text += f"memory[to+{self.columns['value', k]}+{{0}}]=y;"
        text += f"if(!(fabs(y)<{FAR[self.dtype]}))y=near(y);turn(y,&s,&c);"
        return text + "".join(f"memory[to+{self.columns[name, k]}+{{0}}]={name[0]};" for name in ("sin", "cos"))

    def store(self, names: Sequence[str]) -> list[str]:
        """After they are computed: their rows of all results, out."""
        lines = []
        for (_, k), column in self.columns.items():
            if k >= self.count:
                read = "wide{0} x;"
                lines += self._each(k, read, f"{{1}}=memory[to+{column}+{{0}}];", f"*(wide{{0}}*)({names[k]}+from)=x;")
        return ["__syncthreads();", *lines] if lines else []

    def _each(self, k: int, before: str, each: str, after: str = "", ahead: int = AHEAD) -> list[str]:
        """Something for each number of the block's rows, at `from` of the array and `to` of the rows, some at once."""
        size, threads, width = self.arrays[k].size, self.threads, self._widest
        while size % width:
            width //= 2
        numbers = [each.format(j, "x" if width == 1 else f"x.{'xyzw'[j]}") for j in range(width)]
        text = before.format(width) + "".join(numbers) + after.format(width)
        if threads * width % size:
            to = f"k/{size}*{self.stride}+k%{size}"
        else:  # without a division at each number
            own = f"threadIdx.x*{width}"
            to = f"j*{threads * width // size * self.stride}+(int)({own}/{size}*{self.stride}+{own}%{size})"
        # Signed, so that places are known not to wrap: then one address serves a thread's numbers, else it keeps each.
        places = f"const int k=(j*{threads}+(int)threadIdx.x)*{width},to={self.start}+{to};"
        places += f"const long long from=first*{size}+k;"
        loop = f"for(int j=0;j<{size // width};++j)"
        return [
            f"if(first+{threads}<=samples){{",
            f"#pragma unroll {ahead}",
            f"{loop}{{{places}{text}}}",
            "}else{",
            "#pragma unroll 1",
            f"{loop}{{{places}if(from<samples*{size}){{{text}}}}}",
            "}",
        ]
