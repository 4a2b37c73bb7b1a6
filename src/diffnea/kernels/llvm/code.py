"""LLVM assembly, line by line: the few instructions that vector arithmetic is made of, on scalars or on vectors."""

import hashlib
import struct
from itertools import count

# Products and sums may be contracted to fused ones (a rounding fewer). No other liberty of "fast" arithmetic is taken:
# with `nnan` and `ninf` NaN and infinity would vanish instead of passing through, with `nsz` signs that `atan2` and 1/x
# see would be lost, with `reassoc`, `arcp` and `afn` results would depend on what the compiler finds.
FLAGS = "contract "
RARELY = '!0=!{!"branch_weights",i32 1,i32 1000000}'


class Code:
    """The lines of one function over reals of one width, `lanes` of them at a time (1: plain scalars).

    Values are names in the assembly or literals, both as text.
    """

    def __init__(self, bits: int, lanes: int, fused: bool):
        self.bits, self.lanes, self.fused = bits, lanes, fused
        self.scalar = {64: "double", 32: "float"}[bits]
        self.real, self.integer, self.truth = (self.of(kind) for kind in (self.scalar, f"i{bits}", "i1"))
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self._names = count()

    def of(self, kind: str) -> str:
        """The type that holds one such element a lane."""
        return kind if self.lanes == 1 else f"<{self.lanes} x {kind}>"

    def in_double(self) -> "Code":
        """The same function, continued in double precision."""
        wide = Code(64, self.lanes, self.fused)
        wide.lines, wide.declarations, wide._names = self.lines, self.declarations, self._names
        return wide

    def let(self, expression: str) -> str:
        """Name an expression's value."""
        name = f"%v{next(self._names)}"
        self.lines.append(f"{name}={expression}")
        return name

    def label(self, name: str) -> None:
        """Begin a block."""
        self.lines.append(f"{name}:")

    def jump(self, to: str) -> None:
        """End a block."""
        self.lines.append(f"br label %{to}")

    def branch(self, truth: str, rarely: str, mostly: str) -> None:
        """End a block where one way is rare, and its code out of the way; the module must contain `RARELY`."""
        self.lines.append(f"br i1 {truth},label %{rarely},label %{mostly},!prof !0")

    def phi(self, *ways: tuple[str, str]) -> str:
        """A value by the block one came from."""
        return self.let(f"phi {self.real} " + ",".join(f"[{value},%{block}]" for value, block in ways))

    # Literals ---------------------------------------------------------------------------------------------------------

    def number(self, value: float) -> str:
        """A real literal in every lane."""
        return self._literal(self.scalar, self._bits(value))

    def _bits(self, value: float) -> str:
        return "0x" + struct.pack(">d", _single(value) if self.bits == 32 else value).hex().upper()

    def whole(self, value: int) -> str:
        """An integer literal in every lane."""
        return self._literal(f"i{self.bits}", str(value))

    def bool(self, value: bool) -> str:
        """A truth literal in every lane."""
        return self._literal("i1", "true" if value else "false")

    def _literal(self, kind: str, text: str) -> str:
        return text if self.lanes == 1 else f"splat ({kind} {text})"

    def table(self, numbers: list[float]) -> str:
        """Known numbers in memory; where they are."""
        literals = [f"{self.scalar} {self._bits(number)}" for number in numbers]
        text = f"internal constant [{len(numbers)} x {self.scalar}] [{','.join(literals)}]"
        name = f"@table_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        self.declarations.add(f"{name}={text}")
        return name

    # Arithmetic on reals ----------------------------------------------------------------------------------------------

    def add(self, a: str, b: str) -> str:
        return self.let(f"fadd {FLAGS}{self.real} {a},{b}")

    def sub(self, a: str, b: str) -> str:
        return self.let(f"fsub {FLAGS}{self.real} {a},{b}")

    def mul(self, a: str, b: str) -> str:
        return self.let(f"fmul {FLAGS}{self.real} {a},{b}")

    def exactly(self, operation: str, a: str, b: str) -> str:
        """An operation that keeps its own rounding: what rounds here is subtracted later."""
        return self.let(f"{operation} {self.real} {a},{b}")

    def div(self, a: str, b: str) -> str:
        return self.let(f"fdiv {self.real} {a},{b}")

    def neg(self, a: str) -> str:
        return self.let(f"fneg {self.real} {a}")

    def fma(self, a: str, b: str, c: str) -> str:
        """`a·b + c` rounded once."""
        return self.call("fma", a, b, c)

    def polynomial(self, x: str, coefficients: tuple[float, ...]) -> str:
        """Coefficients from the constant term upwards, by Horner's rule."""
        *rest, value = (self.number(coefficient) for coefficient in coefficients)
        for coefficient in reversed(rest):
            value = self.add(self.mul(value, x), coefficient)
        return value

    def call(self, intrinsic: str, *operands: str) -> str:
        """An LLVM intrinsic from reals to a real."""
        name = f"@llvm.{intrinsic}.{'' if self.lanes == 1 else f'v{self.lanes}'}f{self.bits}"
        self.declarations.add(f"declare {self.real} {name}({','.join([self.real] * len(operands))})")
        return self.let(f"call {self.real} {name}({','.join(f'{self.real} {operand}' for operand in operands)})")

    # Truth ------------------------------------------------------------------------------------------------------------

    def compare(self, relation: str, a: str, b: str) -> str:
        """`olt`, `une`, …: o is false where a number is NaN, u is true there."""
        return self.let(f"fcmp {relation} {self.real} {a},{b}")

    def select(self, truth: str, a: str, b: str) -> str:
        return self.let(f"select {self.truth} {truth},{self.real} {a},{self.real} {b}")

    def logic(self, operation: str, a: str, b: str) -> str:
        return self.let(f"{operation} {self.truth} {a},{b}")

    def not_everywhere(self, truth: str) -> str:
        """Is it false in some lane? (one bit)"""
        if self.lanes == 1:
            return self.let(f"xor i1 {truth},true")
        bits = self.let(f"bitcast {self.truth} {truth} to i{self.lanes}")
        return self.let(f"icmp ne i{self.lanes} {bits},-1")

    # Bits of reals ----------------------------------------------------------------------------------------------------

    def bits_of(self, a: str) -> str:
        return self.let(f"bitcast {self.real} {a} to {self.integer}")

    def real_of(self, bits: str) -> str:
        return self.let(f"bitcast {self.integer} {bits} to {self.real}")

    def on_bits(self, operation: str, a: str, b: str) -> str:
        """`and`, `shl`, `add`, … on integers."""
        return self.let(f"{operation} {self.integer} {a},{b}")

    # Memory -----------------------------------------------------------------------------------------------------------

    def at(self, pointer: str, index: int | str, kind: str = "") -> str:
        """The address of an element."""
        return pointer if index == 0 else self.let(f"getelementptr {kind or self.scalar},ptr {pointer},i64 {index}")

    def load(self, pointer: str, kind: str = "") -> str:
        """A vector from memory, aligned as one element is."""
        return self.let(f"load {kind or self.real},ptr {pointer},align {self.bits // 8}")

    def store(self, value: str, pointer: str, kind: str = "") -> None:
        """A vector to memory, aligned as one element is."""
        self.lines.append(f"store {kind or self.real} {value},ptr {pointer},align {self.bits // 8}")

    def broadcast(self, pointer: str) -> str:
        """One number from memory, in every lane."""
        number = self.load(pointer, self.scalar)
        if self.lanes == 1:
            return number
        first = self.let(f"insertelement {self.real} poison,{self.scalar} {number},i64 0")
        return self.let(f"shufflevector {self.real} {first},{self.real} poison,<{self.lanes} x i32> zeroinitializer")


def _single(value: float) -> float:
    """The nearest single-precision number; too large ones become infinite, as in a cast."""
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
