"""Where an operation goes: into the trace that is being recorded, or to the evaluator of concrete arrays.

`bind` is the one way in which `ops` applies a primitive.  A layer above registers how concrete arrays are computed
(`register_eager`) and, for every trace that it starts (`tracing`), how arrays from outside become operands of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from poot.dtypes import DType
from poot.errors import BuilderError, ForeignHandleError
from poot.scopes import Scope
from poot.trace.array import Array, NumpyArray
from poot.trace.graph import Graph, Literal, Params, ParamValue
from poot.trace.places import at_home
from poot.trace.source import user_location
from poot.trace.tracer import Tracer

if TYPE_CHECKING:
    from poot.trace.builder import Builder

T = TypeVar("T")
#: An operand of a primitive: every array of its exact dtype, Python numbers as literals.
Operand: TypeAlias = Array | NumpyArray | Literal
#: Makes an array from outside a trace, concrete or NumPy, an operand of it.
Capture: TypeAlias = Callable[[Array | NumpyArray], Tracer]
#: The contents of an array from outside, which become part of the trace.
Read: TypeAlias = Callable[[Array | NumpyArray], NumpyArray]
#: Computes one primitive on concrete arrays.
Eager: TypeAlias = Callable[[str, Sequence[Operand], Params, tuple[Graph, ...]], tuple[Array, ...]]


@dataclass(frozen=True, slots=True)
class TraceContext:
    """One trace, or region of it, that is being recorded."""

    builder: Builder
    capture: Capture
    read: Read
    constant: Capture


#: The dtype that an array from outside a traced function has in it, from the array and its own dtype.
Taken: TypeAlias = Callable[[Array | NumpyArray, DType], DType]

_TAKEN: ContextVar[Taken | None] = ContextVar("poot_taken", default=None)
_ACTIVE: ContextVar[TraceContext | None] = ContextVar("poot_trace", default=None)
_NOWHERE_ELSE = nullcontext()
_eager: Eager | None = None


def active() -> TraceContext | None:
    """The innermost trace being recorded in this thread, or None."""
    return _ACTIVE.get()


def register_eager(function: Eager | None) -> None:
    """Set how primitives are computed on concrete arrays outside traces."""
    global _eager
    _eager = function


def refuse_capture(array: Array | NumpyArray) -> Tracer:
    """The capture rule of a bare builder: BuilderError."""
    spec = f"{array.dtype}[{','.join(map(str, array.shape))}]"
    remedy = "make it a constant: `w = builder.constant(name, spec)`, and bind its value when the graph runs."
    if isinstance(array, Array):  # of `ops.arange(4)`, say
        remedy = (
            "write a function f of the inputs, and take `poot.trace(f).graph(*specs, states=...)`, which records what"
            f" makes the array as well. Or {remedy}"
        )
    raise BuilderError(
        message=f"a concrete array, {spec}, meets a value of a Builder's graph", where=user_location(), remedy=remedy
    )


def tracing(
    builder: Builder, capture: Capture = refuse_capture, read: Read = np.asarray, constant: Capture | None = None
) -> Scope[TraceContext | None]:
    """Record every operation of the block, even of concrete arrays alone, with `builder`.

    `capture` is called for each concrete or NumPy array that an operation meets, and is to give the same tracer for the
    same array; within a region it may give a tracer of the trace around it, which the region's builder takes in.
    `read` is called where the contents of such an array decide what is recorded, and `constant` for arrays that were
    made of what it gave; without one they are captured.
    """
    return Scope(_ACTIVE, TraceContext(builder, capture, read, constant or capture))


def taking(taken: Taken) -> Scope[Taken | None]:
    """Let arrays that operations of the block meet, other than tracers, count as of the dtype that `taken` gives."""
    return Scope(_TAKEN, taken)


def outside(run: Callable[[], T]) -> T:
    """What `run` gives; afterwards nothing is traced but what was before, whatever in it was interrupted, and where."""
    before = _ACTIVE.get(), _TAKEN.get()
    try:
        return run()
    finally:
        _ACTIVE.set(before[0])
        _TAKEN.set(before[1])


def taken_dtype(array: Array | NumpyArray, dtype: DType) -> DType:
    """The dtype as of which a concrete or NumPy array of `dtype` counts here."""
    taken = _TAKEN.get()
    return dtype if taken is None else taken(array, dtype)


def bind(
    primitive: str, inputs: Sequence[Operand], regions: tuple[Graph, ...] = (), /, **params: ParamValue
) -> tuple[Array, ...]:
    """Apply a primitive to operands of exactly equal dtypes; one array an output.

    With a tracer among the inputs, or inside a trace, an equation is recorded; otherwise the registered evaluator
    computes it.  Raises ForeignHandleError for values of several builders and EscapedTracerError for those of one that
    has finished.
    """
    context = _ACTIVE.get()
    owner = _owner(inputs, context)
    if owner is None:
        if _eager is None:
            raise BuilderError(
                message=f"nothing can compute {primitive} on concrete arrays",
                where=user_location(),
                remedy="import poot, which brings the evaluator, or record the operation with a Builder.",
            )
        return _eager(primitive, inputs, Params(params), regions)
    capture = context.capture if context is not None and _within(owner, context.builder) else refuse_capture
    atoms = [item if isinstance(item, (Tracer, Literal)) else capture(item) for item in inputs]
    return owner.emit(primitive, atoms, Params(params), regions, user_location())


def bind1(primitive: str, inputs: Sequence[Operand], regions: tuple[Graph, ...] = (), /, **params: ParamValue) -> Array:
    """`bind` for a primitive of one output."""
    return bind(primitive, inputs, regions, **params)[0]


def lift(operand: Operand) -> Array:
    """An operand as an array: a tracer inside a trace, else a concrete array."""
    if isinstance(operand, Array):
        return operand
    context = _ACTIVE.get()
    if context is not None and not isinstance(operand, Literal):
        return context.capture(operand)
    if context is None and isinstance(operand, Literal):  # a number of no trace is an input: one program for them all
        operand = np.asarray(operand.value, operand.dtype.dtype)
    return bind1("broadcast", (operand,), shape=operand.shape, dims=tuple(range(len(operand.shape))))


def joined(*operands: object) -> AbstractContextManager[object]:
    """Record or compute the block, literals and iotas alone included, where `operands` are.

    Inside a trace this changes nothing; a bare builder, which is not active by itself, becomes active; and new arrays
    beside concrete ones go to their device.
    """
    if _ACTIVE.get() is not None:
        return _NOWHERE_ELSE
    concrete: Array | None = None
    for operand in operands:
        if isinstance(operand, Tracer):
            operand.check_alive()
            return tracing(operand.builder)
        if concrete is None and isinstance(operand, Array):
            concrete = operand
    return _NOWHERE_ELSE if concrete is None else at_home(concrete) or _NOWHERE_ELSE


def is_traced(*operands: object) -> bool:
    """Whether `bind` would record an operation on these operands."""
    return _ACTIVE.get() is not None or any(isinstance(operand, Tracer) for operand in operands)


def _owner(inputs: Sequence[Operand], context: TraceContext | None) -> Builder | None:
    """The builder that records: the innermost of the active one and the tracers', or that of a bare builder alone."""
    owner = None if context is None else context.builder
    met: Tracer | None = None
    for operand in inputs:
        if not isinstance(operand, Tracer):
            continue
        operand.check_alive()
        if owner is None or _within(operand.builder, owner) or (met is None and not _within(owner, operand.builder)):
            owner = operand.builder
        elif not _within(owner, operand.builder):
            raise ForeignHandleError(what=operand.label, where=user_location())
        met = operand
    return owner


def _within(inner: Builder, outer: Builder) -> bool:
    """Whether `inner` is `outer` or makes a region inside it."""
    builder: Builder | None = inner
    while builder is not None and builder is not outer:
        builder = builder.outer
    return builder is not None
