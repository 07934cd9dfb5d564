"""64-bit arrays on devices that lack them: refused with one list, or converted as `f64=` and `i64=` ask."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from poot.dtypes import ArraySpec, DType, f32, f64, i32, i64, u32, u64
from poot.errors import ArgumentError, OverflowArgumentError, UnsupportedDTypeError
from poot.target import Target
from poot.trace.source import user_location

F64: TypeAlias = 'Literal["f32"] | None'
I64: TypeAlias = 'Literal["i32"] | None'

_INTEGERS: dict[DType, DType] = {i64: i32, u64: u32}


@dataclass(frozen=True, slots=True)
class Precision:
    """What becomes of 64-bit arrays: None keeps them where the target has them."""

    f64: F64 = None
    i64: I64 = None

    def __post_init__(self) -> None:
        for name, value, known in (("f64", self.f64, "f32"), ("i64", self.i64, "i32")):
            if value not in (None, known):
                raise ArgumentError(what=f"{name}=", actual=value, expected=f"{known!r} or None")

    @property
    def text(self) -> str:
        """The options as arguments that follow others."""
        options = (("f64", self.f64), ("i64", self.i64))
        return "".join(f", {name}={value!r}" for name, value in options if value is not None)

    def spec(self, spec: ArraySpec) -> ArraySpec:
        """The spec that an array of this spec has in the graph."""
        return ArraySpec(self.dtype(spec.dtype), spec.shape)

    def dtype(self, dtype: DType) -> DType:
        if dtype is f64 and self.f64:
            return f32
        return _INTEGERS.get(dtype, dtype) if self.i64 else dtype

    def convert(self, name: str, array: np.ndarray[Any, Any], spec: ArraySpec) -> np.ndarray[Any, Any]:
        """The array at the spec's dtype, where this precision asks for the conversion; integers are range-checked."""
        if array.dtype == spec.dtype.dtype or spec.dtype is not self.dtype(_BY_NUMPY.get(array.dtype, spec.dtype)):
            return array
        if spec.dtype.is_integer and array.size:
            for value in (int(array.min()), int(array.max())):
                if not spec.dtype.min <= value <= spec.dtype.max:
                    raise OverflowArgumentError(
                        value=f"{value} in {name!r}",
                        dtype=spec.dtype,
                        low=spec.dtype.min,
                        high=spec.dtype.max,
                        where=user_location(),
                    )
        with np.errstate(over="ignore"):
            return array.astype(spec.dtype.dtype)

    def check(
        self, function: str, arrays: Iterable[tuple[str, ArraySpec]], target: Target, *, asked: bool = False
    ) -> None:
        """Refuse every array that the target has no dtype for, all in one message; `asked` says that the caller named
        the dtype.
        """
        refused = [(name, spec) for name, spec in arrays if self.dtype(spec.dtype) not in target.dtypes]
        if not refused:
            return
        dtypes = {spec.dtype for _, spec in refused}
        options = [text for text, wide in (('f64="f32"', {f64}), ('i64="i32"', {i64, u64})) if dtypes & wide]
        raise UnsupportedDTypeError(
            what=f"{function} on {target}: " + ", ".join(f"{name} is {spec}" for name, spec in refused),
            actual=" and ".join(sorted(dtype.name for dtype in dtypes)),
            where=user_location(),
            remedy=_remedy(function, [] if asked else options),
        )


KEPT = Precision()
"""Nothing is converted."""


def _remedy(function: str, options: list[str]) -> str:
    convert = ", ".join(options)
    if function == "to_device":
        return "cast it first, such as with x.astype(poot.f32)."
    if function == "asarray":
        also = f", or let poot.device(…, {convert}) convert arrays" if options else ""
        return f"pass dtype= with a dtype that the device has, such as poot.f32 or poot.i32{also}."
    if options:
        return f"convert them with {convert} in @poot.trace or poot.device."
    return "cast them to a dtype that the device has, such as poot.f32, before they are passed."


WIDE = (f64, i64, u64)
"""What a precision may convert."""
_BY_NUMPY: dict[np.dtype[Any], DType] = {dtype.dtype: dtype for dtype in WIDE}
