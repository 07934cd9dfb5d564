"""erf: x + x P(x^2) near 0, 1 - exp(x Q(x)) beyond, where Q is fitted to log(erfc(x)) / x."""

from __future__ import annotations

from poot.dtypes import DType, f32, f64
from poot.kernel.expand import coefficients as c
from poot.kernel.expand.exponential import EXPONENTIAL, reduced
from poot.kernel.expand.formats import integer_bits, magnitude_bits, power_of_two, sign_bits, with_sign_bits
from poot.kernel.expand.value import Value, polynomial

#: Coefficients near 0 and beyond, and where erf rounds to 1.
ERF: dict[DType, tuple[tuple[float, ...], tuple[float, ...], float]] = {
    f32: (c.ERF_SMALL_F32, c.ERF_LARGE_F32, c.ERF_ONE_F32),
    f64: (c.ERF_SMALL_F64, c.ERF_LARGE_F64, c.ERF_ONE_F64),
}


def erf(x: Value) -> Value:
    """The error function, odd in its bits."""
    near, far, one = ERF[x.dtype]
    data = EXPONENTIAL[x.dtype]
    magnitude = magnitude_bits(x).bits(x.dtype).let("magnitude")
    a = (magnitude > one).select_const(one, magnitude).let("a")
    small = polynomial(a * a, near) * a + a
    n, r = reduced((polynomial(a, far) * a).let("exponent"), data.ln2)
    p = polynomial(r, data.exp) * (r * r) + r + 1.0
    large = 1.0 - p * power_of_two(integer_bits(n), x.dtype)
    return with_sign_bits((a < c.ERF_SMALL).select(small, large), sign_bits(x))
