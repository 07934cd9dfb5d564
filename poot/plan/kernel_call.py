"""kernel_call: a kernel of the user's as a primitive of graphs.

    kernel_call(*values; kernel=text, groups=(x, y, z))

runs one baked kernel (`poot.kernel.codec` gives the text) on a grid of work-groups.  Its operands are the buffers that
the kernel reads, in parameter order; its results those that it writes.  A buffer that is read and written is an operand
with its first contents and a result with its last; one that is only written starts as zeros.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from poot.dtypes import ArraySpec, f32
from poot.errors import ArgumentError, DTypeError, ShapeError
from poot.kernel.baked import baked, spec
from poot.kernel.build import KernelBuilder
from poot.kernel.codec import decode, encode
from poot.kernel.interpret import Interpreter
from poot.kernel.ir import BufferParam, Kernel, fault_sites
from poot.kernel.pipeline import prepare
from poot.plan.schedules.common import GroupPlan, Setup, power_of_two
from poot.trace.graph import Equation, Graph, Params
from poot.trace.primitives import Example, Launches, OracleCall, Primitive, register

Array = np.ndarray[Any, Any]
Specs = tuple[ArraySpec, ...]
Triple = tuple[int, int, int]


def kernel_of(params: Params) -> Kernel:
    """The kernel of an equation; ArgumentError where the parameters hold none."""
    text = params.get("kernel")
    if not isinstance(text, str) or set(params) != {"kernel", "groups"}:
        raise ArgumentError(what="kernel_call: parameters", actual=tuple(params), expected="kernel and groups")
    kernel = decode(text)
    if any(not isinstance(param, BufferParam) or None in (*param.shape, *param.strides) for param in kernel.params):
        raise ArgumentError(what="kernel_call: kernel", actual=kernel.name, expected="one with baked extents")
    return kernel


def groups_of(params: Params) -> Triple:
    """The grid of an equation, in work-groups."""
    groups = params["groups"]
    if not isinstance(groups, tuple) or len(groups) != 3 or not all(type(n) is int and n >= 0 for n in groups):
        raise ArgumentError(what="kernel_call: groups", actual=groups, expected="three numbers of work-groups")
    return cast("Triple", groups)


def _type(specs: Specs, params: Params, regions: tuple[Graph, ...]) -> Specs:
    kernel = kernel_of(params)
    groups_of(params)
    read = [param for param in kernel.buffers if param.access != "write"]
    if len(specs) != len(read):
        what = f"kernel_call: operands of {kernel.name}"
        raise ArgumentError(what=what, actual=len(specs), expected=str(len(read)))
    for param, given in zip(read, specs, strict=True):
        wanted = spec(param)
        what = f"kernel_call: `{param.name}` of {kernel.name}"
        if given.dtype is not wanted.dtype:
            raise DTypeError(what=what, actual=given.dtype, expected=wanted.dtype)
        if given.shape != wanted.shape:
            raise ShapeError(what=what, actual=given.shape, expected=wanted.shape)
    return tuple(spec(param) for param in kernel.buffers if param.access != "read")


def _oracle(call: OracleCall, *operands: Array) -> tuple[Array, ...]:
    kernel = kernel_of(call.params)
    values = iter(operands)
    buffers = [
        np.zeros(spec(param).shape, param.dtype.dtype) if param.access == "write" else np.array(next(values), order="C")
        for param in kernel.buffers
    ]
    groups = groups_of(call.params)
    if 0 not in groups:
        Interpreter(prepare(kernel)).run([buffer.reshape(-1) for buffer in buffers], groups=groups)
    return tuple(b for b, param in zip(buffers, kernel.buffers, strict=True) if param.access != "read")


def _effects(params: Params) -> frozenset[str]:
    return frozenset({"fault"}) if fault_sites(kernel_of(params)) else frozenset()


# --- lowering -------------------------------------------------------------------------------------------------------


def _lower(equation: Equation) -> GroupPlan:
    """The kernel itself, after kernels that fill its outputs with their first contents."""
    kernel, groups = kernel_of(equation.params), groups_of(equation.params)
    inputs, outputs = iter(range(len(equation.inputs))), iter(range(len(equation.outputs)))
    setups: list[Setup] = []
    arguments: list[int] = []
    for param in kernel.buffers:
        source = -1 if param.access == "write" else next(inputs)
        if param.access == "read":
            arguments.append(source)
            continue
        target = len(equation.inputs) + next(outputs)
        arguments.append(target)
        size = spec(param).size
        if size:
            setups.append(_first_contents(param, size, source, target))
    if 0 not in groups:
        setups.append(Setup(kernel, groups, tuple(arguments)))
    return GroupPlan(tuple(setups))


def _first_contents(param: BufferParam, size: int, source: int, target: int) -> Setup:
    """A copy of an operand into a result, or zeros."""
    width = power_of_two(size, 256)
    k = KernelBuilder("copy" if source >= 0 else "zeros", workgroup=(width, 1, 1), threads=(size, 1, 1))
    read = k.buffer("source", param.dtype, "read", (size,)) if source >= 0 else ""
    written = k.buffer("target", param.dtype, "write", (size,))
    i = k.index("thread", 0)
    k.store(written, (i,), k.load(read, (i,)) if read else k.const(0, param.dtype))
    return Setup(k.finish(), (-(-size // width), 1, 1), (source, target) if source >= 0 else (target,))


def _example() -> Example:
    k = KernelBuilder("double", workgroup=(4, 1, 1), threads=(5, 1, 1))
    x, y = k.buffer("x", f32, "read", (5,)), k.buffer("y", f32, "write", (5,))
    i = k.index("thread", 0)
    k.store(y, (i,), k.op("add", k.load(x, (i,)), k.load(x, (i,))))
    kernel = baked(k.finish(), ((5,), (5,)), (5, 1, 1))
    return Example(((5,),), Params(kernel=encode(kernel), groups=(2, 1, 1)), dtypes=(f32,))


KERNEL_CALL = register(
    Primitive(
        name="kernel_call",
        kind="kernel",
        doc="run a kernel on operands that it reads; gives what it writes",
        type_rule=_type,
        oracle=_oracle,
        lower=Launches(_lower),
        dtypes=(f32,),
        examples=(_example(),),
        effects=_effects,
        stored=True,
    )
)
