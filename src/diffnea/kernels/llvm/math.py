"""Elementary functions as straight-line vector code: sine and cosine, exp, log, tanh, atan2.

Each is an argument reduction and a polynomial (least squares on Chebyshev nodes in 80 digits, coefficients rounded one
after another). The largest errors found, against higher precision on a million arguments of each magnitude, in units of
the last place:

|          | float64 | float32 |                                                                          |
|----------|---------|---------|--------------------------------------------------------------------------|
| sin, cos | 1.6     | 2.4     | up to `largest_angle`; beyond, the C library is asked, lane by lane      |
| exp      | 1.0     | 1.0     | subnormal results, too                                                   |
| log      | 0.9     | 0.9     | subnormal arguments, too                                                 |
| tanh     | 2.6     | 2.4     |                                                                          |
| atan2    | 2.4     | 2.2     |                                                                          |

Without fused operations they are the same, but sine and cosine have 2.4 and 0.5. NaN gives NaN; infinities, zeros of
either sign, overflow and underflow give what IEEE 754 recommends. `pow` is the C library's.
"""

from typing import NamedTuple

from diffnea.kernels.llvm.code import Code

# sin r = r + r³ S(r²) and cos r = 1 − r²/2 + r⁴ C(r²) on |r| ≤ π/4; eʳ = 1 + r + r² E(r) on |r| ≤ ln 2 / 2;
# ln((1 + s)/(1 − s)) = 2 s + s³ L(s²) on |s| ≤ 0.172; atan t = t + t³ A(t²) on |t| ≤ tan π/8; all a little beyond.
SIN = {
    64: (-0.16666666666666627, 0.008333333333321136, -0.0001984126982877408, 2.755731332799228e-06,
         -2.5050700243724358e-08, 1.5893389759682302e-10),
    32: (-0.16666653752326965, 0.00833211001008749, -0.00019508562400005758),
}  # fmt: skip
COS = {
    64: (0.04166666666666658, -0.0013888888888871046, 2.480158728760802e-05, -2.7557313821589205e-07,
         2.087565228362853e-09, -1.1356021016513036e-11),
    32: (0.04166664183139801, -0.0013887149980291724, 2.4415836378466338e-05),
}  # fmt: skip
EXP = {
    64: (0.5, 0.16666666666666677, 0.04166666666666659, 0.008333333333321185, 0.0013888888888936488,
         0.0001984126988770844, 2.4801587212003427e-05, 2.7557242239921255e-06, 2.755737370888419e-07,
         2.5109835795190883e-08, 2.0883582120058337e-09),
    32: (0.5, 0.1666666567325592, 0.04166647046804428, 0.00833356287330389, 0.001393456943333149,
         0.00019748105842154473),
}  # fmt: skip
LOG = {
    64: (0.6666666666666737, 0.39999999999397584, 0.28571428745944705, 0.22222198220139872, 0.1818358241181809,
         0.15313589172699127, 0.14800586381041175),
    32: (0.6666678190231323, 0.3997698426246643, 0.2988486886024475),
}  # fmt: skip
ATAN = {
    64: (-0.33333333333333187, 0.1999999999995096, -0.14285714279953626, 0.11111110772053326, -0.09090897445367851,
         0.0769205487359531, -0.06663045280552879, 0.058474732198487304, -0.05037472995119596, 0.03801894620845699,
         -0.017858121102925218),
    32: (-0.3333331346511841, 0.1999838650226593, -0.14242146909236908, 0.10584612190723419, -0.0605676993727684),
}  # fmt: skip

# π/2 as a sum of three, each with all its bits, so that with fused operations x − k·π/2 loses nothing; all positive, so
# that −0 keeps its sign.
HALF_PI = {
    64: tuple(map(float.fromhex, ("0x1.921fb54442d18p+0", "0x1.1a62633145c06p-54", "0x1.c1cd129024e08p-107"))),
    32: tuple(map(float.fromhex, ("0x1.921fb4p+0", "0x1.4442dp-24", "0x1.846988p-48"))),
}
HALF_PI_SHORT = (  # the first two with 33 bits: times k < 2²⁰ they are exact without fused operations, too
    1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21,
)  # fmt: skip
LN2 = {64: (6.93147180369123816490e-01, 1.90821492927058770002e-10), 32: (0.693359375, -2.12194440e-04)}
MANTISSA = {64: 52, 32: 23}
BIAS = {64: 1023, 32: 127}


def largest_angle(bits: int, fused: bool) -> float:
    """Up to where `sincos` finds the nearest quarter turn, give or take some hundredths, and loses no digits."""
    if bits == 32:
        return 2.0**20
    return 2.0**40 if fused else 2.0**20


def _rounder(code: Code) -> str:
    """1.5·2^p: adding it rounds to a whole number, which then stands in the lowest bits."""
    return code.number(1.5 * 2.0 ** MANTISSA[code.bits])


class Turns(NamedTuple):
    """An angle as quarter turns, in the lowest bits of `quadrant`, and the rest within ±π/4."""

    quadrant: str
    rest: str


def _reduce_angle(code: Code, x: str) -> Turns:
    quarter, rounder = code.number(2 / 3.141592653589793), _rounder(code)
    shifted = code.exactly("fadd", code.exactly("fmul", x, quarter), rounder)
    k = code.neg(code.exactly("fsub", shifted, rounder))
    rest = x
    for part in HALF_PI[code.bits] if code.fused else HALF_PI_SHORT:
        if code.fused:
            rest = code.fma(k, code.number(part), rest)
        else:
            rest = code.exactly("fadd", rest, code.exactly("fmul", k, code.number(part)))
    return Turns(code.bits_of(shifted), rest)


def sincos(code: Code, x: str) -> tuple[str, str]:
    """Sine and cosine of |x| ≤ `largest_angle`; NaN and infinity give NaN."""
    if code.bits == 32 and not code.fused:
        return _sincos_in_double(code, x)
    quadrant, r = _reduce_angle(code, x)
    z = code.mul(r, r)
    sine = code.add(code.mul(code.mul(code.polynomial(z, SIN[code.bits]), z), r), r)
    sine = code.call("copysign", sine, r)  # −0 + 0 is 0, but sin −0 is −0
    cosine = code.polynomial(z, (1.0, -0.5, *COS[code.bits]))
    odd = code.let(f"trunc {code.integer} {quadrant} to {code.truth}")
    top = code.whole(-(2 ** (code.bits - 1)))
    second = code.on_bits("and", code.on_bits("shl", quadrant, code.whole(code.bits - 2)), top)
    first = code.on_bits("shl", quadrant, code.whole(code.bits - 1))
    signs = second, code.on_bits("xor", second, first)
    values = code.select(odd, cosine, sine), code.select(odd, sine, cosine)
    flipped = [code.on_bits("xor", code.bits_of(value), sign) for value, sign in zip(values, signs, strict=True)]
    return code.real_of(flipped[0]), code.real_of(flipped[1])


def _sincos_in_double(code: Code, x: str) -> tuple[str, str]:
    """Single-precision angles have no bits to spare for an exact reduction without fused operations: take double's."""
    wide = code.in_double()
    pair = sincos(wide, code.let(f"fpext {code.real} {x} to {wide.real}"))
    sine, cosine = (code.let(f"fptrunc {wide.real} {value} to {code.real}") for value in pair)
    return sine, cosine


def _power_of_two(code: Code, shifted: str) -> str:
    """2ᵏ from k + 1.5·2^p: its lowest bits, moved to where the exponent is."""
    mantissa = MANTISSA[code.bits]
    exponent = code.on_bits("shl", code.bits_of(shifted), code.whole(mantissa))
    return code.real_of(code.on_bits("add", exponent, code.whole(BIAS[code.bits] << mantissa)))


def _reduce_exponent(code: Code, x: str) -> tuple[str, str]:
    """`x = k ln 2 + r` with whole k and |r| ≤ ln 2 / 2: k + 1.5·2^p and r."""
    high, low = LN2[code.bits]
    rounder = _rounder(code)
    shifted = code.exactly("fadd", code.exactly("fmul", x, code.number(1.4426950408889634)), rounder)
    k = code.exactly("fsub", shifted, rounder)
    r = code.exactly("fsub", x, code.exactly("fmul", k, code.number(high)))  # exact: `high` ends in zeros
    return shifted, code.sub(r, code.mul(k, code.number(low)))


def exp(code: Code, x: str) -> str:
    """The exponential; beyond the range it is scaled twice so that it overflows and underflows as it should."""
    top, bottom = {64: (710.0, -746.0), 32: (89.0, -104.0)}[code.bits]
    x = code.select(code.compare("ogt", x, code.number(top)), code.number(top), x)
    x = code.select(code.compare("olt", x, code.number(bottom)), code.number(bottom), x)
    shifted, r = _reduce_exponent(code, x)
    rounder = _rounder(code)
    k = code.exactly("fsub", shifted, rounder)
    half_shifted = code.exactly("fadd", code.exactly("fmul", k, code.number(0.5)), rounder)
    rest = code.exactly("fsub", k, code.exactly("fsub", half_shifted, rounder))
    powers = [_power_of_two(code, s) for s in (half_shifted, code.exactly("fadd", rest, rounder))]
    square = code.mul(code.mul(r, r), code.polynomial(r, EXP[code.bits]))
    value = code.add(code.number(1.0), code.add(r, square))
    return code.exactly("fmul", code.exactly("fmul", value, powers[0]), powers[1])


def tanh(code: Code, x: str) -> str:
    """`t / (t + 2)` with `t = exp(2|x|) − 1`, exact for small x; it is 1 from 22 on (float32: 10)."""
    size = code.call("fabs", x)
    limit = code.number({64: 22.0, 32: 10.0}[code.bits])
    size = code.select(code.compare("ogt", size, limit), limit, size)
    shifted, r = _reduce_exponent(code, code.exactly("fmul", size, code.number(2.0)))
    power = _power_of_two(code, shifted)
    square = code.mul(code.mul(r, r), code.polynomial(r, EXP[code.bits]))
    rest = code.exactly("fsub", power, code.number(1.0))
    t = code.add(code.mul(power, code.add(r, square)), rest)
    return code.call("copysign", code.div(t, code.exactly("fadd", t, code.number(2.0))), x)


def log(code: Code, x: str) -> str:
    """`x = 2ᵉ m` with m in [√½, √2), `f = m − 1`, `s = f / (2 + f)`: `e ln 2 + f − (f²/2 − s (f²/2 + s² L(s²)))`."""
    bits, mantissa = code.bits, MANTISSA[code.bits]
    tiny = code.compare("olt", x, code.number(2.0 ** (1 - BIAS[bits])))  # subnormal: its exponent is not in its bits
    scaled = code.select(tiny, code.exactly("fmul", x, code.number(2.0 ** (mantissa + 2))), x)
    half_root = {64: 0x3FE6A09E00000000, 32: 0x3F3504F3}[bits]
    moved = code.on_bits("add", code.bits_of(scaled), code.whole((BIAS[bits] << mantissa) - half_root))
    # The exponent as a real without a conversion, which AVX2 lacks: as the lowest bits of 2^p.
    carrier = (BIAS[bits] + mantissa) << mantissa
    whole = code.on_bits("or", code.on_bits("lshr", moved, code.whole(mantissa)), code.whole(carrier))
    offset = code.select(tiny, code.number(BIAS[bits] + mantissa + 2.0), code.number(float(BIAS[bits])))
    e = code.exactly("fsub", code.exactly("fsub", code.real_of(whole), code.number(2.0**mantissa)), offset)
    kept = code.on_bits("and", moved, code.whole(2**mantissa - 1))
    f = code.exactly("fsub", code.real_of(code.on_bits("add", kept, code.whole(half_root))), code.number(1.0))
    s = code.div(f, code.exactly("fadd", f, code.number(2.0)))
    z = code.mul(s, s)
    half = code.mul(code.mul(f, f), code.number(0.5))
    series = code.mul(s, code.add(half, code.mul(z, code.polynomial(z, LOG[bits]))))
    low = code.add(series, code.mul(e, code.number(LN2[bits][1])))
    value = code.add(code.mul(e, code.number(LN2[bits][0])), code.sub(f, code.sub(half, low)))
    return _log_of_special(code, x, value)


def _log_of_special(code: Code, x: str, value: str) -> str:
    """log ∞ = ∞, log 0 = −∞, log of the negative and of NaN is NaN."""
    infinity = float("inf")
    value = code.select(code.compare("oeq", x, code.number(infinity)), x, value)
    value = code.select(code.compare("oeq", x, code.number(0.0)), code.number(-infinity), value)
    return code.select(code.compare("oge", x, code.number(0.0)), value, code.number(float("nan")))


def atan2(code: Code, y: str, x: str) -> str:
    """The angle of (x, y): atan of a quotient below tan π/8, turned to its octant."""
    one, infinity = code.number(1.0), code.number(float("inf"))
    across, up = code.call("fabs", x), code.call("fabs", y)
    steep = code.compare("ogt", up, across)
    small, large = code.select(steep, across, up), code.select(steep, up, across)
    # ∞/∞ stands for 1/1, x/∞ for 0/1 and 0/0 for 0/1.
    unbounded, both = code.compare("oeq", large, infinity), code.compare("oeq", small, infinity)
    small = code.select(unbounded, code.select(both, one, code.number(0.0)), small)
    large = code.select(code.logic("or", unbounded, code.compare("oeq", large, code.number(0.0))), one, large)
    wide = code.compare("ogt", small, code.exactly("fmul", large, code.number(0.41421356237309503)))
    top = code.select(wide, code.exactly("fsub", small, large), small)
    t = code.div(top, code.select(wide, code.exactly("fadd", small, large), large))
    z = code.mul(t, t)
    angle = code.add(code.mul(code.mul(code.polynomial(z, ATAN[code.bits]), z), t), t)
    left = code.let(f"icmp slt {code.integer} {code.bits_of(x)},{code.whole(0)}")
    angle = _turn(code, angle, wide, steep, left)
    angle = code.call("copysign", angle, y)
    return code.select(code.compare("uno", x, y), code.exactly("fadd", x, y), angle)


def _turn(code: Code, angle: str, wide: str, steep: str, left: str) -> str:
    """`± angle + k π/4`: π/4 more if wide, mirrored at π/4 if steep, at π/2 if left."""
    signed = code.select(code.logic("xor", steep, left), code.neg(angle), angle)
    eighths = code.select(wide, code.number(1.0), code.number(0.0))
    eighths = code.select(steep, code.exactly("fsub", code.number(2.0), eighths), eighths)
    eighths = code.select(left, code.exactly("fsub", code.number(4.0), eighths), eighths)
    high, low, _ = (part / 2 for part in HALF_PI[code.bits])
    rest = code.add(signed, code.mul(eighths, code.number(low)))
    return code.add(code.mul(eighths, code.number(high)), rest)
