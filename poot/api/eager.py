"""Operations on concrete arrays outside a trace, each as a program of one equation.

They are specialised by dtype and shape and kept in the process's call cache, where lines of the user's code share them;
Python numbers are inputs of them.
`with poot.eager():` (or POOT_EAGER=1) makes traced functions run this way, for a debugger and for print.
"""

from __future__ import annotations

import functools
from collections.abc import Generator, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

import numpy as np

from poot.api.array import DeviceArray, Held, Memory, upload
from poot.api.cache import CallCache
from poot.api.constants import keep
from poot.api.devices import apart, choose
from poot.api.invoke import await_borrowed, lend
from poot.api.precision import Precision
from poot.backends.device import BufferView, DeviceBackend
from poot.backends.executable import Call
from poot.backends.faults import FaultCheck
from poot.backends.progress import working
from poot.backends.settings import switch
from poot.dtypes import ArraySpec, as_dtype
from poot.errors import DeviceMismatchError, SourceLocation
from poot.plan.compile import compile as compile_graph
from poot.plan.legal import lacking
from poot.plan.limits import CompileLimits, CompileOptions
from poot.plan.program import Program
from poot.scopes import Scope
from poot.target import Target
from poot.trace.array import Array, NumpyArray
from poot.trace.builder import Builder
from poot.trace.dispatch import Operand, register_eager, taken_dtype
from poot.trace.graph import Graph, Literal, Params
from poot.trace.limits import TraceLimits
from poot.trace.source import user_location

_EAGER: ContextVar[bool | None] = ContextVar("poot_eager", default=None)
_CACHE: CallCache[Call] = CallCache()


#: Converts what `taken_dtype` gives another dtype than its own, which only precision options do.
_CONVERTING = Precision("f32", "i32")


@contextmanager
def eager() -> Generator[None]:
    """Run traced functions concretely, operation by operation, inside the block, for print and debuggers.

    Shapes and dtypes are those of traced calls; errors are raised where the operation stands.
    """
    with Scope(_EAGER, True):
        yield


def is_eager() -> bool:
    """Whether traced functions run concretely here."""
    chosen = _EAGER.get()
    return _always() if chosen is None else chosen


@functools.cache
def _always() -> bool:
    """What POOT_EAGER says at the first call."""
    return switch("POOT_EAGER", False)


def apply(primitive: str, inputs: Sequence[Operand], params: Params, regions: tuple[Graph, ...]) -> tuple[Array, ...]:
    """Compute one primitive on concrete arrays; arrays of NumPy follow those of poot to their device."""
    try:
        device = choose(None, [item.backend for item in inputs if isinstance(item, DeviceArray)])
    except DeviceMismatchError:
        raise apart(
            (f"operand {place} of {primitive}, {item.spec},", item.backend)
            for place, item in enumerate(inputs, 1)
            if isinstance(item, DeviceArray)
        ) from None
    operands = [number(item, device) if isinstance(item, Literal) else item for item in inputs]
    specs = tuple(map(_spec, operands))
    key: Hashable = (primitive, specs, params, regions, device.name, id(device))
    if regions:  # whose equations keep lines of their own, which equality leaves out
        key = key, user_location(), tuple(_lines(regions))
    call = _CACHE.get(key, lambda: _compile(primitive, specs, params, regions, device))
    views: list[BufferView] = []
    alive: list[object] = []
    for item, spec in zip(operands, specs, strict=True):
        if isinstance(item, DeviceArray) and item.dtype is spec.dtype:
            views.append(item.buffer_view())
            alive.append(item)
            continue
        lent = lend("operand", item, spec, device, _CONVERTING)
        views.append(BufferView(lent.buffer))
        alive.append(lent)
    memories, check = _run(call, views, device)
    await_borrowed(alive, device)
    if check is not None and not regions:
        check.where = user_location()
    outputs = call.executable.program.graph.outputs
    return tuple(
        DeviceArray(memories[number], atom.spec, check)
        for number, atom in zip(call.output_buffers, outputs, strict=True)
    )


@functools.lru_cache(maxsize=256)
def number(literal: Literal, device: DeviceBackend) -> DeviceArray:
    """A Python number on a device, as an input of programs: one program serves every number."""
    return upload(np.asarray(literal.value, literal.dtype.dtype), device)


def _run(call: Call, views: Sequence[BufferView], device: DeviceBackend) -> tuple[Sequence[Held], FaultCheck | None]:
    """Run, by addresses alone where the device has them and the call is recorded."""
    if call.is_direct or (not call.kept and call.make_direct()):
        found, record = call.run_direct([cast("Any", view.buffer).address + view.offset for view in views])
        return [Held(device, buffer) for buffer in found], None if record is None else FaultCheck(call.faults, record)
    kept = keep(call, (), views) if call.kept else None  # of no array: operands are inputs
    buffers, check = call(views, None if kept is None else kept.buffers)
    return [Memory(device, buffer) for buffer in buffers], check


def _spec(item: Array | NumpyArray) -> ArraySpec:
    return ArraySpec(taken_dtype(item, as_dtype(item.dtype, "operand")), tuple(item.shape))


def _lines(regions: Sequence[Graph]) -> Iterator[SourceLocation | None]:
    """The line of every equation, of inner regions as well."""
    for region in regions:
        for equation in region.equations:
            yield equation.where
            yield from _lines(equation.regions)


def _compile(
    primitive: str,
    specs: tuple[ArraySpec, ...],
    params: Params,
    regions: tuple[Graph, ...],
    device: DeviceBackend,
) -> Call:
    with working(f"compiling {primitive}"):
        return Call(_program(primitive, specs, params, regions, device.target), device)


def _program(
    primitive: str,
    specs: tuple[ArraySpec, ...],
    params: Params,
    regions: tuple[Graph, ...],
    target: Target,
) -> Program:
    for spec in specs:
        if spec.dtype not in target.dtypes:
            raise lacking(f"an operand of {primitive}, {spec},", spec.dtype, target, user_location())
    builder = Builder(TraceLimits.STANDARD, name=primitive)
    operands = [builder.input(f"x{place}", spec) for place, spec in enumerate(specs)]
    outputs = builder.emit(primitive, operands, params, regions, where=user_location())
    return compile_graph(builder.finish(outputs), target, CompileOptions(CompileLimits.STANDARD))


register_eager(apply)
