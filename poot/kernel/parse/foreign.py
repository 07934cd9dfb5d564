"""What to write in place of a function that kernels do not have: of `math`, NumPy and poot, and of objects."""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Mapping
from typing import Any, cast

from poot.dtypes import as_dtype
from poot.errors import PootError
from poot.kernel.parse.values import quietly

_LOOP = "write a `for` loop."

#: Functions that no row computes, in words that kernels have.
WRITTEN_OUT: Mapping[str, str] = {
    "log10": "math.log2(x) * 0.3010299956639812",
    "isclose": "abs(a - b) <= 1e-6 * max(abs(a), abs(b))",
    "isqrt": "int(math.sqrt(f64(n)))",
    "ldexp": "x * math.exp2(f32(n))",
    "frexp": "math.floor(math.log2(abs(x))) + 1",
    "modf": "x - math.trunc(x)",
    "erfc": "1 - math.erf(x)",
    "hypot": "math.sqrt(a * a + b * b)",
    "fmod": "a - b * math.trunc(a / b)",
    "remainder": "a - b * math.floor(a / b + 0.5)",
    "cbrt": "math.copysign(abs(x) ** (1.0 / 3.0), x)",
    "radians": "x * (math.pi / 180)",
    "degrees": "x * (180 / math.pi)",
    "fma": "a * b + c",
    "square": "x * x",
    "reciprocal": "1 / x",
    "clip": "min(max(x, low), high)",
    "where": "a if condition else b",
    "power": "a ** b",
    "mod": "a % b",
    "floor_divide": "a // b",
    "logical_and": "a != 0 and b != 0",
    "logical_or": "a != 0 or b != 0",
    "logical_not": "not a",
    "left_shift": "a << b",
    "right_shift": "a >> b",
}
#: NumPy's names for what Python, `math` or poot call otherwise.
_RENAMED: Mapping[str, str] = {
    **dict.fromkeys(("maximum", "fmax"), "max"),
    **dict.fromkeys(("minimum", "fmin"), "min"),
    **dict.fromkeys(("absolute", "abs"), "abs"),
    **{f"arc{name}": f"math.a{name}" for name in ("sin", "cos", "tan", "tan2", "sinh", "cosh", "tanh")},
    "pow": "pow",
    "divmod": "divmod",
    "sign": "poot.sign",
    "bitwise_count": "poot.popcount",
}
_LOOPS = ("sum", "prod", "fsum", "dot", "matmul", "mean", "factorial", "comb", "perm", "gcd", "lcm", "dist", "sumprod")
_LIBRARIES = ("numpy", "poot", "cmath", "torch", "jax", "math")


def instead_of(function: object, known: Mapping[str, object]) -> str:
    """What to write for a function that a kernel cannot call, or ""; `known` are those of `math` that it can."""
    owner = _owner(function)
    if owner:
        return owner
    module = str(quietly(function, "__module__") or ("numpy" if type(function).__module__ == "numpy" else ""))
    name = str(quietly(function, "__name__") or "")
    if module.partition(".")[0] not in _LIBRARIES:
        return ""
    if isinstance(function, type):
        try:
            return f"write `{as_dtype(cast('Any', function)).name}(…)`, a cast of poot."
        except PootError:
            return ""
    return spelled(name, known)


def spelled(name: str, known: Mapping[str, object]) -> str:
    """What to write for a function by its name in `math` or NumPy, or ""."""
    if name in _RENAMED:
        return f"write `{_RENAMED[name]}`."
    if name in known:
        return f"write `math.{name}`."
    if name in WRITTEN_OUT:
        return f"write `{WRITTEN_OUT[name]}`."
    return _LOOP if name in _LOOPS else ""


def _owner(function: object) -> str:
    """What to write for functions that are held by other objects."""
    if isinstance(function, types.MethodType):
        return "write it as a function outside the class, and pass what it reads of the object."
    if isinstance(function, functools.partial):
        inner = getattr(cast("Any", function).func, "__name__", "f")
        return f"write a function around it: `def g(x): return {inner}(…)`, with the arguments that are fixed."
    if quietly(function, "cache_info") is not None:
        return "call the function itself: take the cache off, or call its `.__wrapped__`; helper functions are inlined."
    return ""


def math_functions(rows: Mapping[object, object]) -> dict[str, object]:
    """The functions of `math` that kernels have, by name."""
    return {name: value for name, value in vars(math).items() if callable(value) and value in rows}
