"""The abstract `Array`: what tracers and concrete arrays have in common.

Every operator and method is the function of `ops` of that name: a tracer records it, a concrete array runs it.  A
subclass provides `spec` and `_value`; nothing else is needed.
"""
# size: one class, whose methods are a line each

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, cast

import numpy as np
from typing_extensions import TypeIs, override

from poot.dtypes import ArraySpec, DType, DTypeLike
from poot.errors import ArgumentError, ArgumentTypeError, IndexFault, ShapeError
from poot.foreign import other_operand
from poot.trace.places import Placed
from poot.trace.source import user_location

if TYPE_CHECKING:
    from types import ModuleType

    from poot.trace import ops
    from poot.trace.ops.update import At
else:

    class _Operations:
        """`ops`, imported at its first use: its functions need `Array`, whose methods need them."""

        def __getattr__(self, name: str) -> Any:
            function = getattr(importlib.import_module("poot.trace.ops"), name)
            setattr(self, name, function)
            return function

    ops = _Operations()

Axis: TypeAlias = "int | Sequence[int] | None"
NumpyArray: TypeAlias = np.ndarray[Any, Any]


class Array(Placed):
    """An array of a static dtype and shape.

    `a + b`, `a @ b`, `a[i, 1:]`, `a == b` and the like work element by element as in NumPy, promote dtypes as
    `docs/dtypes.md` says, and give a new array; nothing is changed in place (`a.at[i].set(v)` gives a changed copy).
    Methods are the functions of `ops` of the same name.  Arrays are not hashable, since `==` compares elements.
    """

    __slots__ = ()
    __array_priority__ = 1000

    if TYPE_CHECKING:

        @property
        def spec(self) -> ArraySpec:
            """Dtype and shape."""
            ...

    def _value(self, use: str) -> NumpyArray:
        """The elements, read-only, for `use` ("a bool", "an index" …); tracers raise ConcretizationError."""
        raise ArgumentTypeError(what=use, actual=type(self).__name__, expected="an array that holds a value")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape

    @property
    def dtype(self) -> DType:
        return self.spec.dtype

    @property
    def ndim(self) -> int:
        return len(self.spec.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.spec.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.spec.nbytes

    @property
    def T(self) -> Array:  # noqa: N802 - NumPy's name
        """The axes in reverse order."""
        return ops.permute_dims(self, tuple(reversed(range(self.ndim))))

    @property
    def mT(self) -> Array:  # noqa: N802 - the array API's name
        """The last two axes swapped; ShapeError below two axes."""
        return ops.matrix_transpose(self)

    @property
    def at(self) -> At:
        """`x.at[i].set(v)`: x with the elements at i replaced.

        Also add, subtract, multiply, divide, power, min, max, and get.
        """
        return ops.update.At(self)

    # --- values -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError(what="len()", actual=self.shape, expected="at least one axis")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        if not self.shape:
            raise ShapeError(what="iterating over an array", actual=self.shape, expected="at least one axis")
        return map(self.__getitem__, range(self.shape[0]))

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, OPERANDS):
            other_operand(value, "in")
            return False
        return bool(ops.any(self == value))

    def __bool__(self) -> bool:
        return bool(self._scalar("a bool"))

    def __int__(self) -> int:
        return int(self._scalar("an int"))

    def __float__(self) -> float:
        return float(self._scalar("a float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("a complex number"))

    def __index__(self) -> int:
        value = self._scalar("an index")
        if not self.dtype.is_integer:
            raise ArgumentTypeError(what="index", actual=str(self.spec), expected="a 0-d integer array")
        return int(value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NumpyArray:
        value = self._value("a NumPy array")
        try:
            return np.array(value, dtype, copy=copy)
        except (TypeError, UnicodeError) as error:
            expected = f"one of NumPy's that {self.dtype} converts to ({error})"
            raise ArgumentTypeError(what="dtype", actual=f"{dtype!r:.60}", expected=expected) from None

    def item(self, *index: int) -> bool | int | float:
        """The only element, or the one at `index`, as a Python number."""
        value = self._value("a Python number")
        if not index and value.size != 1:
            raise ShapeError(what="item()", actual=self.shape, expected="exactly one element, or an index")
        try:
            return cast("bool | int | float", value.item(*index))
        except (IndexError, OverflowError):
            extents = (value.size,) if len(index) == 1 else value.shape
            pairs = [(place, axis) for axis, place in enumerate(index) if not -extents[axis] <= place < extents[axis]]
            place, axis = pairs[0]
            raise IndexFault(
                what="item", index=place, axis=axis, extent=extents[axis], where=user_location(), remedy=""
            ) from None
        except (TypeError, ValueError):
            raise ArgumentTypeError(
                what="item", actual=f"{index!r:.60}", expected=f"an int, or {value.ndim} of them, one an axis"
            ) from None

    @override
    def __format__(self, spec: str) -> str:
        """The text of the array; a format is one of the number that a 0-d array holds."""
        if not spec:
            return str(self)
        if self.shape:
            raise ArgumentTypeError(
                what=f"format {spec!r}", actual=f"an array {self.spec}", expected="a 0-d array",
                remedy="format the elements of x.tolist(), or str(x).",
            )  # fmt: skip
        try:
            return format(self.item(), spec)
        except ValueError as error:
            raise ArgumentError(what="format", actual=spec, expected=f"one of a {self.dtype} ({error})") from None

    def tobytes(self) -> bytes:
        """The elements' bytes in row-major order."""
        return self._value("bytes").tobytes()

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return self._value("a list").tolist()

    def _scalar(self, use: str) -> Any:
        value = self._value(use)
        if value.size != 1:
            remedy = "use x.any() or x.all()." if use == "a bool" else None
            raise ShapeError(
                what=f"an array used as {use}", actual=self.shape, expected="exactly one element", remedy=remedy
            )
        return value.item()

    __hash__ = None  # type: ignore[assignment]

    # --- NumPy, the array API and casts -------------------------------------------------------------------------------

    def __poot_astype__(self, dtype: DType) -> Array:
        return ops.astype(self, dtype)

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        return ops.numpy_protocol.array_namespace(api_version)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return ops.numpy_protocol.numpy_ufunc(ufunc, method, inputs, options)

    def __array_function__(
        self, function: Callable[..., Any], types: Sequence[type], args: Sequence[Any], options: dict[str, Any]
    ) -> Any:
        return ops.numpy_protocol.numpy_function(function, args, options)

    # --- indexing ---------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Array:
        return ops.indexing.getitem(self, key)

    # --- operators --------------------------------------------------------------------------------------------------

    def __neg__(self) -> Array:
        return ops.negative(self)

    def __pos__(self) -> Array:
        return ops.positive(self)

    def __abs__(self) -> Array:
        return ops.abs(self)

    def __round__(self, decimals: int = 0) -> Array:
        return ops.round(self, decimals)

    def __invert__(self) -> Array:
        return ops.bitwise_invert(self)

    def __add__(self, other: ArrayLike) -> Array:
        return ops.add(self, other) if isinstance(other, OPERANDS) else other_operand(other, "+")

    def __radd__(self, other: ArrayLike) -> Array:
        return ops.add(other, self) if isinstance(other, OPERANDS) else other_operand(other, "+")

    def __sub__(self, other: ArrayLike) -> Array:
        return ops.subtract(self, other) if isinstance(other, OPERANDS) else other_operand(other, "-")

    def __rsub__(self, other: ArrayLike) -> Array:
        return ops.subtract(other, self) if isinstance(other, OPERANDS) else other_operand(other, "-")

    def __mul__(self, other: ArrayLike) -> Array:
        return ops.multiply(self, other) if isinstance(other, OPERANDS) else self._times(other)

    def __rmul__(self, other: ArrayLike) -> Array:
        return ops.multiply(other, self) if isinstance(other, OPERANDS) else self._times(other)

    def _times(self, other: Any) -> Any:
        """What `*` gives for what is no operand: an array that can be an index repeats a list, as an int does."""
        if type(other) in (list, tuple, str, bytes) and not self.shape and self.dtype.is_integer:
            return NotImplemented
        return other_operand(other, "*")

    def __truediv__(self, other: ArrayLike) -> Array:
        return ops.divide(self, other) if isinstance(other, OPERANDS) else other_operand(other, "/")

    def __rtruediv__(self, other: ArrayLike) -> Array:
        return ops.divide(other, self) if isinstance(other, OPERANDS) else other_operand(other, "/")

    def __floordiv__(self, other: ArrayLike) -> Array:
        return ops.floor_divide(self, other) if isinstance(other, OPERANDS) else other_operand(other, "//")

    def __rfloordiv__(self, other: ArrayLike) -> Array:
        return ops.floor_divide(other, self) if isinstance(other, OPERANDS) else other_operand(other, "//")

    def __mod__(self, other: ArrayLike) -> Array:
        return ops.remainder(self, other) if isinstance(other, OPERANDS) else other_operand(other, "%")

    def __rmod__(self, other: ArrayLike) -> Array:
        return ops.remainder(other, self) if isinstance(other, OPERANDS) else other_operand(other, "%")

    def __divmod__(self, other: ArrayLike) -> tuple[Array, Array]:
        return ops.divmod(self, other) if isinstance(other, OPERANDS) else other_operand(other, "divmod()")

    def __rdivmod__(self, other: ArrayLike) -> tuple[Array, Array]:
        return ops.divmod(other, self) if isinstance(other, OPERANDS) else other_operand(other, "divmod()")

    def __pow__(self, other: ArrayLike) -> Array:
        return ops.pow(self, other) if isinstance(other, OPERANDS) else other_operand(other, "**")

    def __rpow__(self, other: ArrayLike) -> Array:
        return ops.pow(other, self) if isinstance(other, OPERANDS) else other_operand(other, "**")

    def __matmul__(self, other: ArrayLike) -> Array:
        return ops.matmul(self, other) if isinstance(other, OPERANDS) else other_operand(other, "@")

    def __rmatmul__(self, other: ArrayLike) -> Array:
        return ops.matmul(other, self) if isinstance(other, OPERANDS) else other_operand(other, "@")

    def __and__(self, other: ArrayLike) -> Array:
        return ops.bitwise_and(self, other) if isinstance(other, OPERANDS) else other_operand(other, "&")

    def __rand__(self, other: ArrayLike) -> Array:
        return ops.bitwise_and(other, self) if isinstance(other, OPERANDS) else other_operand(other, "&")

    def __or__(self, other: ArrayLike) -> Array:
        return ops.bitwise_or(self, other) if isinstance(other, OPERANDS) else other_operand(other, "|")

    def __ror__(self, other: ArrayLike) -> Array:
        return ops.bitwise_or(other, self) if isinstance(other, OPERANDS) else other_operand(other, "|")

    def __xor__(self, other: ArrayLike) -> Array:
        return ops.bitwise_xor(self, other) if isinstance(other, OPERANDS) else other_operand(other, "^")

    def __rxor__(self, other: ArrayLike) -> Array:
        return ops.bitwise_xor(other, self) if isinstance(other, OPERANDS) else other_operand(other, "^")

    def __lshift__(self, other: ArrayLike) -> Array:
        return ops.bitwise_left_shift(self, other) if isinstance(other, OPERANDS) else other_operand(other, "<<")

    def __rlshift__(self, other: ArrayLike) -> Array:
        return ops.bitwise_left_shift(other, self) if isinstance(other, OPERANDS) else other_operand(other, "<<")

    def __rshift__(self, other: ArrayLike) -> Array:
        return ops.bitwise_right_shift(self, other) if isinstance(other, OPERANDS) else other_operand(other, ">>")

    def __rrshift__(self, other: ArrayLike) -> Array:
        return ops.bitwise_right_shift(other, self) if isinstance(other, OPERANDS) else other_operand(other, ">>")

    @override
    def __eq__(self, other: object) -> Array:  # type: ignore[override]
        return ops.equal(self, cast(Any, other)) if isinstance(other, OPERANDS) else self._unequal(other, "==")

    @override
    def __ne__(self, other: object) -> Array:  # type: ignore[override]
        return ops.not_equal(self, cast(Any, other)) if isinstance(other, OPERANDS) else self._unequal(other, "!=")

    def _unequal(self, other: object, operator: str) -> Any:
        """What `==` and `!=` give for what is no operand: no bool, as Python would, where others compare by element."""
        if isinstance(other, (list, tuple)):
            raise ArgumentTypeError(
                what=f"{operator} on an array", actual=type(cast(object, other)).__name__,
                expected="an array or a number", where=user_location(), remedy="convert it with ops.asarray first.",
            )  # fmt: skip
        return other_operand(other, operator)

    def __lt__(self, other: ArrayLike) -> Array:
        return ops.less(self, other) if isinstance(other, OPERANDS) else other_operand(other, "<")

    def __le__(self, other: ArrayLike) -> Array:
        return ops.less_equal(self, other) if isinstance(other, OPERANDS) else other_operand(other, "<=")

    def __gt__(self, other: ArrayLike) -> Array:
        return ops.greater(self, other) if isinstance(other, OPERANDS) else other_operand(other, ">")

    def __ge__(self, other: ArrayLike) -> Array:
        return ops.greater_equal(self, other) if isinstance(other, OPERANDS) else other_operand(other, ">=")

    # --- NumPy's method names ---------------------------------------------------------------------------------------

    def astype(self, dtype: DTypeLike, *, copy: bool = True) -> Array:
        return ops.astype(self, dtype, copy=copy)

    def copy(self) -> Array:
        """The same elements in memory of their own; a value inside a trace is itself."""
        return ops.copy(self)

    def view(self, dtype: DTypeLike) -> Array:
        """The bits of the elements as another dtype of the same width; a value of its own, no view of memory."""
        return ops.bitcast(self, dtype)

    def reshape(self, *shape: int | Sequence[int]) -> Array:
        return ops.reshape(self, _spread(shape))

    def ravel(self) -> Array:
        return ops.reshape(self, (-1,))

    def flatten(self) -> Array:
        return ops.reshape(self, (-1,))

    def transpose(self, *axes: int | Sequence[int] | None) -> Array:
        return ops.transpose(self, _spread(axes) if axes and axes[0] is not None else None)

    def swapaxes(self, axis1: int, axis2: int) -> Array:
        return ops.swapaxes(self, axis1, axis2)

    def squeeze(self, axis: Axis = None) -> Array:
        return ops.squeeze(self, axis)

    def repeat(self, repeats: int, axis: int | None = None) -> Array:
        return ops.repeat(self, repeats, axis=axis)

    def take(self, indices: ArrayLike, axis: int | None = None, *, mode: IndexMode = "fault") -> Array:
        return ops.take(self, indices, axis=axis, mode=mode)

    def clip(self, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
        return ops.clip(self, min, max)

    def round(self, decimals: int = 0) -> Array:
        return ops.round(self, decimals)

    def dot(self, other: ArrayLike) -> Array:
        return ops.dot(self, other)

    def sum(self, axis: Axis = None, *, dtype: DTypeLike = None, keepdims: bool = False) -> Array:
        return ops.sum(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def prod(self, axis: Axis = None, *, dtype: DTypeLike = None, keepdims: bool = False) -> Array:
        return ops.prod(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def mean(self, axis: Axis = None, *, keepdims: bool = False) -> Array:
        return ops.mean(self, axis=axis, keepdims=keepdims)

    def var(self, axis: Axis = None, *, ddof: float = 0.0, keepdims: bool = False) -> Array:
        return ops.var(self, axis=axis, correction=ddof, keepdims=keepdims)

    def std(self, axis: Axis = None, *, ddof: float = 0.0, keepdims: bool = False) -> Array:
        return ops.std(self, axis=axis, correction=ddof, keepdims=keepdims)

    def max(self, axis: Axis = None, *, keepdims: bool = False) -> Array:
        return ops.max(self, axis=axis, keepdims=keepdims)

    def min(self, axis: Axis = None, *, keepdims: bool = False) -> Array:
        return ops.min(self, axis=axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Array:
        return ops.argmax(self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Array:
        return ops.argmin(self, axis=axis, keepdims=keepdims)

    def sort(self, axis: int | None = -1) -> Array:
        """The elements in order, as a new array: nothing is changed in place."""
        return ops.sort(self, axis=axis)

    def searchsorted(
        self, v: ArrayLike, side: Literal["left", "right"] = "left", sorter: ArrayLike | None = None
    ) -> Array:
        return ops.searchsorted(self, v, side=side, sorter=sorter)

    def nonzero(self) -> NoReturn:
        """Refuses: the number of positions depends on values."""
        ops.numpy_names.nonzero()

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        return ops.numpy_names.diagonal(self, offset, axis1, axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        return ops.numpy_names.trace(self, offset, axis1, axis2)

    def argsort(self, axis: int | None = -1) -> Array:
        return ops.argsort(self, axis=axis)

    def cumsum(self, axis: int | None = None) -> Array:
        return ops.cumsum(self, axis=axis)

    def cumprod(self, axis: int | None = None) -> Array:
        return ops.cumprod(self, axis=axis)

    def any(self, axis: Axis = None, *, keepdims: bool = False) -> Array:
        return ops.any(self, axis=axis, keepdims=keepdims)

    def all(self, axis: Axis = None, *, keepdims: bool = False) -> Array:
        return ops.all(self, axis=axis, keepdims=keepdims)


#: What the functions of `ops` take beside arrays: NumPy arrays and scalars, and Python numbers.
ArrayLike: TypeAlias = "Array | NumpyArray | np.generic[Any] | bool | int | float"
OPERANDS: tuple[type[Any], ...] = (Array, np.ndarray, np.generic, bool, int, float)

#: What an out-of-range index does: fail when the result is read, go to the nearest end, count round, read as the fill
#: value, or (in updates) change nothing.
IndexMode: TypeAlias = Literal["fault", "clip", "wrap", "fill", "drop"]


def python_number(x: object) -> object:
    """The Python number that a NumPy scalar holds; everything else as it is."""
    return cast(Any, x).item() if isinstance(x, np.generic) else x


def is_array(x: object) -> TypeIs[Array | NumpyArray]:
    """Whether x is an array, of poot or NumPy."""
    return isinstance(x, (Array, np.ndarray))


def _spread(arguments: tuple[Any, ...]) -> tuple[int, ...]:
    """`x.reshape(2, 3)` and `x.reshape((2, 3))` are the same."""
    alone = len(arguments) == 1 and isinstance(arguments[0], Sequence)
    return tuple(cast("Sequence[int]", arguments[0])) if alone else arguments
