"""`@poot.kernel`: Python functions as kernels, compiled for the arguments of a launch and run on any device."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar, cast, overload

import numpy as np

from poot.api.array import DeviceArray
from poot.api.constants import note_write
from poot.api.devices import Device, apart, choose, default
from poot.api.devices import device as find_device
from poot.api.eager_call import is_running
from poot.api.kernel_arguments import as_array, bind, check, const, fail
from poot.api.kernel_interpret import interpret, run_thread
from poot.api.kernel_moves import launch_there
from poot.api.kernel_plan import Grid, Specialisations, grid, plan
from poot.api.kernel_run import BufferedRun, InPlaceRun, check_apart, check_writeable, layouts, wiring
from poot.api.kernel_sources import BACKENDS, source
from poot.api.kernel_traced import call_traced, is_functional, refuse_traced_sizes
from poot.api.reload import follow_reloads
from poot.backends.device import DeviceBackend, InPlace
from poot.backends.sharing import same_memory
from poot.backends.toolchain import CompiledKernel, compile_kernel
from poot.dtypes import DType, as_dtype
from poot.errors import ArgumentError, ArgumentTypeError, DeviceMismatchError
from poot.kernel.check_target import shared_bytes
from poot.kernel.ir import Kernel as IRKernel
from poot.kernel.parse.annotations import BufferParameter, ConstParameter
from poot.kernel.parse.definition import Definition, Size, Triple, definition, triple
from poot.kernel.parse.specialise import Layout, Request, Specialised, constant_key
from poot.target import Language, Target
from poot.trace.dispatch import active

_KEPT = 512
_ALIGNED = 16
_REMEDY = "move them to one device first, such as with x.to_device(…), or pass device= to the launch."


class Kernel:
    """A kernel.  Called with arrays and a grid it is launched; `ir`, `source` and `compile` show what it becomes."""

    def __init__(self, made: Definition) -> None:
        functools.update_wrapper(cast("Any", self), made.function)
        self.__poot_function__: Callable[..., Any] = made.function
        follow_reloads(Kernel)
        self._specialisations = Specialisations(made)
        self._runs: dict[object, InPlaceRun | BufferedRun] = {}
        items = made.parameters.items
        self._count = len(items)
        self._buffers = tuple(n for n, item in enumerate(items) if isinstance(item, BufferParameter))
        self._keyed = tuple(
            n
            for n, item in enumerate(items)
            if isinstance(item, ConstParameter)
            or (not isinstance(item, BufferParameter) and isinstance(item.element, TypeVar))
        )

    @property
    def definition(self) -> Definition:
        """The function, its parameters and options."""
        return self._specialisations.definition

    @property
    def name(self) -> str:
        """The kernel's name in messages and sources."""
        return self.definition.name

    # --- launching ---

    def __call__(
        self,
        *args: Any,
        threads: Size | None = None,
        groups: Size | None = None,
        workgroup: Size | None = None,
        device: str | Device | None = None,
        **kwargs: Any,
    ) -> Any:
        """Launch on `threads` threads or `groups` work-groups (x first).

        Arrays are used where they are: NumPy arrays in place on cpu, poot arrays on their device.  With `device=` those
        that live elsewhere are copied there and, where written, back, before the call returns.  Raises LaunchError
        where arguments or grid do not fit, KernelError or CompileError where the kernel does not compile; KernelFault
        after a launch with NumPy outputs that failed, or when a poot array that it wrote is read.

        Inside a traced function, or with a spec for an Out, nothing is changed: the call returns every InOut and Out.
        """
        if kwargs or len(args) != self._count:
            args = bind(self.name, self.definition.parameters, args, kwargs)
        if active() is not None or is_running():
            return call_traced(self._specialisations, args, self._grid(threads, groups, workgroup))
        key: list[object] = [
            threads if type(threads) is int else _distinct(threads),
            groups if groups is None else _distinct(groups),
            workgroup if workgroup is None else _distinct(workgroup),
        ]
        homes: list[DeviceBackend] = []
        for position in self._buffers:
            value = args[position]
            if type(value) is np.ndarray:
                key += value.dtype, value.shape, value.strides
            elif isinstance(value, DeviceArray):
                homes.append(value.backend)
                key.append(value.spec)
            elif is_functional(args):
                return self._values(args, self._grid(threads, groups, workgroup), device)
            else:
                args = self._arrays(args)
                return self(*args, threads=threads, groups=groups, workgroup=workgroup, device=device)
        for position in self._keyed:
            key.append(self._key(position, args[position]))
        try:
            backend = default() if device is None and not homes else choose(device, homes)
        except DeviceMismatchError:
            raise self._apart(args) from None
        if device is not None and not all(same_memory(home, backend) for home in homes):
            sizes: Any = {"threads": threads, "groups": groups, "workgroup": workgroup, "device": device}
            launch_there(self.name, self.definition.parameters, args, backend, lambda moved: self(*moved, **sizes))
            return None
        key.append(backend)
        try:
            run = self._runs.get(whole := tuple(key))
        except TypeError:  # a list as a size, or a constant that can change: refused, or read, below
            run, whole = None, None
        if run is not None and run.plan.specialised.guards.hold() and run.run(args):
            return None
        self._first(args, (threads, groups, workgroup), backend, whole)
        return None

    def _apart(self, args: Sequence[Any]) -> DeviceMismatchError:
        """The error for arrays on several devices."""
        names = self.definition.parameters.names
        found = [(f"`{names[n]}`", args[n]) for n in self._buffers]
        return apart([(name, array.backend) for name, array in found if isinstance(array, DeviceArray)], _REMEDY)

    def _values(self, args: Sequence[Any], asked: Grid, device: str | Device | None) -> Any:
        """What a launch with specs for its outputs gives, on a device if one is stated."""
        if device is None:
            return call_traced(self._specialisations, args, asked)
        with find_device(device) as there:
            moved = [value.to_device(there) if isinstance(value, DeviceArray) else value for value in args]
            return call_traced(self._specialisations, moved, asked)

    def __getitem__(self, sizes: object) -> NoReturn:
        """Refused: a grid is given with the arguments."""
        shown = repr(sizes).strip("()")
        remedy = "name it at the call: k(…, threads=n), or k(…, groups=n, workgroup=256) for whole work-groups."
        fail(self.name, f"the grid [{shown}] stands before the arguments", remedy)

    def _key(self, position: int, value: object) -> object:
        """What a constant, or a scalar of a type variable, adds to the key of a launch."""
        item = self.definition.parameters.items[position]
        return constant_key(value) if isinstance(item, ConstParameter) else type(value)

    def _arrays(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments with every buffer as an array of NumPy or poot."""
        items = self.definition.parameters.items
        return tuple(
            as_array(self.name, item, value) if isinstance(item, BufferParameter) else value
            for item, value in zip(items, args, strict=True)
        )

    def _first(
        self,
        args: Sequence[Any],
        sizes: tuple[Size | None, Size | None, Size | None],
        backend: DeviceBackend,
        key: tuple[object, ...] | None,
    ) -> None:
        """A launch of a form that was not seen before."""
        parameters = self.definition.parameters
        checked = check(self.name, parameters, args)
        asked = self._grid(*sizes)
        arrays = checked.arrays(parameters)
        names = tuple(item.name for item in parameters.items if isinstance(item, BufferParameter))
        where = layouts(self.name, names, arrays, backend)
        made = plan(self._specialisations, checked, asked, backend, where)
        wires = wiring(self.definition, made, arrays)
        check_writeable(self.name, names, arrays, wires.written)
        check_apart(self.name, names, arrays, wires.written)
        run: InPlaceRun | BufferedRun
        if isinstance(backend, InPlace):
            sizes_of = [param.dtype.itemsize for param in made.kernel.buffers]
            run = InPlaceRun(made, wires, backend, where, sizes_of)
        else:
            run = BufferedRun(made, wires, backend)
        if key is not None:
            if len(self._runs) >= _KEPT:
                self._runs.clear()
            self._runs[key] = run
        done = run.run(checked.values)
        assert done, "a launch that is planned for these arrays takes them"

    def _grid(self, threads: Size | None, groups: Size | None, workgroup: Size | None) -> Grid:
        refuse_traced_sizes(self.name, threads=threads, groups=groups, workgroup=workgroup)
        return grid(self.name, _tuple(threads), _tuple(groups), self._workgroup(workgroup))

    def _workgroup(self, workgroup: Size | None) -> Triple | None:
        if workgroup is None:
            return self.definition.workgroup
        try:
            return triple(cast("Size", _tuple(workgroup)), "workgroup")
        except ArgumentError:
            fail(self.name, f"workgroup={workgroup!r}", "give one to three positive integers, x first.")

    # --- the interpreter ---

    def interpret(
        self,
        *args: Any,
        threads: Size | None = None,
        groups: Size | None = None,
        workgroup: Size | None = None,
        thread: Size | None = None,
        **kwargs: Any,
    ) -> None:
        """Run all threads in NumPy with every check: bounds, races, missing barriers, uninitialised reads.

        KernelFault or KernelError at the first that fails.  With `thread=` (its number, or x, y, z) the function itself
        runs as plain Python for that one thread, for `print` and a debugger.
        """
        values = self._arrays(bind(self.name, self.definition.parameters, args, kwargs))
        checked = check(self.name, self.definition.parameters, values)
        asked = self._grid(threads, groups, workgroup)
        if thread is None:
            run = functools.partial(interpret, self._specialisations, checked, asked)
        else:
            run = functools.partial(run_thread, self.definition, checked, asked, cast("Size", _tuple(thread)))
        try:
            run()
        finally:
            for item, value in zip(self.definition.parameters.items, checked.values, strict=True):
                if isinstance(item, BufferParameter) and item.access != "read" and isinstance(value, DeviceArray):
                    note_write(value)

    # --- looking inside ---

    def specialise(self, target: Target | None = None, *, workgroup: Size | None = None, **options: Any) -> Specialised:
        """The kernel for contiguous, aligned arrays; `options` give type variables and Const parameters by name.

        ArgumentError names an option that is missing or unknown.
        """
        variables, consts = self._options(options)
        stated = self._workgroup(workgroup)
        most = Grid((1 << 20, 1, 1), None, 1, stated)
        size = most.size(self.name, target or Target.parse("cpu"))
        layout = [Layout(True, _ALIGNED)] * len(self._buffers)
        return self._specialisations.get(Request(variables, consts, layout, size, stated is not None, 3))

    def _options(self, options: Mapping[str, Any]) -> tuple[dict[TypeVar, DType], dict[str, Any]]:
        parameters = self.definition.parameters
        known = {variable.__name__: variable for variable in parameters.variables}
        constants = [item.name for item in parameters.items if isinstance(item, ConstParameter)]
        for name in options:
            if name not in known and name not in constants:
                expected = " or ".join([*known, *constants]) or "no option"
                raise ArgumentError(what=f"option of kernel {self.name}", actual=name, expected=expected)
        given = {**{name: parameters.defaults[name] for name in constants if name in parameters.defaults}, **options}
        for name in (*known, *constants):
            if name not in given:
                raise ArgumentTypeError(
                    what=f"option {name}= of kernel {self.name}", actual="nothing", expected="a dtype or a constant"
                )
        variables = {variable: as_dtype(given[name], name) for name, variable in known.items()}
        items = {item.name: item for item in parameters.items if isinstance(item, ConstParameter)}
        return variables, {name: const(self.name, item, given[name]) for name, item in items.items()}

    @property
    def ir(self) -> IRKernel:
        """The kernel IR; for kernels with type variables or Const parameters, use `specialise(T=f32, …).kernel`."""
        return self.specialise().kernel

    def source(
        self,
        language: Language,
        target: Target | str | None = None,
        *,
        workgroup: Size | None = None,
        **options: Any,
    ) -> str:
        """The kernel in "triton", "ptx", "amdgcn", "wgsl", "opencl", "native" or "interpret"; no hardware is needed."""
        if language not in BACKENDS:
            expected = "one of " + ", ".join(map(repr, BACKENDS))
            raise ArgumentError(what="language", actual=language, expected=expected)
        found = Target.parse(BACKENDS[language]) if target is None else _target(target)
        return source(self.specialise(found, workgroup=workgroup, **options).kernel, language, found)

    def compile(
        self, target: Target | Device | str, *, workgroup: Size | None = None, **options: Any
    ) -> CompiledKernel:
        """Compile for a target, present or not: the body and argument schema that `Context.dispatch` takes."""
        found = _target(target)
        return compile_kernel(self.specialise(found, workgroup=workgroup, **options).kernel, found)

    def resources(
        self, target: Target | Device | str = "cpu", *, workgroup: Size | None = None, **options: Any
    ) -> dict[str, int]:
        """What the compiled kernel uses, as far as its compiler says: registers, spills, bytes of shared memory."""
        compiled = self.compile(target, workgroup=workgroup, **options)
        return {"shared_bytes": shared_bytes(compiled.kernel), **dict(compiled.resources)}

    def __reduce__(self) -> str:
        return self.definition.function.__qualname__

    def __repr__(self) -> str:
        return f"<poot.kernel {self.name}>"


def _distinct(size: object) -> object:
    """A size as a part of a key: 8.0 and True, which equal integers, are none."""
    if isinstance(size, tuple):
        parts = cast("tuple[object, ...]", size)
        return parts, *map(type, parts)
    return size, type(size)


def _tuple(size: Any) -> Any:
    several = isinstance(size, list) or (isinstance(size, np.ndarray) and size.ndim > 0)
    given = cast("Any", size)
    return tuple(given) if several else given


def _target(target: Target | Device | str) -> Target:
    if isinstance(target, Device):
        return target.target
    return target if isinstance(target, Target) else Target.parse(target)


@overload
def kernel(function: Callable[..., Any] | Definition, /) -> Kernel: ...
@overload
def kernel(
    *, workgroup: Size | None = None, unchecked: bool = False, name: str | None = None
) -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(
    function: Callable[..., Any] | Definition | None = None,
    /,
    *,
    workgroup: Size | None = None,
    unchecked: bool = False,
    name: str | None = None,
) -> Any:
    """Make a Python function a kernel: `@poot.kernel` or `@poot.kernel(workgroup=256)`.

    `workgroup` states the size of a work-group (x first), which kernels with local indices, shared memory, barriers or
    collectives need; `unchecked` leaves out the bounds checks; `name` is what messages and sources call it.  A
    KernelError shows the line of what is not part of the language.
    """
    if isinstance(function, Definition):
        return Kernel(function)
    around = sys._getframe(1).f_locals  # pyright: ignore[reportPrivateUsage]

    def decorate(wrapped: Callable[..., Any]) -> Kernel:
        return Kernel(definition(wrapped, workgroup=workgroup, unchecked=unchecked, name=name, around=around))

    return decorate if function is None else decorate(function)
