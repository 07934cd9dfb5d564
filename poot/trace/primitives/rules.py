"""What type rules share: parameters, dtypes and axes checked with uniform messages, and the tests' pool of shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from poot.dtypes import ArraySpec, DType
from poot.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from poot.trace.graph import Graph, Params
from poot.trace.primitives.base import Example

Specs = tuple[ArraySpec, ...]

#: Operand shapes of generated tests: 0-d, size 1, empty, odd, and wider than a vector.
SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (0,), (7,), (3, 5), (2, 0, 3), (4, 1, 9), (33,))


def arity(name: str, specs: Specs, count: int) -> None:
    """ArgumentError unless there are `count` operands."""
    if len(specs) != count:
        raise ArgumentError(what=f"{name}: number of operands", actual=len(specs), expected=str(count))


def parameters(name: str, params: Params, *required: str, optional: Sequence[str] = ()) -> None:
    """ArgumentError unless `params` has every required name and no unknown one."""
    for key in params:
        if key not in required and key not in optional:
            known = ", ".join((*required, *optional)) or "none"
            raise ArgumentError(what=f"{name}: parameter", actual=key, expected=f"one of its parameters ({known})")
    for key in required:
        if key not in params:
            raise ArgumentError(what=f"{name}: parameters", actual=tuple(params), expected=f"also {key!r}")


def no_regions(name: str, regions: tuple[Graph, ...]) -> None:
    """ArgumentError if a primitive that takes no regions was given some."""
    if regions:
        raise ArgumentError(what=f"{name}: number of regions", actual=len(regions), expected="0")


def admit(name: str, spec: ArraySpec, dtypes: Sequence[DType], operand: int = 1) -> None:
    """DTypeError unless an operand has one of the dtypes."""
    if spec.dtype not in dtypes:
        expected = names(dtypes)
        raise DTypeError(what=f"{name}: operand {operand}", actual=spec.dtype, expected=expected)


def names(dtypes: Sequence[DType]) -> str:
    """A list of dtypes for a message."""
    return dtypes[0].name if len(dtypes) == 1 else "one of " + ", ".join(dtype.name for dtype in dtypes)


def same_dtypes(name: str, specs: Specs, first: int = 1) -> None:
    """DTypeError unless all operands share the dtype of the first; `first` is its number in messages."""
    for number, spec in enumerate(specs[1:], first + 1):
        if spec.dtype is not specs[0].dtype:
            raise DTypeError(
                what=f"{name}: operand {number}",
                actual=spec.dtype,
                expected=f"{specs[0].dtype}, as operand {first}",
                remedy="cast one of them; primitives take equal dtypes.",
            )


def spread_shape(name: str, specs: Specs) -> tuple[int, ...]:
    """The shape of a MAP: operands of equal shape, or 0-d; ShapeError otherwise."""
    shaped = [(number, spec.shape) for number, spec in enumerate(specs, 1) if spec.shape]
    for number, shape in shaped[1:]:
        if shape != shaped[0][1]:
            raise ShapeError(
                what=f"{name}: operand {number}",
                actual=shape,
                expected=f"{shaped[0][1]}, as operand {shaped[0][0]}, or ()",
            )
    return shaped[0][1] if shaped else ()


def integer(name: str, params: Params, key: str) -> int:
    """An int parameter; ArgumentTypeError otherwise."""
    value = params[key]
    if type(value) is not int:
        raise ArgumentTypeError(what=f"{name}: {key}", actual=repr(value), expected="an int")
    return value


def integers(name: str, params: Params, key: str, count: int | None = None, least: int | None = 0) -> tuple[int, ...]:
    """A parameter that is a tuple of ints, of a given length and least value if stated."""
    value = params[key]
    if not isinstance(value, tuple) or any(type(item) is not int for item in value):
        raise ArgumentTypeError(what=f"{name}: {key}", actual=repr(value), expected="a tuple of ints")
    found = cast("tuple[int, ...]", value)
    if count is not None and len(found) != count:
        raise ArgumentError(what=f"{name}: {key}", actual=found, expected=f"{count} ints")
    if least is not None and any(item < least for item in found):
        raise ArgumentError(what=f"{name}: {key}", actual=found, expected=f"ints of at least {least}")
    return found


def axis(name: str, params: Params, rank: int, key: str = "axis") -> int:
    """A parameter that is one axis of an operand, counted from 0."""
    value = integer(name, params, key)
    if not 0 <= value < rank:
        raise ArgumentError(what=f"{name}: {key}", actual=value, expected=f"an axis of a rank-{rank} operand, from 0")
    return value


def told_apart(name: str, shape: tuple[int, ...], axis: int, dtype: DType, most: int | None = None) -> None:
    """ShapeError where an axis is longer than positions of a dtype tell apart, or than `most`."""
    limit = int(dtype.max) + 1 if most is None else most
    if shape[axis] > limit:
        expected = f"at most {limit} elements along axis {axis}: positions are {dtype}"
        raise ShapeError(what=name, actual=shape, expected=expected, remedy="split the axis into several.")


def axes(name: str, params: Params, rank: int, key: str = "axes") -> tuple[int, ...]:
    """A parameter that is a tuple of distinct axes in ascending order."""
    value = integers(name, params, key)
    if any(not 0 <= item < rank for item in value) or list(value) != sorted(set(value)):
        raise ArgumentError(what=f"{name}: {key}", actual=value, expected=f"distinct ascending axes below {rank}")
    return value


def dtype_param(name: str, params: Params, allowed: Sequence[DType], key: str = "dtype") -> DType:
    """A dtype parameter; DTypeError where it is not allowed."""
    value = params[key]
    if not isinstance(value, DType):
        raise ArgumentTypeError(what=f"{name}: {key}", actual=repr(value), expected="a dtype")
    if value not in allowed:
        raise DTypeError(what=f"{name}: {key}", actual=value, expected=names(allowed))
    return value


def choice(name: str, params: Params, key: str, allowed: Sequence[str]) -> str:
    """A string parameter with fixed values."""
    value = params[key]
    if value not in allowed:
        expected = "one of " + ", ".join(repr(item) for item in allowed)
        raise ArgumentError(what=f"{name}: {key}", actual=value, expected=expected)
    return cast("str", value)


def unary_examples(params: Params | None = None) -> tuple[Example, ...]:
    """One operand of every shape of the pool."""
    return tuple(Example((shape,), params or Params()) for shape in SHAPES)


def spread_examples(count: int) -> tuple[Example, ...]:
    """All operands of one shape, for each of the pool, and cases in which each operand in turn is 0-d."""
    whole = tuple(Example((shape,) * count) for shape in SHAPES)
    mixed = tuple(
        Example(tuple(() if position == scalar else (3, 5) for position in range(count))) for scalar in range(count)
    )
    return whole + mixed
