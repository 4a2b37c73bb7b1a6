"""Arrays in memory as a kernel meets them: elements of a block of as many samples as there are lanes."""

from collections.abc import Mapping, Sequence

from diffnea.kernels.ir.layout import Array, runs
from diffnea.kernels.llvm.code import Code
from diffnea.kernels.llvm.rows import load_rows, store_rows


class Memory:
    """The arrays that `%arrays` points to, at block `%block`; with samples last, elements are `%stride` apart.

    Everywhere, `moved` is by how many elements all places are to be moved on: a name in the assembly, or nothing.
    """

    def __init__(self, code: Code, arrays: Sequence[Array]):
        self._code, self._arrays = code, arrays
        self._pointers: list[str] = []

    def open(self) -> None:
        """Read where the arrays are, at the beginning of the function."""
        code = self._code
        count = range(len(self._arrays))
        self._pointers = [code.let(f"load ptr,ptr {code.at('%arrays', k, 'ptr')}") for k in count]

    def load(self, k: int, start: int, count: int, moved: str = "") -> list[str]:
        """So many elements of the k-th array from `start` on, each in the lanes of its samples."""
        code, array = self._code, self._arrays[k]
        if not array.has_samples:
            here = self._moved(self._pointers[k], moved)
            return [code.broadcast(code.at(here, start + j)) for j in range(count)]
        if array.samples_last:
            return [code.load(self._column(k, start + j, moved)) for j in range(count)]
        return load_rows(code, code.at(self._moved(self._here(k), moved), start), count, array.size)

    def fetch(self, k: int, start: int, moved: str) -> None:
        """Ask for what will be read there, row by row: processors do not foresee as many rows at once."""
        code, array = self._code, self._arrays[k]
        if not array.has_samples or array.samples_last:
            return
        code.declarations.add("declare void @llvm.prefetch.p0(ptr,i32,i32,i32)")
        here = code.at(self._moved(self._here(k), moved), start)
        for lane in range(code.lanes):
            code.lines.append(f"call void @llvm.prefetch.p0(ptr {code.at(here, lane * array.size)},i32 0,i32 2,i32 1)")

    def store(self, k: int, numbers: Mapping[int, str], moved: str = "") -> None:
        """Elements of the k-th array, by place."""
        code, array = self._code, self._arrays[k]
        if array.samples_last:
            for place, number in numbers.items():
                code.store(number, self._column(k, place, moved))
            return
        for start, count in runs(numbers):
            here = code.at(self._moved(self._here(k), moved), start)
            store_rows(code, here, [numbers[start + j] for j in range(count)], array.size)

    def _here(self, k: int) -> str:
        """Where the present block of the k-th array begins."""
        array = self._arrays[k]
        step = self._code.lanes * (1 if array.samples_last else array.size)
        return self._code.at(self._pointers[k], "%block", f"[{step} x {self._code.scalar}]")

    def _moved(self, pointer: str, moved: str) -> str:
        return self._code.at(pointer, moved) if moved else pointer

    def _column(self, k: int, element: int, moved: str) -> str:
        """Where an element's samples begin, if samples are the last axis."""
        code, here = self._code, self._here(k)
        if not moved and not element:
            return here
        place = code.let(f"add i64 {moved},{element}") if moved else str(element)
        return code.at(here, code.let(f"mul i64 %stride,{place}"))
