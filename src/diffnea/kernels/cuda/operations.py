"""The operations of scalar programs as CUDA C, and the functions they call."""

from fractions import Fraction

import numpy as np

REAL = {
    "neg": "-{0}",
    "add": "{0}+{1}",
    "sub": "{0}-{1}",
    "mul": "{0}*{1}",
    "div": "{0}/{1}",
    "abs": "fabs({0})",
    "sqrt": "sqrt({0})",
    "rsqrt": "rsqrt({0})",
    "exp": "exp({0})",
    "log": "log({0})",
    "tanh": "tanh({0})",
    "floor": "floor({0})",
    "ceil": "ceil({0})",
    "round": "rint({0})",  # halves to even
    "atan2": "atan2({0},{1})",
    "pow": "pow({0},{1})",
    "sign": "({0}>0?(real)1:{0}<0?(real)-1:{0})",  # zero of either sign and NaN are their own
    "min": "({0}<{1}||{0}!={0}?{0}:{1})",  # NaN if either is
    "max": "({0}>{1}||{0}!={0}?{0}:{1})",
    "select": "({0}?{1}:{2})",
}
TRUTH = {
    "lt": "{0}<{1}",
    "le": "{0}<={1}",
    "gt": "{0}>{1}",
    "ge": "{0}>={1}",
    "eq": "{0}=={1}",
    "ne": "{0}!={1}",
    "and": "{0}&&{1}",
    "or": "{0}||{1}",
    "xor": "{0}!={1}",
    "not": "!{0}",
    "select": "({0}?{1}:{2})",
}


def literal(number: float | bool, dtype: str) -> str:
    """A number as CUDA C spells it, exactly."""
    if isinstance(number, bool):
        return "true" if number else "false"
    with np.errstate(over="ignore"):
        number = float(np.dtype(dtype).type(number))
    suffix = "f" if dtype == "float32" else ""
    if np.isnan(number) or np.isinf(number):
        bits = "nan" if np.isnan(number) else "inf"
        return f"({'-' if number < 0 else ''}{bits}_real())"
    return f"({number!r}{suffix})" if str(number).startswith("-") else f"{number!r}{suffix}"


# π to 60 digits: enough to tell where 2¹⁰⁵ is in a turn, to double precision.
_PI = Fraction("3.14159265358979323846264338327950288419716939937510582097494")
_POWERS = ",".join(repr(float(Fraction(2) ** e % (2 * _PI)) if e > 2 else 2.0**e) for e in range(106))
# Sine and cosine to 1.5 units in the last place: the angle less a multiple of a quarter turn in three steps, then
# polynomials. The library's are as exact, but carry code for large angles to every use of them. Here `turn` is for
# angles below FAR, and one test serves several angles; if one is larger, `near` takes whole turns off all of them: an
# angle m · 2ᵉ is m times the rest of 2ᵉ after whole turns, in double precision. A call would cost registers all along.
FAR = {"float32": "48000.0f"}
_TURN = {
    "float32": f"__device__ const double powers_in_a_turn[]={{{_POWERS}}};\n"
    """__device__ __forceinline__ real near(real x){
const int e=max((int)(__float_as_uint(x)>>23&255u)-150,0);
const double r=(double)x*__hiloint2double((1023-e)<<20,0)*powers_in_a_turn[e];
return (float)fma(rint(r*0.15915494309189535),-6.283185307179586,r);
}
__device__ __forceinline__ void turn(real x,real*s,real*c){
const float shifted=fmaf(x,0.636619747f,12582912.0f),n=shifted-12582912.0f;
const unsigned quarter=__float_as_uint(shifted);
float r=fmaf(n,-1.57079601e+00f,x);
r=fmaf(n,-3.13916473e-07f,r);
r=fmaf(n,-5.39030253e-15f,r);
const float rr=r*r;
float p=fmaf(2.86567956e-6f,rr,-1.98559923e-4f);
p=fmaf(p,rr,8.33338592e-3f);
p=fmaf(p,rr,-1.66666672e-1f);
p=fmaf(p,rr*r,r);
float q=fmaf(2.44677067e-5f,rr,-1.38877297e-3f);
q=fmaf(q,rr,4.16666567e-2f);
q=fmaf(q,rr,-5.00000000e-1f);
q=fmaf(q,rr,1.0f);
const float a=quarter&1?q:p,b=quarter&1?p:q;
*s=__uint_as_float(__float_as_uint(a)^(quarter<<30&0x80000000u));
*c=__uint_as_float(__float_as_uint(b)^((quarter<<30)+0x40000000u&0x80000000u));
}""",
    "float64": "__device__ __forceinline__ void turn(real x,real*s,real*c){sincos(x,s,c);}",
}
# The hardware's own, to one unit in the last place, with zeros, infinities and denormal numbers as they should be. The
# exact one takes ten times as long.
_RECIPROCAL = {
    "float32": """__device__ __forceinline__ real reciprocal(real x){
real y;
asm("rcp.approx.f32 %0,%1;":"=f"(y):"f"(x));
return y;
}""",
    "float64": "__device__ __forceinline__ real reciprocal(real x){return 1/x;}",
}
# Volatile, so that the compiler reads again where it is told to, instead of keeping all of it in registers. Rows are
# written so, too: of stores to elements of an array, CUDA 13.0 sent some to the address of others.
_READ = {
    "float32": """__device__ __forceinline__ void read_shared(real&a,real&b,real&c,real&d,unsigned at){
asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3},[%4];":"=f"(a),"=f"(b),"=f"(c),"=f"(d):"r"(at));
}
__device__ __forceinline__ void read_row(real&a,unsigned at){asm volatile("ld.shared.f32 %0,[%1];":"=f"(a):"r"(at));}
__device__ __forceinline__ void write_row(unsigned at,real a){
asm volatile("st.shared.f32 [%0],%1;"::"r"(at),"f"(a):"memory");
}""",
    "float64": """__device__ __forceinline__ void read_shared(real&a,real&b,unsigned at){
asm volatile("ld.shared.v2.f64 {%0,%1},[%2];":"=d"(a),"=d"(b):"r"(at));
}
__device__ __forceinline__ void read_row(real&a,unsigned at){asm volatile("ld.shared.f64 %0,[%1];":"=d"(a):"r"(at));}
__device__ __forceinline__ void write_row(unsigned at,real a){
asm volatile("st.shared.f64 [%0],%1;"::"r"(at),"d"(a):"memory");
}""",
}
# Eight numbers of 32 lanes each, summed over the lanes: at first each lane gives four of them away and takes four, so
# that 30 steps do what eight sums by themselves would take 80 for. Every lane of four has the same sum then.
_ADD_UP = """__device__ __forceinline__ real share(real mine,real other,int lane,int bit){
const bool high=lane&bit;
return (high?other:mine)+__shfl_xor_sync(0xffffffffu,high?mine:other,bit);
}
__device__ __forceinline__ void add_up(real*to,int lane,real a,real b,real c,real d,real e,real f,real g,real h){
a=share(a,e,lane,16);b=share(b,f,lane,16);c=share(c,g,lane,16);d=share(d,h,lane,16);
a=share(a,c,lane,8);b=share(b,d,lane,8);
a=share(a,b,lane,4);
a+=__shfl_xor_sync(0xffffffffu,a,2);
a+=__shfl_xor_sync(0xffffffffu,a,1);
if(!(lane&3))to[lane>>2]+=a;
}"""
HELPERS = {
    dtype: f"""typedef real wide1;
{wide}
__device__ __forceinline__ void fetch(const real*p){{
asm volatile("prefetch.global.L1 [%0];"::"l"(__cvta_generic_to_global(p)));
}}
__device__ __forceinline__ real inf_real(){{return {inf};}}
__device__ __forceinline__ real nan_real(){{return {nan};}}
__device__ __forceinline__ real over_lanes(real a){{
for(int step=16;step;step>>=1)a+=__shfl_down_sync(0xffffffffu,a,step);
return a;
}}
{_ADD_UP}
{_READ[dtype]}
{_RECIPROCAL[dtype]}
{_TURN[dtype]}"""
    for dtype, wide, inf, nan in (
        (
            "float32",
            "typedef float2 wide2;typedef float4 wide4;",
            "__int_as_float(0x7f800000)",
            "__int_as_float(0x7fc00000)",
        ),
        (
            "float64",
            "typedef double2 wide2;",
            "__longlong_as_double(0x7ff0000000000000ll)",
            "__longlong_as_double(0x7ff8000000000000ll)",
        ),
    )
}
