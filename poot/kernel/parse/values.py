"""What an expression of a kernel stands for while it is parsed: a typed value, an array, a tuple, or a Python object.

Python numbers are weak: they take the dtype that they meet, are range-checked against it, and alone count as i32, f32
or bool.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard, cast

import numpy as np
from typing_extensions import override

from poot.dtypes import DType, as_dtype, bool_, f32, f64, i32, i64, promote
from poot.kernel.ir import Access, Const, Expr, Index, Load, Space, Var, operands
from poot.kernel.scalar import converter


@dataclass(frozen=True, slots=True)
class Typed:
    """A run-time value: an expression with its dtype."""

    expr: Expr

    @property
    def dtype(self) -> DType:
        return self.expr.dtype


@dataclass(frozen=True, slots=True)
class Static:
    """A Python object known while parsing: a weak number, dtype, function, module, string …"""

    value: Any

    @property
    def weak(self) -> bool:
        """Whether it is a number that takes the dtype it meets."""
        return isinstance(self.value, (bool, int, float))

    @override
    def __eq__(self, other: object) -> bool:
        """Equal where they mean the same; an object's own `__eq__` is never asked."""
        return isinstance(other, Static) and same_meaning(self.value, other.value)


@dataclass(frozen=True, slots=True)
class Array:
    """A buffer parameter, or an array that the kernel allocates; `shape` is known for the latter alone."""

    name: str
    dtype: DType
    rank: int
    access: Access = "readwrite"
    space: Space | None = None
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Tuple:
    """Several values together."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Chosen(Typed):
    """One of two weak numbers, by a condition of run time; like them it takes the dtype it meets, and alone has one."""

    condition: Expr
    first: Static | Chosen
    second: Static | Chosen


Value: TypeAlias = Typed | Static | Array | Tuple

NONE = Static(None)
#: Bits of integers that messages spell out.
_LONG = 256


def describe(value: Value) -> str:
    """What a value is, for messages: its dtype, or its kind."""
    match value:
        case Typed():
            return value.dtype.name
        case Array():
            return f"an array of {value.dtype.name}"
        case Tuple():
            return f"a tuple of {len(value.items)}"
        case Static():
            return _described(value.value)


def _described(value: object) -> str:
    match value:
        case bool():
            return f"the constant {value}"
        case int() | float():
            return f"the number {shown(value)}"
        case str():
            return f"the string {value!r}"
        case None:
            return "None"
        case DType():
            return f"the dtype {value.name}"
        case _:
            name = quietly(value, "__name__")
            kind = type(value).__name__
            return f"the {kind} `{name}`" if isinstance(name, str) else f"a Python {kind}"


def is_weak(value: Value) -> TypeGuard[Static | Chosen]:
    """Whether it is a number, or one of two, that takes the dtype it meets."""
    return isinstance(value, Chosen) or (isinstance(value, Static) and value.weak)


def is_strong(value: Value) -> TypeGuard[Typed]:
    """Whether it has a dtype that others have to match."""
    return isinstance(value, Typed) and not isinstance(value, Chosen)


def weak_numbers(value: Value) -> tuple[bool | int | float, ...]:
    """The numbers that a weak value may be; none for others."""
    if isinstance(value, Chosen):
        return weak_numbers(value.first) + weak_numbers(value.second)
    return (value.value,) if isinstance(value, Static) and value.weak else ()


def shown(number: object) -> str:
    """A number as it is written; of a very long one how long it is, since Python may refuse to spell it."""
    if isinstance(number, int) and number.bit_length() > _LONG:
        return f"of {number.bit_length()} bits"
    return repr(number)


def quietly(value: object, name: str) -> object:
    """An attribute of any object, or None; an object's own `__getattr__` may raise whatever it likes."""
    try:
        return getattr(value, name, None)
    except Exception:
        return None


def weak_dtype(value: bool | int | float, index: DType = i32) -> DType:
    """The dtype of a weak number on its own; integers count as indices do."""
    if isinstance(value, bool):
        return bool_
    return index if isinstance(value, int) else f32


def static_value(value: object) -> Value:
    """A Python object as a value: NumPy scalars have a dtype of their own, everything else is static."""
    if isinstance(value, np.generic):
        scalar = cast("Any", value)
        dtype = as_dtype(scalar.dtype, "constant")
        item: bool | int | float = float(scalar) if dtype.is_float else scalar.item()
        # np.float64, np.int64 and np.bool_ are what NumPy hands out for Python's own numbers.
        return Static(item) if dtype in (f64, i64, bool_) else Typed(Const(item, dtype))
    if isinstance(value, tuple) and type(cast("object", value)) is tuple:
        return Tuple(tuple(static_value(item) for item in cast("tuple[object, ...]", value)))
    return Static(value)


def same_meaning(a: object, b: object) -> bool:
    """Whether two Python constants mean the same to a kernel: equal type and value, floats bit for bit."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", cast(float, b))
    if isinstance(a, tuple):
        left, right = cast("tuple[object, ...]", a), cast("tuple[object, ...]", b)
        return len(left) == len(right) and all(map(same_meaning, left, right))
    if isinstance(a, (bool, int, str)):
        return a == b
    if isinstance(a, np.generic):
        return cast("np.generic[Any]", a).tobytes() == cast("np.generic[Any]", b).tobytes()
    return False


# --- literals -------------------------------------------------------------------------------------------------------


def fits(value: bool | int | float, dtype: DType) -> bool:
    """Whether a weak number can take a dtype: bools only bool, floats only floats, and all in range."""
    if dtype is bool_ or isinstance(value, bool):
        return dtype is bool_ and isinstance(value, bool)
    if dtype.is_float:
        return (isinstance(value, float) and not math.isfinite(value)) or math.isfinite(_rounded(value, dtype))
    return isinstance(value, int) and dtype.min <= value <= dtype.max


def _rounded(value: int | float, dtype: DType) -> float:
    try:
        wide = np.asarray(float(value))
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    with np.errstate(all="ignore"):
        return float(converter(f64, dtype)(wide))


def converted(value: bool | int | float, dtype: DType) -> bool | int | float:
    """A Python number cast to a dtype as kernels cast: integers wrap, floats saturate to integers, NaN gives 0."""
    if dtype is bool_:
        return bool(value)
    if dtype.is_float:
        return _rounded(value, dtype)
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return dtype.max if value > 0 else dtype.min
        return max(int(dtype.min), min(int(dtype.max), int(value)))
    wrapped = int(value) & ((1 << dtype.bits) - 1)
    return wrapped - (1 << dtype.bits) if wrapped > dtype.max else wrapped


def meeting(a: DType, b: DType) -> DType:
    """The dtype to suggest where two meet."""
    if a.is_float != b.is_float and "bool" not in (a.kind, b.kind):
        return a if a.is_float else b
    if {a.kind, b.kind} == {"int", "uint"}:  # no third dtype, and what has the greater range among equally wide ones
        return a if (a.bits, a.kind == "uint") > (b.bits, b.kind == "uint") else b
    found = promote((a, b))
    if isinstance(found, str):
        return i64
    return found


# --- expressions ----------------------------------------------------------------------------------------------------


def walk_expr(expr: Expr) -> Iterator[Expr]:
    """An expression and all below it."""
    yield expr
    for child in operands(expr):
        yield from walk_expr(child)


def loads(expr: Expr) -> bool:
    """Whether evaluating the expression reads memory, and so may fault or be overtaken by a store."""
    return any(isinstance(node, Load) for node in walk_expr(expr))


def is_atom(expr: Expr) -> bool:
    """Whether writing the expression twice costs nothing."""
    return isinstance(expr, (Const, Var, Index))


def zero(dtype: DType) -> Const:
    """The zero of a dtype."""
    return Const(False if dtype.kind == "bool" else 0.0 if dtype.is_float else 0, dtype)


@functools.cache
def plain(name: str) -> str:
    """A name in ASCII, as every target takes it."""
    return name if name.isascii() else "".join(c if c.isascii() else f"u{ord(c):x}" for c in name)
