"""The low level of kernels: buffers bound by hand, and compiled kernels dispatched over them with every check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from poot import forks
from poot.api.array import DeviceArray, Memory
from poot.api.checks import Awaited, LaunchCheck
from poot.api.devices import Device, device
from poot.api.kernel_arguments import fail, scalar
from poot.api.kernel_plan import check_sizes, load, refuse_overlap
from poot.backends.binding import check_array
from poot.backends.device import BufferView, DeviceBackend, LaunchSpec
from poot.backends.loss import require_alive
from poot.backends.toolchain import CompiledKernel
from poot.dtypes import ArraySpec, DTypeLike, as_dtype, check_plain
from poot.errors import ArgumentError, DeviceMismatchError
from poot.foreign import as_numpy
from poot.kernel.faults import fault_error
from poot.kernel.ir import FAULT_WORDS, Access, BufferParam, ScalarParam
from poot.kernel.parse.definition import Size, Triple, triple

HostArray: TypeAlias = np.ndarray[Any, Any]
_ANOTHER = "compile it for this context, k.compile(ctx.device.target, workgroup=…), or use a Context of that device."
_CLEAR = np.zeros(FAULT_WORDS, np.int32)
#: Held while a buffer takes the memory that a thread has made for it.
_putting = forks.lock()


class KernelBuffer(Awaited):
    """Memory for `Context.dispatch`: a copy of an array, or zeros to be written, kept on the first context's device."""

    def __init__(self, access: Access, spec: ArraySpec, host: HostArray | None) -> None:
        self.access = access
        self.spec = spec
        self._host = host
        self._memory: Memory | None = None
        self._check = None

    @staticmethod
    def read_only(array: Any) -> KernelBuffer:
        """A copy of an array that kernels read."""
        return _copied("read", array)

    @staticmethod
    def read_write(array: Any) -> KernelBuffer:
        """A copy of an array that kernels read and write; the array itself stays as it is."""
        return _copied("readwrite", array)

    @staticmethod
    def write(dtype: DTypeLike, shape: Size) -> KernelBuffer:
        """An array of zeros that kernels write: `write(f32, n)`, `write(f32, (h, w))`."""
        sizes = shape if isinstance(shape, tuple) else (shape,)
        return KernelBuffer("write", ArraySpec(as_dtype(dtype, "KernelBuffer"), sizes), None)

    def view(self, backend: DeviceBackend, name: str) -> BufferView:
        """The memory on a device, put there at the first use; DeviceMismatchError for any other device later.

        `name` is the kernel's for the buffer.
        """
        memory = self._memory or self._put(backend)
        require_alive(memory.device)
        if memory.device is not backend:
            raise DeviceMismatchError(
                devices=f"the KernelBuffer of `{name}` on {memory.device.name}, the context on {backend.name}",
                remedy="use a Context of its device, or make another KernelBuffer of its to_numpy().",
            )
        return BufferView(memory.buffer)

    def _put(self, backend: DeviceBackend) -> Memory:
        """Memory on a device with the contents; of several threads that come here first all take that of one."""
        memory = Memory(backend, backend.allocate(self.spec.nbytes))
        backend.write(BufferView(memory.buffer), self._contents())
        with _putting:
            self._memory = self._memory or memory
            self._host = None
            return self._memory

    def _contents(self) -> HostArray:
        """What the buffer holds before it is on a device."""
        host = self._host
        return np.zeros(self.spec.shape, self.spec.dtype.dtype) if host is None else host.copy()

    def to_numpy(self) -> HostArray:
        """The contents as a new NumPy array; waits for the launches, and raises the fault of one that wrote it."""
        out, memory = self._contents(), self._memory
        if memory is not None:
            self.require_checked()
            memory.device.read(BufferView(memory.buffer), out)
        return out

    def __repr__(self) -> str:
        return f"KernelBuffer({self.access}, {self.spec})"


def _copied(access: Access, array: Any) -> KernelBuffer:
    check_plain(array, "KernelBuffer")
    host = array.numpy() if isinstance(array, DeviceArray) else as_numpy(array, "KernelBuffer")
    spec = ArraySpec(as_dtype(host.dtype, "KernelBuffer"), host.shape)
    return KernelBuffer(access, spec, check_array("KernelBuffer", host, spec).copy())


class Context:
    """A device to dispatch compiled kernels on."""

    def __init__(self, on: str | Device) -> None:
        self.device = device(on)

    def dispatch(
        self,
        name: str,
        compiled: CompiledKernel,
        *,
        workgroup: Size,
        threads: Size | None = None,
        groups: Size | None = None,
        buffers: Sequence[KernelBuffer],
        scalars: Mapping[str, Any] | None = None,
    ) -> None:
        """Run a compiled kernel once.

        `buffers` follow the kernel's buffer parameters, `scalars` give its scalar parameters by name.  Everything is
        checked against what the kernel was compiled for; LaunchError says what differs, and nothing has run then.  A
        fault is raised by `to_numpy` of a buffer that the launch wrote.
        """
        _check_kinds(name, compiled, buffers, scalars)
        backend, kernel = self.device.backend, compiled.kernel
        if name != kernel.name:
            fail(name, f"the compiled kernel is {kernel.name}", "dispatch it under its own name.")
        if compiled.target != backend.target:
            fail(name, f"it is compiled for {compiled.target}, the context is {backend.name}", _ANOTHER)
        size = _size(name, workgroup, "workgroup")
        if size != kernel.workgroup:
            fail(name, f"workgroup={size}, compiled for {kernel.workgroup}", "pass the work-group of compile().")
        counts, grid = _grid(name, compiled, threads, groups)
        self._check_buffers(name, kernel.buffers, buffers, compiled)
        check_sizes(kernel, [buffer.spec.shape for buffer in buffers], backend.target)
        values = _scalars(name, compiled, scalars or {})
        views = [buffer.view(backend, param.name) for param, buffer in zip(kernel.buffers, buffers, strict=True)]
        numbers = _numbers(compiled, buffers, values, counts)
        if 0 in grid:
            return
        spec = LaunchSpec(load(compiled, backend), tuple((n, 0) for n in range(len(views))), grid, numbers)
        if not compiled.sites:
            backend.record([spec], views, (), ())
            return
        record = backend.allocate(_CLEAR.nbytes)
        check = LaunchCheck(backend, record, lambda words: fault_error(kernel, words))
        backend.write(BufferView(record), _CLEAR)
        backend.record([spec], [*views, BufferView(record)], (), (), len(views))
        for param, buffer in zip(kernel.buffers, buffers, strict=True):
            if param.access != "read":
                buffer.await_check(check)

    def _check_buffers(
        self, name: str, params: Sequence[BufferParam], buffers: Sequence[Any], compiled: CompiledKernel
    ) -> None:
        if len(buffers) != len(params):
            names = ", ".join(param.name for param in params)
            fail(name, f"{len(buffers)} buffers given, {len(params)} expected", f"give {names}.")
        largest = int(compiled.kernel.index_dtype.max)
        for number, (param, buffer) in enumerate(zip(params, buffers, strict=True)):
            if not isinstance(buffer, KernelBuffer):
                kind, made = type(buffer).__name__, "read_only" if param.access == "read" else "read_write"
                fail(name, f"`{param.name}` is a {kind}, no KernelBuffer", f"pass KernelBuffer.{made}(array).")
            if buffer.spec.dtype is not param.dtype or buffer.spec.rank != param.rank:
                wanted = f"{param.dtype} of rank {param.rank}"
                fail(name, f"`{param.name}` is {buffer.spec}, compiled for {wanted}", "pass such an array.")
            if param.access != "read" and buffer.access == "read":
                fail(name, f"`{param.name}` is written, and its buffer is read-only", "use KernelBuffer.read_write.")
            if max(buffer.spec.shape, default=0) > largest:
                fail(name, f"`{param.name}` is {buffer.spec}, past 32-bit indices", "launch the kernel by calling it.")
            for other, twin in zip(params[:number], buffers[:number], strict=True):
                if twin is buffer and (param.access != "read" or other.access != "read"):
                    written, read = (param, other) if param.access != "read" else (other, param)
                    raise refuse_overlap(name, written.name, read.name)


def _check_kinds(name: str, compiled: object, buffers: object, scalars: object) -> None:
    """LaunchError for what is no compiled kernel, no list of buffers, or no scalars by name."""
    if not isinstance(compiled, CompiledKernel):
        kind = type(compiled).__name__
        remedy = "compile the kernel first: compiled = k.compile(ctx.device.target, workgroup=…), and dispatch that."
        fail(name, f"a {kind} is given, where a compiled kernel is needed", remedy)
    if not isinstance(buffers, (list, tuple)):
        names = ", ".join(param.name for param in compiled.kernel.buffers)
        fail(name, f"buffers= is a {type(buffers).__name__}, no list", f"pass a list of KernelBuffers for {names}.")
    if scalars is not None and not isinstance(scalars, Mapping):
        fail(name, f"scalars= is a {type(scalars).__name__}, no dict", 'pass them by name: scalars={"n": 8}.')


def _size(name: str, size: Size, word: str, least: int = 1) -> Triple:
    try:
        return triple(size, word, least=least)
    except ArgumentError:
        fail(name, f"{word}={size!r}", "give one to three integers, x first.")


def _grid(name: str, compiled: CompiledKernel, threads: Size | None, groups: Size | None) -> tuple[Triple, Triple]:
    """Threads and work-groups on each axis."""
    kernel = compiled.kernel
    if (threads is None) == (groups is None):
        fail(
            name, "give exactly one of threads= and groups=", "threads=n starts n threads, groups=n whole work-groups."
        )
    if groups is not None:
        grid = _size(name, groups, "groups", 0)
        counts = tuple(n * width for n, width in zip(grid, kernel.workgroup, strict=True))
    else:
        counts = _size(name, cast("Size", threads), "threads", 0)
        grid = tuple(-(-n // width) for n, width in zip(counts, kernel.workgroup, strict=True))
        if kernel.threads is None and any(n % width for n, width in zip(counts, kernel.workgroup, strict=True)):
            fail(
                name,
                f"threads={counts} are no multiples of the work-group {kernel.workgroup}, and the kernel has barriers, "
                "collectives or shared arrays",
                "launch whole work-groups: groups=.",
            )
    for axis, (count, bound) in enumerate(zip(counts, kernel.threads or (None, None, None), strict=True)):
        if bound is not None and count > bound:
            fail(name, f"{count} threads on axis {axis}, compiled for {bound}", "compile it for more axes.")
    limit = dict(compiled.target.limits).get("grid")
    if limit is not None and max(grid) > limit:
        fail(
            name, f"{grid} work-groups, more than {limit} on an axis", "launch the kernel by calling it: it folds them."
        )
    return cast("Triple", counts), cast("Triple", grid)


def _scalars(name: str, compiled: CompiledKernel, given: Mapping[str, Any]) -> dict[str, int | float]:
    params = {param.name: param for param in compiled.kernel.params if isinstance(param, ScalarParam)}
    for key in (*given, *params):
        if key not in given or key not in params:
            what = f"no scalar `{key}` is given" if key in params else f"it has no scalar parameter `{key}`"
            fail(name, what, "its scalars are " + (", ".join(params) or "none") + ".")
    return {key: scalar(name, key, given[key], param.dtype) for key, param in params.items()}


def _numbers(
    compiled: CompiledKernel, buffers: Sequence[KernelBuffer], scalars: Mapping[str, int | float], counts: Triple
) -> tuple[int | float, ...]:
    """The values of the kernel's scalar, extent, stride and threads slots."""
    specs = {param.name: buffer.spec for param, buffer in zip(compiled.kernel.buffers, buffers, strict=True)}
    found: list[int | float] = []
    for slot in compiled.slots:
        match slot.kind:
            case "scalar":
                found.append(scalars[slot.param])
            case "extent":
                found.append(specs[slot.param].shape[slot.axis])
            case "stride":
                found.append(ArraySpec(specs[slot.param].dtype, specs[slot.param].shape[slot.axis + 1 :]).size)
            case "threads":
                found.append(counts[slot.axis])
            case _:
                pass
    return tuple(found)
