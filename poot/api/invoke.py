"""A compiled specialisation, and how the arguments of a call reach it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from poot.api.arguments import Arguments
from poot.api.array import DeviceArray, Memory
from poot.api.captures import Captures
from poot.api.constants import keep
from poot.api.precision import Precision
from poot.api.recording import Recorded, Source
from poot.backends.ahead import compiling_ahead
from poot.backends.binding import check_array
from poot.backends.device import Buffer, BufferView, DeviceBackend
from poot.backends.executable import Call
from poot.backends.sharing import same_memory
from poot.dtypes import ArraySpec, DType
from poot.errors import CaptureError, OverflowArgumentError
from poot.plan.compile import compile as compile_graph
from poot.plan.limits import CompileOptions
from poot.plan.program import Program
from poot.trace.ops.promotion import literal
from poot.trace.source import user_location


@dataclass(frozen=True, slots=True)
class Compiled:
    """One compiled specialisation: ready for the leaves and captures of any call of the same key."""

    recorded: Recorded
    program: Program
    call: Call
    sources: tuple[tuple[str, Source, ArraySpec], ...]
    outputs: tuple[int, ...]

    @staticmethod
    def make(recorded: Recorded, device: DeviceBackend, options: CompileOptions) -> Compiled:
        """Plan a recording for a device, whose kernels are compiled meanwhile where they can be, and load it."""
        with compiling_ahead(device.target, contract=options.numerics == "fused") as ahead:
            begin = None if ahead is None else ahead.begin
            program = compile_graph(recorded.graph, device.target, replace(options, ahead=begin))
            if ahead is not None:
                ahead.help()
            return Compiled.load(recorded, program, device)

    @staticmethod
    def load(recorded: Recorded, program: Program, device: DeviceBackend) -> Compiled:
        """Load a program on its device, and keep where each of its inputs comes from."""
        call = Call(program, device)
        graph = recorded.graph
        variables = graph.constants + graph.inputs + graph.states
        sources = tuple((variable.name, recorded.sources[variable.name], variable.spec) for variable in variables)
        return Compiled(recorded, program, call, sources, call.output_buffers)

    def run(self, arguments: Arguments, captures: Captures, device: DeviceBackend, precision: Precision) -> Any:
        """Bind the leaves and captures of a call, run, and give the output pytree of arrays."""
        views: list[BufferView] = []
        alive: list[object] = []
        values: list[Any] = []
        for name, source, spec in self.sources:
            value = host_value(source, arguments, captures)
            values.append(value)
            if isinstance(value, DeviceArray) and same_memory(value.backend, device) and value.spec == spec:
                views.append(value.buffer_view())
                alive.append(value)
            else:
                lent = lend(name, value, spec, device, precision)
                views.append(BufferView(lent.buffer))
                alive.append(lent)
        kept = keep(self.call, values, views) if self.call.kept else None
        buffers, check = self.call(views, None if kept is None else kept.buffers)
        memories = [Memory(device, buffer) for buffer in buffers]
        await_borrowed(alive, device)
        atoms = self.recorded.graph.outputs
        arrays = [
            DeviceArray(memories[number], atom.spec, check) for number, atom in zip(self.outputs, atoms, strict=True)
        ]
        return self.recorded.outputs.unflatten(arrays)


def check_call(
    function: str, arguments: Arguments, captures: Captures, precision: Precision, device: DeviceBackend
) -> None:
    """CaptureError for a spec among the arguments, UnsupportedDTypeError for arrays that the device cannot hold."""
    for leaf in arguments.leaves:
        if leaf.kind == "spec":
            raise CaptureError(
                what=f"argument {leaf.path!r} of {function}",
                message=f"{leaf.value} is a spec, and a call needs an array",
                where=user_location(),
                remedy="pass an array, or ask for .graph(…) of the specs.",
            )
    arrays = [(leaf.path, cast("ArraySpec", leaf.key)) for leaf in arguments.leaves if leaf.kind == "array"]
    precision.check(function, [*arrays, *captures.specs()], device.target)


@dataclass(frozen=True, slots=True)
class Borrowed:
    """A buffer over a host array, which stays the caller's."""

    buffer: Buffer
    array: np.ndarray[Any, Any]


def lend(name: str, value: Any, spec: ArraySpec, device: DeviceBackend, precision: Precision) -> Borrowed | Memory:
    """Host memory for a launch: in place where the device can use it, else a copy on the device."""
    array = check_array(repr(name), precision.convert(name, np.asarray(value), spec), spec)
    buffer = device.import_host(array)
    if buffer is not None:
        return Borrowed(buffer, array)
    memory = Memory(device, device.allocate(spec.nbytes))
    device.write(BufferView(memory.buffer), array)
    return memory


def await_borrowed(bound: Iterable[object], device: DeviceBackend) -> None:
    """Wait for a launch that reads the caller's own arrays: once the call returns, they may change."""
    if any(isinstance(each, Borrowed) or (isinstance(each, DeviceArray) and not each.is_tracked) for each in bound):
        device.synchronize()


def host_value(source: Source, arguments: Arguments, captures: Captures) -> Any:
    """What a call gives for one input of the graph."""
    match source.kind:
        case "leaf":
            return arguments.leaves[source.index].value
        case "weak":
            assert source.dtype is not None
            return weak_value(arguments.leaves[source.index].path, arguments.leaves[source.index].value, source.dtype)
        case "capture":
            return captures.arrays[source.index]
        case "frozen":
            return source.array


def weak_value(name: str, number: int | float, dtype: DType) -> np.ndarray[Any, Any]:
    """A Python number, argument `name`, at the dtype it met; OverflowArgumentError where it does not fit."""
    try:
        return np.asarray(literal(number, dtype).value, dtype.dtype)
    except OverflowArgumentError as error:
        fields = {**error.fields, "value": f"argument {name!r} is {number}, which"}
        raise OverflowArgumentError(where=user_location(), **fields) from None
