"""Kernels on tracers, where nothing changes in place: values in, values out.

An `In` takes a value, an `InOut` the value that it starts with, an `Out` a spec of what it gives; the call returns
every `InOut` and `Out` in the order of parameters, and is an equation of the graph.  With a spec among its arguments a
call on concrete arrays works in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

from poot.api.array import DeviceArray
from poot.api.devices import apart
from poot.api.kernel_arguments import array_dtype, as_array, bound, check_spec, const, fail, scalar, scalar_dtype
from poot.api.kernel_plan import WIDE, Grid, Specialisations
from poot.dtypes import ArraySpec, DType, f32, i32, i64
from poot.errors import DeviceMismatchError
from poot.kernel.baked import baked
from poot.kernel.codec import encode
from poot.kernel.parse.annotations import BufferParameter, ConstParameter
from poot.kernel.parse.specialise import Layout, Request
from poot.plan.kernel_call import KERNEL_CALL
from poot.target import Target
from poot.trace.array import Array
from poot.trace.dispatch import Operand, active, bind
from poot.trace.literals import literal
from poot.trace.tracer import Tracer, WeakTracer


def is_functional(args: Sequence[Any]) -> bool:
    """Whether a call gives values rather than changing arrays."""
    return active() is not None or any(isinstance(arg, (Tracer, WeakTracer, ArraySpec)) for arg in args)


def refuse_traced_sizes(kernel: str, **sizes: object) -> None:
    """LaunchError where the size of a grid, or of a work-group, is a value of a traced function."""
    for word, size in sizes.items():
        parts = cast("Sequence[object]", size) if isinstance(size, (tuple, list)) else (size,)
        for part in parts:
            if isinstance(part, (Tracer, WeakTracer)):
                own = part.spec if isinstance(part, Tracer) else "a Python number"
                remedy = (
                    "a grid is static: give a Python int, such as x.shape[0], for as many threads as can be needed, "
                    "pass the count as an argument of the kernel, and leave out the rest with `if thread_index() < n:`."
                    if word != "workgroup"
                    else "a work-group is static: give a Python int."
                )
                fail(kernel, f"{word}= is a traced value ({own})", remedy)


def call_traced(specialisations: Specialisations, args: Sequence[Any], asked: Grid) -> Any:
    """Record the launch as an equation, or compute it; an array, or a tuple of several."""
    made = specialisations.definition
    variables: dict[TypeVar, DType] = {}
    consts: dict[str, Any] = {}
    operands: dict[str, Operand] = {}
    shapes: list[tuple[int, ...]] = []
    for item, value in zip(made.parameters.items, args, strict=True):
        match item:
            case BufferParameter():
                spec = _spec(made.name, item, value)
                check_spec(made.name, item, spec, variables)
                shapes.append(spec.shape)
                if item.access != "write":
                    operands[item.name] = _operand(made.name, item, value)
            case ConstParameter():
                consts[item.name] = const(made.name, item, value)
            case _:
                pass
    for item, value in zip(made.parameters.items, args, strict=True):
        if not isinstance(item, (BufferParameter, ConstParameter)):
            own = value.dtype if isinstance(value, Array) else scalar_dtype(value)
            dtype = bound(made.name, item.name, item.element, own, variables)
            operands[item.name] = _scalar(made.name, item.name, value, dtype)
    size = asked.size(made.name, _ANYWHERE)
    extents = [extent for shape in shapes for extent in shape]
    threads = asked.threads or tuple(n * width for n, width in zip(asked.groups or (), size, strict=True))
    request = Request(
        variables,
        consts,
        [Layout(True, _ALIGNED)] * len(shapes),
        size,
        asked.workgroup is not None,
        asked.axes,
        i64 if max([*extents, *threads]) >= WIDE else i32,
    )
    specialised = specialisations.get(request)
    counts, groups = asked.counts(made.name, size, specialised.cooperative)
    kernel = baked(specialised.kernel, shapes, counts)
    ordered = [operands[name] for name in made.parameters.names if name in operands]
    try:
        results = bind(KERNEL_CALL.name, ordered, kernel=encode(kernel), groups=groups)
    except DeviceMismatchError:  # which knows the operands of an equation
        raise apart(
            (f"`{name}`", value.backend) for name, value in operands.items() if isinstance(value, DeviceArray)
        ) from None
    return results[0] if len(results) == 1 else results


#: Kernels on tracers are made before their target is known: this work-group suits every one.
_ANYWHERE = Target.parse("wgpu")
_ALIGNED = 16


def _spec(kernel: str, item: BufferParameter, value: Any) -> ArraySpec:
    """What an argument says of a buffer."""
    if isinstance(value, ArraySpec):
        if item.access != "write":
            fail(kernel, f"`{item.name}` is read, and is given the spec {value}", "pass its value.")
        return value
    if item.access == "write":
        what = value.spec if isinstance(value, Array) else type(value).__name__
        example = _example(item, value)
        fail(
            kernel,
            f"the output `{item.name}` is given {what}, where nothing is changed in place",
            f"pass the spec of the result, {example}; the call returns it.",
        )
    if isinstance(value, Array):
        return value.spec
    array = as_array(kernel, item, value)
    return ArraySpec(array_dtype(array), tuple(array.shape))


def _example(item: BufferParameter, value: Any) -> ArraySpec:
    """A spec for an output: that of the array given for it, where it has one."""
    shape, dtype = getattr(value, "shape", None), item.element
    if not isinstance(shape, tuple) or len(cast("tuple[Any, ...]", shape)) != item.rank:
        shape = (8,) * (item.rank - 1) + (64,)
    if not isinstance(dtype, DType):
        dtype = value.dtype if isinstance(value, Array) else f32
    return ArraySpec(dtype, cast("tuple[int, ...]", shape))


def _operand(kernel: str, item: BufferParameter, value: Any) -> Operand:
    return value if isinstance(value, Array) else as_array(kernel, item, value)


def _scalar(kernel: str, name: str, value: Any, dtype: DType) -> Operand:
    """A number as an operand: a literal, or a value of rank 0."""
    if isinstance(value, WeakTracer):
        if value.kind == "float*" and not dtype.is_float:
            fail(kernel, f"`{name}` is a Python float, where a scalar of {dtype} is needed", "pass an int.")
        value = value.materialise(dtype)
    if isinstance(value, (Tracer, DeviceArray)):
        if value.spec != ArraySpec(dtype, ()):
            fail(kernel, f"`{name}` is {value.spec}, where a scalar of {dtype} is needed", f"cast it: {dtype}(x).")
        return value
    return literal(scalar(kernel, name, value, dtype), dtype)
