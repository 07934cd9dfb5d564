"""Kernels in the interpreter: all threads with every check, or one thread as the plain Python that its user wrote."""

from __future__ import annotations

from collections.abc import Sequence
from types import CellType, FunctionType
from typing import Any, TypeVar

from poot.api.array import DeviceArray
from poot.api.kernel_arguments import ArrayLike, Checked, HostArray, fail, scalar
from poot.api.kernel_plan import Grid, Specialisations, refuse_overlap
from poot.api.kernel_run import check_apart, check_writeable, shares
from poot.dtypes import DType, i32, i64
from poot.kernel.interpret import Interpreter, bind
from poot.kernel.parse.annotations import BufferParameter, ConstParameter, Element
from poot.kernel.parse.definition import Definition, Size, Triple, whole
from poot.kernel.parse.specialise import Layout, Request
from poot.kernel.pipeline import prepare
from poot.kernel.thread import Elements, Thread, running
from poot.target import Target

_WIDE = 1 << 31


def host_array(kernel: str, name: str, array: ArrayLike) -> HostArray:
    """The memory of an array as NumPy has it, written in place."""
    if not isinstance(array, DeviceArray):
        return array
    window = array.backend.host_view(array.buffer_view(), array.spec.nbytes)
    if window is None:
        fail(kernel, f"`{name}` lives on {array.device}, which the interpreter cannot reach", "pass NumPy arrays.")
    return window.view(array.spec.dtype.dtype).reshape(array.spec.shape)


def _arrays(made: Definition, checked: Checked) -> list[tuple[BufferParameter, HostArray]]:
    pairs = zip(made.parameters.items, checked.values, strict=True)
    found = [
        (item, host_array(made.name, item.name, value)) for item, value in pairs if isinstance(item, BufferParameter)
    ]
    written = [number for number, (item, _) in enumerate(found) if item.access != "read"]
    names, arrays = [item.name for item, _ in found], [array for _, array in found]
    check_writeable(made.name, names, arrays, written)
    check_apart(made.name, names, arrays, written)
    for number in written:
        for other, (item, array) in enumerate(found):
            if other != number and shares(found[number][1], array):
                raise refuse_overlap(made.name, found[number][0].name, item.name)
    return found


def interpret(specialisations: Specialisations, checked: Checked, asked: Grid) -> None:
    """Run a launch in the interpreter with its checks; a fault or race is raised where it happens."""
    made, target = specialisations.definition, Target.parse("interpret")
    arrays = _arrays(made, checked)
    size = asked.size(made.name, target)
    extents = [*(asked.threads or asked.groups or ()), *(extent for _, array in arrays for extent in array.shape)]
    layouts = [Layout(array.strides[-1] == array.itemsize) for _, array in arrays]
    wide = i64 if max(extents) * max(size) >= _WIDE else i32
    request = Request(checked.variables, checked.consts, layouts, size, asked.workgroup is not None, asked.axes, wide)
    specialised = specialisations.get(request)
    threads, groups = asked.counts(made.name, size, specialised.cooperative)
    kernel = prepare(specialised.kernel, target)
    values = dict(zip([param.name for param in kernel.params], _values(made, checked, arrays), strict=True))
    bounds = [threads[axis] for axis, bound in enumerate(kernel.threads or ()) if bound is None]
    Interpreter(kernel).run(bind(kernel, values, threads=bounds), groups=groups, checks=True)


def _values(made: Definition, checked: Checked, arrays: Sequence[tuple[BufferParameter, HostArray]]) -> list[object]:
    """Arrays and scalars in the order of the kernel's parameters, which leave constants out."""
    memory = {item.name: array for item, array in arrays}
    found: list[object] = []
    for item, value in zip(made.parameters.items, checked.values, strict=True):
        if isinstance(item, BufferParameter):
            found.append(memory[item.name])
        elif not isinstance(item, ConstParameter):
            dtype = _dtype(item.element, checked)
            found.append(scalar(made.name, item.name, value, dtype))
    return found


def _dtype(element: Element, checked: Checked) -> DType:
    return element if isinstance(element, DType) else checked.variables[element]


# --- one thread -----------------------------------------------------------------------------------------------------


def run_thread(made: Definition, checked: Checked, asked: Grid, number: Size) -> None:
    """Run the function itself for one thread, given by its number in the grid (x first) or its three indices."""
    size = asked.size(made.name, Target.parse("interpret"))
    threads, groups = asked.counts(made.name, size, cooperative=False)
    index = _thread(made.name, number, threads)
    arrays = {item.name: Elements(item.name, array) for item, array in _arrays(made, checked)}
    values: list[Any] = []
    for item, value in zip(made.parameters.items, checked.values, strict=True):
        if isinstance(item, BufferParameter):
            values.append(arrays[item.name])
        elif isinstance(item, ConstParameter):
            values.append(value)
        else:
            dtype = _dtype(item.element, checked)
            values.append(dtype.dtype.type(scalar(made.name, item.name, value, dtype)))
    function = with_dtypes(made.function, dict(checked.variables))
    with running(Thread(made.name, index, size, groups)):
        function(*values)


def _thread(kernel: str, number: Size, threads: Triple) -> Triple:
    parts = [whole(part) for part in (number if isinstance(number, tuple) else (number,))]
    given = [part for part in parts if part is not None]
    if len(given) < len(parts) or not 1 <= len(given) <= 3:
        fail(kernel, f"thread={number!r}", "give the thread's number, or its x, y and z, as integers.")
    if isinstance(number, tuple):
        x, y, z = (*given, 0, 0)[:3]
    else:
        wide, high, _ = (max(count, 1) for count in threads)
        x, y, z = given[0] % wide, given[0] // wide % high, given[0] // (wide * high)
    if not all(0 <= at < count for at, count in zip((x, y, z), threads, strict=True)):
        total = threads[0] * threads[1] * threads[2]
        remedy = f"they are numbered from 0 to {total - 1}." if total else "launch one thread or more."
        fail(kernel, f"thread={number!r} is outside the {threads} threads of the launch", remedy)
    return x, y, z


def with_dtypes(function: FunctionType, variables: dict[TypeVar, DType]) -> FunctionType:
    """The same function with the dtypes of a launch where it names type variables."""
    if not variables:
        return function
    space = {
        name: variables.get(value, value) if isinstance(value, TypeVar) else value
        for name, value in function.__globals__.items()
    }
    cells: list[CellType] = []
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            cells.append(cell)
            continue
        cells.append(CellType(variables.get(value, value)) if isinstance(value, TypeVar) else cell)
    made = FunctionType(function.__code__, space, function.__name__, function.__defaults__, tuple(cells))
    made.__kwdefaults__ = function.__kwdefaults__
    return made
