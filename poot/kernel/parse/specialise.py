"""From a definition and what a launch makes constant to checked kernel IR.

A specialisation fixes dtypes, which buffers have a unit stride on their last axis and which are aligned, Const values,
the work-group, the number of grid axes, and the index dtype.  Extents, strides and thread counts stay arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from poot.dtypes import DType, i32
from poot.kernel.build import KernelBuilder
from poot.kernel.check import check
from poot.kernel.ir import Alloc, Barrier, Collective, Kernel, walk
from poot.kernel.parse.annotations import BufferParameter, ConstParameter, Element
from poot.kernel.parse.bindings import bindings
from poot.kernel.parse.definition import Definition, Triple
from poot.kernel.parse.guards import Guards
from poot.kernel.parse.scope import Frame, Local
from poot.kernel.parse.statements import Statements
from poot.kernel.parse.values import Array, Static, Typed, Value, plain, static_value


@dataclass(frozen=True, slots=True)
class Layout:
    """What is known of a buffer besides dtype and rank: a unit stride on the last axis, and alignment in bytes."""

    unit: bool = True
    align: int = 1


@dataclass(frozen=True, slots=True)
class Request:
    """What a specialisation is for.

    `layouts` has one entry a buffer parameter; `consts` the values of Const parameters; `stated` says that the
    work-group is the user's own choice; `axes` is the number of grid axes that threads are counted on.
    """

    variables: Mapping[TypeVar, DType]
    consts: Mapping[str, Any]
    layouts: Sequence[Layout]
    workgroup: Triple
    stated: bool
    axes: int = 1
    index_dtype: DType = i32


@dataclass(frozen=True, slots=True, eq=False)
class Specialised:
    """A kernel for one request, and what it read outside itself.

    `cooperative` kernels have barriers, collectives or shared arrays: they run whole work-groups alone.
    """

    kernel: Kernel
    guards: Guards
    cooperative: bool = field(default=False)


def specialise(definition: Definition, request: Request) -> Specialised:
    """Parse a kernel for a request; a KernelError names the line of what does not fit."""
    builder = KernelBuilder(plain(definition.name), workgroup=request.workgroup, index_dtype=request.index_dtype)
    builder.where = definition.source.start
    guards = Guards()
    parser = Statements(
        definition.name,
        builder,
        guards,
        dict(request.variables),
        stated=request.stated,
        checked=not definition.unchecked,
    )
    guards.function(definition.function)
    body = definition.source.tree.body
    frame = Frame(definition.source, bindings(body))
    parser.frames.append(frame)
    with parser.written_here(body):
        _bind_parameters(definition, request, parser)
        parser.run(body)
    builder.where = definition.source.start
    kernel = builder.finish()
    check(kernel)
    cooperative = any(
        isinstance(node, (Barrier, Collective)) or (isinstance(node, Alloc) and node.space == "shared")
        for node in walk(kernel.body)
    )
    if not cooperative:
        threads = tuple(None if axis < request.axes else 1 for axis in range(3))
        kernel = replace(kernel, threads=threads)
    return Specialised(kernel, guards, cooperative)


def _bind_parameters(definition: Definition, request: Request, parser: Statements) -> None:
    k, frame = parser.k, parser.frame
    layouts = iter(request.layouts)
    frame.definite = set(definition.parameters.names)
    for item in definition.parameters.items:
        where = definition.source.start
        assigned = frame.bindings.local(item.name)
        match item:
            case BufferParameter():
                layout, dtype = next(layouts), _dtype(item.element, request)
                strides: list[int | None] = [None] * (item.rank - 1)
                strides.append(1 if layout.unit else None)
                name = k.buffer(
                    plain(item.name), dtype, item.access, [None] * item.rank, strides, max(layout.align, dtype.itemsize)
                )
                value: Value = Array(name, dtype, item.rank, item.access)
            case ConstParameter():
                value = static_value(request.consts[item.name])
            case _:
                value = Typed(k.scalar(plain(item.name), _dtype(item.element, request)))
        frame.env[item.name] = Local(value, where, fixed=True)
        if assigned and isinstance(value, Typed):
            frame.env[item.name] = Local(value, where, variable=True, fixed=True)
    for name, local in frame.env.items():
        if local.variable:
            local.value = parser.variable_of(name, local.value, ast.Name(name, ast.Load()))


def _dtype(element: Element, request: Request) -> DType:
    return request.variables[element] if isinstance(element, TypeVar) else element


def constant_key(value: object) -> object:
    """A Const value as a part of a key: equal only to a value that means the same."""
    known = static_value(value)
    if isinstance(known, Static) and isinstance(known.value, float):
        return float, known.value.hex()
    if isinstance(value, tuple):
        return tuple(map(constant_key, value))  # pyright: ignore[reportUnknownArgumentType]
    return type(value), value
