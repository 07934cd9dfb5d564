"""Products and sums of products.

Every product is one `dot_general`, whose sums of f16 and bf16 accumulate in f32 and are rounded once; integers wrap in
the result's dtype.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from poot.dtypes import DType, DTypeLike, bool_, f32, i32, u32
from poot.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from poot.trace.array import Array, ArrayLike, Axis
from poot.trace.dispatch import Operand, bind1, joined, lift
from poot.trace.ops import creation, elementwise, manipulation, reductions
from poot.trace.ops.axes import flag, many_axes, number, shown, static_int, static_ints
from poot.trace.ops.manipulation import matrix_transpose as matrix_transpose
from poot.trace.ops.maps import narrowed, widened
from poot.trace.ops.namespace import REFUSED_LINALG, missing, refuse
from poot.trace.ops.promotion import broadcast, broadcast_shapes, cast, common_dtype, dtype_argument, shape_of, strong
from poot.trace.ops.results import of_its_own
from poot.trace.source import user_location

__all__ = [
    "cross",
    "diagonal",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "norm",
    "vector_norm",
    "matrix_transpose",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
]


def __dir__() -> list[str]:
    return sorted(__all__)


Axes = tuple[int, ...]


def dot_general(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    contract: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    *,
    dtype: DTypeLike = None,
) -> Array:
    """The sum of products over the axes that `contract` pairs, for each index of the axes that `batch` pairs.

    The result's axes are the batch axes, the remaining ones of x1, and the remaining ones of x2.  It has the promoted
    dtype, or `dtype`, of its kind.
    """
    found = common_dtype(x1, x2, what="dot_general")
    return products(cast(x1, found), cast(x2, found), contract, batch, "dot_general", dtype)


def products(
    a: Operand,
    b: Operand,
    contract: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]],
    what: str,
    dtype: DTypeLike = None,
) -> Array:
    """`dot_general` of operands of one dtype, with its axes checked in the name of `what`."""
    if a.dtype == bool_:
        raise DTypeError(
            what=what, actual=bool_, expected="numbers", where=user_location(), remedy="cast the bools with i32(x)."
        )
    for axes in (contract, batch):
        if type(axes) not in (tuple, list) or len(axes) != 2:
            raise ArgumentTypeError(what=what, actual=shown(axes), expected="a pair of axes", where=user_location())
    ranks = len(a.shape), len(b.shape)
    ours, theirs = (many_axes(axes, rank, what) for axes, rank in zip(contract, ranks, strict=True))
    left, right = (many_axes(axes, rank, what) for axes, rank in zip(batch, ranks, strict=True))
    pairs = [*zip(ours, theirs, strict=False), *zip(left, right, strict=False)]
    if len(ours) != len(theirs) or len(left) != len(right) or any(a.shape[i] != b.shape[j] for i, j in pairs):
        raise ShapeError(
            what=what,
            actual=f"{a.shape} and {b.shape}",
            expected=f"equal extents on axes {ours + left} and {theirs + right}",
            where=user_location(),
        )
    operand = common_dtype(lift(a), lift(b))
    result = operand if dtype is None else dtype_argument(dtype)
    return bind1(
        "dot_general",
        (a, b),
        contract=(ours, theirs),
        batch=(left, right),
        accumulate=_accumulator(operand, result),
        dtype=result,
    )


def _accumulator(operand: DType, result: DType) -> DType:
    if operand.bits >= 32:
        return operand if result.bits <= operand.bits else result
    wide = f32 if operand.is_float else i32 if operand.kind == "int" else u32
    return wide if result.bits <= 32 else result


def matmul(x1: ArrayLike, x2: ArrayLike, /, *, dtype: DTypeLike = None) -> Array:
    """The matrix product x1 @ x2 of the last two axes; the others broadcast together.

    A 1-d operand is a row of x1 or a column of x2, and its axis does not appear in the result.  `dtype` keeps more of
    the sum than the promoted dtype: f32 for f16 operands, i32 for i8.
    """
    found = common_dtype(x1, x2, what="matmul")
    a, b = cast(x1, found), cast(x2, found)
    for operand in (a, b):
        if not operand.shape:
            raise ShapeError(what="matmul", actual=(), expected="at least one axis", where=user_location())
    inner = len(b.shape) - 2 if len(b.shape) > 1 else 0
    if a.shape[-1] != b.shape[inner]:
        raise ShapeError(
            what="matmul",
            actual=f"{a.shape} and {b.shape}",
            expected=f"axis {inner - len(b.shape)} of the second to be {a.shape[-1]}, the last axis of the first",
            where=user_location(),
            remedy="transpose one of them (`x.mT`), or change the order.",
        )
    if len(b.shape) <= 2:  # one product with all the rows of x1 at once
        return products(a, b, ((-1,), (inner,)), ((), ()), "matmul", dtype)
    return _batched(a, b, dtype)


def _batched(a: Operand, b: Operand, dtype: DTypeLike) -> Array:
    vector = len(a.shape) == 1
    if vector:
        a = manipulation.expand_dims(lift(a), axis=0)
    shared = broadcast_shapes([a.shape[:-2], b.shape[:-2]], "matmul")
    a, b = broadcast(a, (*shared, *a.shape[-2:])), broadcast(b, (*shared, *b.shape[-2:]))
    axes = tuple(range(len(shared)))
    result = products(a, b, ((-1,), (-2,)), (axes, axes), "matmul", dtype)
    return manipulation.squeeze(result, -2) if vector else result


def dot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """NumPy's dot: the last axis of x1 with the last but one of x2, or its only one; the product with a number."""
    found = common_dtype(x1, x2, what="dot")
    a, b = cast(x1, found), cast(x2, found)
    if not a.shape or not b.shape:
        return bind1("mul", (a, b))
    return products(a, b, ((-1,), (max(len(b.shape) - 2, 0),)), ((), ()), "dot")


def vecdot(x1: ArrayLike, x2: ArrayLike, /, axis: int = -1) -> Array:
    """The sum of products along one axis; the others broadcast together."""
    found = common_dtype(x1, x2, what="vecdot")
    a, b = (manipulation.moveaxis(lift(cast(x, found)), axis, -1) for x in (x1, x2))
    if a.shape[-1] != b.shape[-1]:
        raise ShapeError(
            what="vecdot", actual=f"{a.shape} and {b.shape}", expected="equal last axes", where=user_location()
        )
    shared = broadcast_shapes([a.shape[:-1], b.shape[:-1]], "vecdot")
    left, right = (broadcast(x, (*shared, x.shape[-1])) for x in (a, b))
    axes = tuple(range(len(shared)))
    return products(left, right, ((-1,), (-1,)), (axes, axes), "vecdot")


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Every product of an element of x1 with one of x2, both flattened: [size of x1, size of x2]."""
    with joined(x1, x2):
        return elementwise.multiply(manipulation.reshape(x1, (-1, 1)), manipulation.reshape(x2, (1, -1)))


def tensordot(
    x1: ArrayLike, x2: ArrayLike, /, axes: int | tuple[Sequence[int] | int, Sequence[int] | int] = 2
) -> Array:
    """The sum of products over pairs of axes: the last `axes` of x1 with the first of x2, or the pairs given."""
    found = common_dtype(x1, x2, what="tensordot")
    a, b = cast(x1, found), cast(x2, found)
    if isinstance(axes, (tuple, list)):
        if len(axes) != 2:
            raise ArgumentError(
                what="tensordot: axes", actual=axes, expected="a number, or a pair of axes", where=user_location()
            )
        ours, theirs = (static_ints(part, "tensordot: axes") for part in axes)
    else:
        axes = static_int(axes, "tensordot: axes")
        if not 0 <= axes <= min(len(a.shape), len(b.shape)):
            raise ArgumentError(
                what="tensordot: axes", actual=axes, expected="as many axes as both have", where=user_location()
            )
        ours, theirs = tuple(range(len(a.shape) - axes, len(a.shape))), tuple(range(axes))
    return products(a, b, (ours, theirs), ((), ()), "tensordot")


def vector_norm(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2) -> Array:
    """The norm of all elements along the axes as one vector: (sum |x|^ord)^(1/ord), or max |x| for infinity.

    `ord` 0 counts the elements that are not zero, and -infinity gives min |x|.
    """
    wide, dtype = widened(x, "vector_norm")
    size = elementwise.abs(wide)
    ord = number(ord, "vector_norm: ord")
    if ord == math.inf:
        result = reductions.max(size, axis, keepdims=keepdims)
    elif ord == -math.inf:
        result = reductions.min(size, axis, keepdims=keepdims)
    elif ord == 0:
        result = reductions.count_nonzero(size, axis, keepdims=keepdims)
    elif ord == 1:
        result = reductions.sum(size, axis, keepdims=keepdims)
    elif ord == 2:
        result = elementwise.sqrt(reductions.sum(size * size, axis, keepdims=keepdims))
    else:
        result = reductions.sum(size**ord, axis, keepdims=keepdims) ** (1 / ord)
    return narrowed(result, dtype)


def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: float | str = "fro") -> Array:
    """The norm of the last two axes: "fro", or the greatest or least sum of a column (1, -1) or row (inf, -inf)."""
    if len(shape_of(x)) < 2:
        raise ShapeError(what="matrix_norm", actual=shape_of(x), expected="at least two axes", where=user_location())
    if not isinstance(ord, str):
        ord = number(ord, "matrix_norm: ord")
    keepdims = flag(keepdims, "keepdims")
    if ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord not in (1, -1, math.inf, -math.inf):
        raise ArgumentError(
            what="matrix_norm: ord", actual=ord, expected='"fro", 1, -1, inf or -inf', where=user_location()
        )
    along = -2 if ord in (1, -1) else -1
    sums = vector_norm(x, axis=along, keepdims=True, ord=1)
    extreme = reductions.max if ord in (1, math.inf) else reductions.min
    result = extreme(sums, (-2, -1), keepdims=True)
    return result if keepdims else manipulation.squeeze(result, (-2, -1))


def norm(x: ArrayLike, /, ord: float | str | None = None, axis: Axis = None, keepdims: bool = False) -> Array:
    """NumPy's norm: of a vector along one axis, of matrices along two, by default of all elements, flattened."""
    if ord is None:
        return vector_norm(x, axis=axis, keepdims=keepdims)
    rank = len(shape_of(x))
    axes = many_axes(axis, rank, "norm")
    if len(axes) == 1 and not isinstance(ord, str):
        return vector_norm(x, axis=axes, keepdims=keepdims, ord=ord)
    if len(axes) != 2:
        raise ArgumentError(what="norm: axis", actual=axis, expected="one or two axes", where=user_location())
    result = matrix_norm(manipulation.moveaxis(x, axes, (-2, -1)), keepdims=keepdims, ord=ord)
    return manipulation.moveaxis(result, (-2, -1), axes) if flag(keepdims, "keepdims") else result


@of_its_own
def matrix_power(x: ArrayLike, n: int, /) -> Array:
    """The square matrices of the last two axes multiplied n times, by squaring; the identity for 0.

    ArgumentError for a negative n, which needs an inverse.
    """
    result, power = None, lift(strong(x))
    count = static_int(n, "matrix_power: n")
    if power.ndim < 2 or power.shape[-1] != power.shape[-2]:
        raise ShapeError(what="matrix_power", actual=power.shape, expected="square matrices", where=user_location())
    if count < 0:
        raise ArgumentError(what="matrix_power: n", actual=count, expected="0 or more", where=user_location())
    with joined(power):
        while count:
            if count % 2:
                result = power if result is None else matmul(result, power)
            count //= 2
            power = matmul(power, power) if count else power
        if result is not None:
            return result
        extent = power.shape[-1]
        return manipulation.broadcast_to(creation.eye(extent, dtype=power.dtype), power.shape)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The vector product along one axis of three elements; the others broadcast together."""
    found = common_dtype(x1, x2, what="cross")
    a, b = (manipulation.moveaxis(lift(cast(x, found)), axis, -1) for x in (x1, x2))
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ShapeError(
            what="cross", actual=f"{a.shape} and {b.shape}", expected="axes of three elements", where=user_location()
        )
    with joined(a, b):
        after, before = ((1, 2, 0), (2, 0, 1))
        left = [a[..., i] * b[..., j] for i, j in zip(after, before, strict=True)]
        right = [a[..., i] * b[..., j] for i, j in zip(before, after, strict=True)]
        parts = [one - other for one, other in zip(left, right, strict=True)]
        return manipulation.moveaxis(manipulation.stack(parts, -1), -1, axis)


def trace(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The sum of the diagonal, or of one `offset` above it, of the last two axes."""
    return reductions.sum(diagonal(x, offset=offset), -1)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The diagonal of the last two axes, or one `offset` above it, as a last axis."""
    array = lift(strong(x))
    if array.ndim < 2:
        raise ShapeError(what="diagonal", actual=array.shape, expected="at least two axes", where=user_location())
    *lead, rows, columns = array.shape
    offset = static_int(offset, "diagonal: offset")
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    first = offset if offset >= 0 else -offset * columns
    flat = manipulation.reshape(array, (*lead, rows * columns))
    last = first + (columns + 1) * (count - 1) + 1
    return manipulation.cut_axis(flat, flat.ndim - 1, first, last, columns + 1) if count else flat[..., :0]


if not TYPE_CHECKING:  # type checkers report unknown names themselves

    def __getattr__(name: str) -> Any:
        if name in REFUSED_LINALG:
            raise refuse(f"ops.linalg.{name}", REFUSED_LINALG[name])
        if name.startswith("__"):
            raise AttributeError(name)
        raise missing(__name__, name, __all__)
