"""tanh, of exp for larger arguments and of a minimax polynomial near 0."""

from __future__ import annotations

from poot.dtypes import DType, f32, f64
from poot.kernel.expand import coefficients as c
from poot.kernel.expand.exponential import EXPONENTIAL, LOG2_E
from poot.kernel.expand.formats import integer_bits, magnitude_bits, power_of_two, sign_bits, with_sign_bits
from poot.kernel.expand.value import Value, polynomial

#: Coefficients near 0, and where tanh rounds to 1.
TANH: dict[DType, tuple[tuple[float, ...], float]] = {f32: (c.TANH_F32, 10.0), f64: (c.TANH_F64, 20.0)}


def tanh(x: Value) -> Value:
    """1 - 2 / (exp(2|x|) + 1) past TANH_SMALL, |x| + |x|^3 P(x^2) below."""
    small, one = TANH[x.dtype]
    data = EXPONENTIAL[x.dtype]
    magnitude = magnitude_bits(x).bits(x.dtype).let("magnitude")
    a = (magnitude > one).select_const(one, magnitude).let("a")
    n = (a * (2 * LOG2_E)).op("round").let("n")
    r = (a + a - n * data.ln2[0] - n * data.ln2[1]).let("r")
    p = polynomial(r, data.exp) * (r * r) + r + 1.0
    large = 1.0 - 2.0 / (p * power_of_two(integer_bits(n), x.dtype) + 1.0)
    z = (a * a).let("z")
    near = polynomial(z, small) * (z * a) + a
    return with_sign_bits((a < c.TANH_SMALL).select(near, large), sign_bits(x))
