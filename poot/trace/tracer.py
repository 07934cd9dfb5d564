"""Tracers: the arrays that stand for values while a function is traced or a graph is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Self

from typing_extensions import override

from poot.dtypes import ArraySpec, DType, WeakKind, bool_, concrete
from poot.errors import ConcretizationError, EscapedTracerError, TracerMutationError
from poot.foreign import other_operand
from poot.trace.array import Array, NumpyArray
from poot.trace.graph import Value
from poot.trace.source import user_location

if TYPE_CHECKING:
    from poot.trace.builder import Builder


class Valueless(Array):
    """What tracers have in common: copies of one are the tracer itself, which nothing changes, and pickling refuses."""

    __slots__ = ()

    if TYPE_CHECKING:

        def without_value(self, use: str) -> ConcretizationError:
            """The error of a use that needs the value."""
            ...

    @override
    def _value(self, use: str) -> NumpyArray:
        raise self.without_value(use)

    def __copy__(self) -> Self:
        return self  # nothing changes it

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    @override
    def __reduce_ex__(self, protocol: Any) -> Any:
        raise self.without_value("bytes")


class Tracer(Valueless):
    """A value of the graph that `builder` is making.  `id` is its key in `evaluate` and `finish`."""

    __slots__ = ("builder", "name", "numbers", "value")

    def __init__(self, builder: Builder, value: Value, name: str = "") -> None:
        self.builder = builder
        self.value = value
        self.name = name
        #: The arguments that it was computed from, where these were Python numbers alone.
        self.numbers: tuple[str, ...] = ()

    @property
    @override
    def spec(self) -> ArraySpec:
        return self.value.spec

    @property
    def id(self) -> int:
        """The value's id in its graph."""
        return self.value.id

    @property
    def label(self) -> str:
        """What messages call this value: its name, or its number in the graph, and its spec."""
        return f"`{self.name}`, {self.spec}," if self.name else f"%{self.id}, {self.spec},"

    @override
    def without_value(self, use: str) -> ConcretizationError:
        """The error of a use that needs the value; EscapedTracerError is raised once the trace has ended."""
        self.check_alive()
        return _without_value(self.label, self.builder.name, use, self.numbers)

    def check_alive(self) -> None:
        """EscapedTracerError if the trace that made this tracer has ended."""
        if self.builder.finished:
            raise EscapedTracerError(what=self.label, function=self.builder.name, where=user_location())

    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise TracerMutationError(what=self.label, function=self.builder.name, where=user_location())

    @override
    def __repr__(self) -> str:
        return f"Tracer({self.name or f'%{self.id}'}: {self.spec})"


class WeakTracer(Valueless):
    """A Python int or float passed to a traced function: a 0-d run-time scalar that takes the dtype it meets.

    `kind` is "int*" or "float*".  `materialise(dtype)` gives the tracer of this scalar at one dtype; whoever makes the
    WeakTracer supplies it as `slot`, and makes one graph input for each dtype it is asked for (the call converts the
    Python number to each and range-checks it).  Alone it counts as i32 or f32.  Python operators on weak scalars alone
    give weak scalars, as they would on the numbers themselves; functions of `ops` give ordinary arrays.
    """

    __slots__ = ("_slot", "function", "kind", "name", "numbers")

    def __init__(
        self,
        kind: WeakKind,
        slot: Callable[[DType], Array],
        *,
        name: str = "",
        function: str = "",
        numbers: tuple[str, ...] = (),
    ) -> None:
        self.kind: WeakKind = kind
        self.name = name
        #: The arguments that it is, or was computed from.
        self.numbers = numbers or ((name.partition(".")[0],) if name else ())
        self.function = function
        self._slot = slot

    @property
    @override
    def spec(self) -> ArraySpec:
        return ArraySpec(concrete(self.kind), ())

    @override
    def _unequal(self, other: object, operator: str) -> Any:
        return other_operand(other, operator)  # a Python number is unequal to every list

    def materialise(self, dtype: DType) -> Array:
        """This scalar as a strong 0-d array of `dtype`, which is a float dtype for a "float*"."""
        return self._slot(dtype)

    @property
    def label(self) -> str:
        """What messages call this scalar."""
        return f"`{self.name}`, a Python number," if self.name else "a result of Python numbers"

    @override
    def without_value(self, use: str) -> ConcretizationError:
        """The error of a use that needs the value."""
        return _without_value(self.label, self.function, use, self.numbers)

    @override
    def __repr__(self) -> str:
        return f"WeakTracer({self.name or '_'}: {'int' if self.kind == 'int*' else 'float'})"


class WeakNumber(WeakTracer):
    """A WeakTracer with a value: a Python int or float passed to a traced function that runs without being traced.

    `read` gives the value; `slot` gives concrete arrays.
    """

    __slots__ = ("_read",)

    def __init__(
        self,
        kind: WeakKind,
        slot: Callable[[DType], Array],
        read: Callable[[], NumpyArray],
        *,
        name: str = "",
        function: str = "",
    ) -> None:
        super().__init__(kind, slot, name=name, function=function)
        self._read = read

    @override
    def _value(self, use: str) -> NumpyArray:
        return self._read()

    @override
    def __reduce_ex__(self, protocol: Any) -> Any:
        number = self.item()
        return type(number), (number,)

    @override
    def __repr__(self) -> str:
        return f"WeakNumber({self})"

    @override
    def __str__(self) -> str:
        return str(self.item())

    @override
    def __format__(self, spec: str) -> str:
        return format(self.item(), spec)


def _without_value(what: str, function: str, use: str, numbers: tuple[str, ...]) -> ConcretizationError:
    remedy = _remedy(numbers, use)
    return ConcretizationError(what=what, function=function, use=use, where=user_location(), remedy=remedy)


def _numbers(*operands: object) -> tuple[str, ...]:
    weak = [operand for operand in operands if isinstance(operand, WeakTracer)]
    return tuple(dict.fromkeys(name for operand in weak for name in operand.numbers))


def _remedy(numbers: tuple[str, ...], use: str) -> str:
    """What to do instead of a use; also where an argument that is a Python number would have to be known."""
    if not numbers:
        return _REMEDIES[use]
    names = f'"{numbers[0]}"' if len(numbers) == 1 else "(" + ", ".join(f'"{name}"' for name in numbers) + ")"
    return (
        f"make it static with static_argnames={names}{': ' if _REMEDIES[use] is _USE_INT else ', or '}{_REMEDIES[use]}"
    )


def _stay_weak(operator: str) -> None:
    """Let `operator` give a weak scalar where all its operands are."""
    strong: Callable[..., Any] = getattr(Array, operator)

    def weak(self: WeakTracer, *others: Any) -> Any:
        result = strong(self, *others)
        if result is NotImplemented or not all(isinstance(other, (WeakTracer, int, float)) for other in others):
            return result
        kind: WeakKind = "float*" if result.dtype.is_float else "int*"
        if not isinstance(result, Tracer):
            return result if result.dtype is bool_ else WeakNumber(kind, result.__poot_astype__, result.__array__)
        numbers = _numbers(self, *others)
        if result.dtype is bool_:
            result.numbers = numbers
            return result
        return WeakTracer(kind, result.__poot_astype__, function=self.function, numbers=numbers)

    weak.__name__ = weak.__qualname__ = operator
    setattr(WeakTracer, operator, weak)


for _operator in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _stay_weak(f"__{_operator}__")
    _stay_weak(f"__r{_operator}__")
for _operator in ("neg", "abs", "pos", "lt", "le", "gt", "ge", "eq", "ne"):
    _stay_weak(f"__{_operator}__")

_USE_OPS = "use the functions of `ops` instead, or return it and convert the result of the call."
_USE_INT = "a size, axis or position in Python must be a static int; to read an element at a traced index write `x[i]`."
#: What to do instead, for each use that `Array` asks a value for.
_REMEDIES = {
    "a bool": "use `ops.where(condition, a, b)` to choose by element, or `ops.cond` to run one of two branches.",
    "an int": _USE_INT,
    "an index": _USE_INT,
    "a bound of a slice": "read a part of a fixed size with `ops.dynamic_slice(x, starts, sizes)`, or change one with "
    "`x.at[start + ops.arange(size)].set(v)`.",
    "a float": _USE_OPS,
    "a complex number": _USE_OPS,
    "a Python number": _USE_OPS,
    "a list": _USE_OPS,
    "bytes": _USE_OPS,
    "a NumPy array": _USE_OPS,
}
