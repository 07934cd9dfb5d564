"""Dtypes: the classes `f32`, `i8` …, array specs `f32[8, 64]`, the mapping to NumPy and ml_dtypes, and promotion.

A dtype is a *class* whose metaclass is `DType`, so that one name serves as an annotation (`poot.In[f32]`), converts
with `np.dtype(f32)`, compares equal to NumPy's dtypes, and casts with `f32(x)`.  Internally a dtype is always such a
class and is compared with `is`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final, Literal, cast

import ml_dtypes
import numpy as np
from typing_extensions import override

from poot.errors import ArgumentError, ArgumentTypeError, UnsupportedDTypeError
from poot.probe import has
from poot.records import record

Kind = Literal["bool", "int", "uint", "float"]

#: The most elements that an array may have, whatever its dtype: those of 8 bytes that an i64 counts the bytes of.
MOST_ELEMENTS: Final = (2**63 - 1) // 8
ADDRESSABLE: Final = "fewer elements than a machine can address"


def too_many(shape: Iterable[int]) -> bool:
    """Whether a shape, its extents of 0 aside, has more elements than any machine has memory for."""
    return math.prod(extent or 1 for extent in shape) > MOST_ELEMENTS


class DType(type):
    """The metaclass of the dtype classes; an instance is a dtype.

    `dtype` is the NumPy dtype, `kind` one of bool, int, uint, float, `bits` the width of the stored element.
    """

    dtype: np.dtype[Any]
    kind: Kind
    bits: int

    _hash: int

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> DType:
        namespace["_hash"] = hash(namespace["dtype"])
        return super().__new__(cls, name, bases, namespace)

    @property
    def name(cls) -> str:
        return cls.__name__.rstrip("_")

    @property
    def itemsize(cls) -> int:
        """Bytes of one stored element (a bool takes one)."""
        return cls.dtype.itemsize

    @property
    def is_float(cls) -> bool:
        return cls.kind == "float"

    @property
    def is_integer(cls) -> bool:
        return cls.kind in ("int", "uint")

    @property
    def min(cls) -> int | float:
        """The least finite value."""
        return _limits(cls)[0]

    @property
    def max(cls) -> int | float:
        """The greatest finite value."""
        return _limits(cls)[1]

    def __getitem__(cls, shape: int | tuple[int, ...]) -> ArraySpec:
        """`f32[8, 64]` is the spec of an 8 x 64 array; `f32[()]` of a 0-d one."""
        return ArraySpec(cls, shape if isinstance(shape, tuple) else (shape,))

    @override
    def __call__(cls, value: Any = 0, /) -> Any:
        """Cast: poot arrays and tracers through `ops`, everything else to a NumPy array or scalar of this dtype."""
        if has(value, "__poot_astype__"):
            return value.__poot_astype__(cls)
        result = _casts[0](value, cls)
        return result if isinstance(value, np.ndarray) else result[()]

    @override
    def __eq__(cls, other: object) -> bool:
        if isinstance(other, DType):
            return cls is other
        if other is None or isinstance(other, (int, float)):
            return False
        try:
            return cls.dtype == np.dtype(other)  # type: ignore[call-overload]
        except TypeError:
            return False

    @override
    def __hash__(cls) -> int:
        return cls._hash

    @override
    def __repr__(cls) -> str:
        return cls.name

    def __reduce__(cls) -> str:  # pickled by name, as every class is
        return cls.__name__


_casts: list[Callable[[Any, DType], np.ndarray[Any, Any]]] = []


def cast_with(cast: Callable[[Any, DType], np.ndarray[Any, Any]]) -> None:
    """Say how a dtype casts what is no array of poot, which a layer above knows of other libraries'."""
    _casts[:] = [cast]


class bool_(metaclass=DType):  # noqa: N801
    """Truth values, one byte each."""

    dtype = np.dtype(np.bool_)
    kind = "bool"
    bits = 8


class i8(metaclass=DType):  # noqa: N801
    """8-bit signed integers."""

    dtype = np.dtype(np.int8)
    kind = "int"
    bits = 8


class i16(metaclass=DType):  # noqa: N801
    """16-bit signed integers."""

    dtype = np.dtype(np.int16)
    kind = "int"
    bits = 16


class i32(metaclass=DType):  # noqa: N801
    """32-bit signed integers."""

    dtype = np.dtype(np.int32)
    kind = "int"
    bits = 32


class i64(metaclass=DType):  # noqa: N801
    """64-bit signed integers."""

    dtype = np.dtype(np.int64)
    kind = "int"
    bits = 64


class u8(metaclass=DType):  # noqa: N801
    """8-bit unsigned integers."""

    dtype = np.dtype(np.uint8)
    kind = "uint"
    bits = 8


class u16(metaclass=DType):  # noqa: N801
    """16-bit unsigned integers."""

    dtype = np.dtype(np.uint16)
    kind = "uint"
    bits = 16


class u32(metaclass=DType):  # noqa: N801
    """32-bit unsigned integers."""

    dtype = np.dtype(np.uint32)
    kind = "uint"
    bits = 32


class u64(metaclass=DType):  # noqa: N801
    """64-bit unsigned integers."""

    dtype = np.dtype(np.uint64)
    kind = "uint"
    bits = 64


class f16(metaclass=DType):  # noqa: N801
    """Floats of 16 bits, IEEE binary16."""

    dtype = np.dtype(np.float16)
    kind = "float"
    bits = 16


class bf16(metaclass=DType):  # noqa: N801
    """Floats of 16 bits, bfloat16: the upper half of an f32."""

    dtype = np.dtype(ml_dtypes.bfloat16)
    kind = "float"
    bits = 16


class f32(metaclass=DType):  # noqa: N801
    """Floats of 32 bits, IEEE binary32."""

    dtype = np.dtype(np.float32)
    kind = "float"
    bits = 32


class f64(metaclass=DType):  # noqa: N801
    """Floats of 64 bits, IEEE binary64."""

    dtype = np.dtype(np.float64)
    kind = "float"
    bits = 64


#: Every dtype, in the order of the promotion tables.
ALL: tuple[DType, ...] = (bool_, u8, u16, u32, u64, i8, i16, i32, i64, bf16, f16, f32, f64)
INTEGERS: tuple[DType, ...] = (u8, u16, u32, u64, i8, i16, i32, i64)
FLOATS: tuple[DType, ...] = (bf16, f16, f32, f64)
NUMBERS: tuple[DType, ...] = INTEGERS + FLOATS

BY_NAME: dict[str, DType] = {dtype.name: dtype for dtype in ALL}
_BY_NUMPY: dict[np.dtype[Any], DType] = {dtype.dtype: dtype for dtype in ALL}

DTypeLike = Any  # a DType, a NumPy dtype or scalar type, or a name of either; `as_dtype` checks it


def is_masked(value: object) -> bool:
    """Whether a value is a masked array of NumPy, which loads `numpy.ma` where somebody makes one."""
    module = sys.modules.get("numpy.ma")
    return module is not None and isinstance(value, module.MaskedArray)


def check_plain(value: object, what: str) -> None:
    """ArgumentTypeError for NumPy's masked arrays and matrices, with whose elements more goes along."""
    if type(value) is np.ndarray or not issubclass(type(value), np.ndarray):
        return
    if is_masked(value):
        raise ArgumentTypeError(
            what=what, actual="MaskedArray", expected="an array without a mask",
            remedy="pass value.filled(…), or its data and its mask as two arrays.",
        )  # fmt: skip
    if isinstance(value, np.matrix):
        raise ArgumentTypeError(
            what=what, actual="matrix", expected="an array",
            remedy="pass np.asarray(value): poot's operators work by element, and a matrix's do not.",
        )  # fmt: skip


def as_dtype(value: DTypeLike, what: str = "dtype") -> DType:
    """The poot dtype for a poot or NumPy dtype, a NumPy scalar type, `bool`/`int`/`float`, or a name of one."""
    if isinstance(value, DType):
        return value
    if value is bool:
        return bool_
    if value is int:
        return i32
    if value is float:
        return f32
    if isinstance(value, str) and value in BY_NAME:
        return BY_NAME[value]
    try:
        found = _BY_NUMPY.get(np.dtype(value).newbyteorder("="))
    except (TypeError, ValueError, LookupError, OverflowError, SyntaxError):  # as NumPy finds strings, lists, dicts …
        found = None
    if found is None or value is None:
        name = value.name if isinstance(value, np.dtype) else f"{value!r:.60}"
        raise UnsupportedDTypeError(what=what, actual=name)
    return found


@cache
def _limits(dtype: DType) -> tuple[int | float, int | float]:
    if dtype.kind == "bool":
        return 0, 1
    if dtype.kind == "float":
        info = cast("Any", ml_dtypes.finfo(dtype.dtype))
        return float(info.min), float(info.max)
    integer = np.iinfo(dtype.dtype)
    return int(integer.min), int(integer.max)


@record
class ArraySpec:
    """The static type of an array: a dtype and a shape of non-negative extents.

    Their product, but for extents of 0, is at most MOST_ELEMENTS: places are counted in i64, and bytes too.
    """

    dtype: DType
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        for extent in self.shape:
            if type(extent) is not int or extent < 0:
                self._convert()
                break
        if math.prod(self.shape) > MOST_ELEMENTS or (0 in self.shape and too_many(self.shape)):
            raise ArgumentError(what="shape", actual=self.shape, expected=ADDRESSABLE)

    def _convert(self) -> None:
        for extent in self.shape:
            if not isinstance(extent, (int, np.integer)) or isinstance(extent, bool) or extent < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ArgumentError(what="shape", actual=self.shape, expected="non-negative integers")
        object.__setattr__(self, "shape", tuple(int(extent) for extent in self.shape))

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        result = 1
        for extent in self.shape:
            result *= extent
        return result

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @override
    def __str__(self) -> str:
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]"


# --- promotion: the lattice that JAX publishes, with weak Python scalars ---------------------------------------------

#: A weak scalar takes part by its kind alone.
WeakKind = Literal["int*", "float*"]

_EDGES: dict[str, tuple[str, ...]] = {
    "bool": ("int*",),
    "int*": ("u8", "i8"),
    "u8": ("u16", "i16"),
    "u16": ("u32", "i32"),
    "u32": ("u64", "i64"),
    "u64": ("float*",),
    "i8": ("i16",),
    "i16": ("i32",),
    "i32": ("i64",),
    "i64": ("float*",),
    "float*": ("bf16", "f16"),
    "bf16": ("f32",),
    "f16": ("f32",),
    "f32": ("f64",),
    "f64": (),
}


@cache
def _above(name: str) -> frozenset[str]:
    """The node and everything that it promotes to."""
    return frozenset({name}).union(*(_above(upper) for upper in _EDGES[name]))


def promote(operands: Iterable[DType | WeakKind]) -> DType | WeakKind:
    """The least upper bound of dtypes and weak kinds.

    Weak operands alone stay weak ("int*", "float*"); `concrete` gives the dtype that such a result takes.
    A 64-bit integer pair with no common integer type (i64 with u64) gives "float*", as the lattice says.
    """
    names = [operand if isinstance(operand, str) else operand.name for operand in operands]
    if not names:
        raise ArgumentError(what="promote", actual=(), expected="at least one operand")
    common = _above(names[0])
    for name in names[1:]:
        common &= _above(name)
    least = next(name for name in common if common <= _above(name))
    return cast("WeakKind", least) if least.endswith("*") else BY_NAME[least]


def concrete(operand: DType | WeakKind) -> DType:
    """The dtype of a result: weak integers are i32, weak floats f32, on every device."""
    if isinstance(operand, str):
        return i32 if operand == "int*" else f32
    return operand
