"""Concrete arrays: device memory with a spec, immutable, read by NumPy without a copy where the host can address it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from typing_extensions import override

from poot.api.checks import Awaited, Check
from poot.api.precision import KEPT
from poot.backends.binding import check_array
from poot.backends.capsules import of_host
from poot.backends.device import Buffer, BufferView, DeviceBackend, open_device
from poot.backends.inherited import is_forked
from poot.backends.loss import is_lost
from poot.backends.sharing import same_memory, sharing_of
from poot.dlpack import CPU
from poot.dtypes import ArraySpec, DTypeLike, as_dtype, bf16
from poot.errors import ArgumentError, ArgumentTypeError, ArrayMutationError, EngineError, ExchangeError
from poot.target import Target
from poot.trace.array import Array, NumpyArray
from poot.trace.places import no_stream
from poot.trace.source import user_location

_SHOWN = 1000  # repr fetches the whole array up to this many elements, and only its corners above
_EDGE = 3
_DLPACK_CPU = (CPU, 0)


class Held:
    """A device buffer that arrays use, and that needs no freeing: it frees itself, or is not ours."""

    __slots__ = ("__weakref__", "buffer", "device")

    def __init__(self, device: DeviceBackend, buffer: Buffer) -> None:
        self.device = device
        self.buffer = buffer

    @property
    def origin(self) -> Held:
        """What the memory comes from."""
        return self


class Lent(Held):
    """A buffer over a host array of the caller's, who may write to it and knows of no work that is still going on."""

    __slots__ = ()


class Memory(Held):
    """Owns a device buffer, freed with the last array that uses it."""

    __slots__ = ()

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At exit the process gives everything back.  A buffer collected in one cycle with this may be gone already.
        if not finalizing() and getattr(self.buffer, "alive", True):
            self.device.free(self.buffer)


class _Part(Held):
    """A buffer that other memory owns."""

    __slots__ = ("_owner",)

    def __init__(self, device: DeviceBackend, buffer: Buffer, owner: Held) -> None:
        super().__init__(device, buffer)
        self._owner = owner

    @property
    @override
    def origin(self) -> Held:
        return self._owner.origin


class _Empty:
    """A buffer of nothing."""

    nbytes = 0


class _Nothing(Held):
    """What is left of memory that was given away."""

    __slots__ = ()

    def __init__(self, device: DeviceBackend) -> None:
        super().__init__(device, _Empty())


class DeviceArray(Awaited, Array):
    """An array that has a value.  Made by calls and by `poot.asarray`; nothing changes it, but for kernels' outputs."""

    __slots__ = ("__weakref__", "_gone", "_memory", "_offset", "_spec")

    def __init__(self, memory: Held, spec: ArraySpec, check: Check | None = None, offset: int = 0) -> None:
        self._memory = memory
        self._spec = spec
        self._check = check
        self._offset = offset
        self._gone = ""

    @property
    @override
    def spec(self) -> ArraySpec:
        return self._spec

    def takes(self, spec: ArraySpec) -> bool:
        """Whether a spec is the array's; it holds that object then, which the next call tells at once."""
        if self._spec != spec:
            return False
        self._spec = spec
        return True

    @property
    def backend(self) -> DeviceBackend:
        """Where the array lives."""
        return self._memory.device

    @property
    def device(self) -> str:
        """The name of the device where the array lives."""
        return self._memory.device.name

    @property
    def memory(self) -> Held:
        """What holds the elements; arrays with the same memory may share elements."""
        return self._memory

    @property
    def is_tracked(self) -> bool:
        """Whether only kernels of poot can change the elements: not where they are a host array of the caller's."""
        return not isinstance(self._memory.origin, Lent)

    @property
    def is_plain(self) -> bool:
        """Whether the array is there, with no fault left to check."""
        return self._check is None and not self._gone

    @property
    def address(self) -> int:
        """Where the host addresses the first element, on devices whose buffers have an address."""
        return self._memory.buffer.address + self._offset  # type: ignore[attr-defined]

    def buffer_view(self) -> BufferView:
        """The memory, for a launch or a read; EngineError if the array was donated.

        A fault of the computation that made the array is raised here, so that no result is ever made of a faulty one.
        """
        self._require_present()
        self.require_checked()
        return BufferView(self._memory.buffer, self._offset)

    def replace_memory(self, memory: Held, gone: str) -> None:
        """Of `give_away`: other memory, and the call that the array's own was given away to."""
        self._gone, self._memory = gone, memory

    def _require_present(self) -> None:
        if self._gone:
            raise EngineError(
                message=f"this array was donated to {self._gone}",
                where=user_location(),
                remedy="keep a copy, or do not donate it.",
            )

    def block_until_ready(self) -> DeviceArray:
        """Wait for the computation, and raise its fault if it had one."""
        self._require_present()
        self._memory.device.synchronize()
        self.buffer_view()
        return self

    @override
    def _value(self, use: str) -> NumpyArray:
        return self.numpy()

    @override
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NumpyArray:
        """What `np.asarray` takes: the elements, read-only, in place where the host can address them.

        For copy=False ArgumentError where it cannot, and where `dtype` is another one.
        """
        if copy is False and self._memory.device.host_view(self.buffer_view(), 0) is None:
            raise self._needs_copy("the host cannot address it")
        if copy is False and dtype not in (None, self.dtype.dtype):
            raise self._needs_copy(f"its dtype is {self.dtype}")
        return super().__array__(dtype, copy)

    def _needs_copy(self, why: str) -> ArgumentError:
        return ArgumentError(
            what=f"copy of an array on {self.device}",
            actual=False,
            expected=f"True or None: {why}",
            where=user_location(),
        )

    def numpy(self, dtype: DTypeLike = None) -> NumpyArray:
        """The elements, read-only; without a copy where the host can address them.  `dtype` converts them."""
        view = self.buffer_view()
        window = self._memory.device.host_view(view, self._spec.nbytes)
        if window is None:
            array = np.empty(self._spec.shape, self._spec.dtype.dtype)
            self._memory.device.read(view, array)
        else:
            array = window.view(self._spec.dtype.dtype).reshape(self._spec.shape)
        array.flags.writeable = False
        return array if dtype is None else array.astype(as_dtype(dtype).dtype)

    @override
    def to_device(self, device: Any, /, *, stream: Any = None) -> DeviceArray:
        """A copy on another device, given by name or as `poot.device` gives it; the array itself if it is there."""
        no_stream(stream)
        backend: DeviceBackend = open_device(device) if isinstance(device, str) else getattr(device, "backend", device)
        if not isinstance(getattr(backend, "target", None), Target):
            raise ArgumentTypeError(what="device", actual=type(device).__name__, expected="a device or its name")
        if same_memory(backend, self.backend):
            return self if backend is self.backend else self._seen_from(backend)
        KEPT.check("to_device", [("the array", self._spec)], backend.target)
        return upload(self.numpy(), backend)

    def _seen_from(self, backend: DeviceBackend) -> DeviceArray:
        """The same memory as an array of a device that shares it."""
        view = self.buffer_view()
        return DeviceArray(_Part(backend, view.buffer, self._memory), self._spec, None, view.offset)

    # --- other libraries ---

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's kind and number of the device: a GPU's, or the CPU's where the host can address the elements.

        ExchangeError, a BufferError, elsewhere.
        """
        here = self._dlpack_place()
        if here is None:
            raise self._not_exported("the host cannot address it")
        return here

    def _dlpack_place(self) -> tuple[int, int] | None:
        """The device as DLPack counts them; None where it knows none."""
        sharing = sharing_of(self._memory.device)
        if sharing is not None:
            return sharing.device()
        return None if self._memory.device.host_view(self.buffer_view(), 0) is None else _DLPACK_CPU

    def _not_exported(self, why: str) -> ExchangeError:
        return ExchangeError(
            what=f"an array on {self.device}", message=f"it is not exported: {why}", where=user_location(),
            remedy='x.to_device("cpu") gives one that is, and np.asarray(x) reads it.',
        )  # fmt: skip

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The elements as DLPack gives them: shared and marked read-only, or for copy=True a copy that may be written.

        On a GPU `stream` is the consumer's, which is made to wait for the array.  A consumer from before DLPack 1.0
        cannot be told read-only: on the host it gets a copy, and ExchangeError, a BufferError, for copy=False; on a GPU
        it gets memory that it must not write.  One that wants another device than the array's gets ExchangeError too,
        unless that is the CPU and a copy will do.
        """
        sharing, here = sharing_of(self._memory.device), self._dlpack_place()
        wanted = here if dl_device is None else dl_device
        versioned = max_version is not None and max_version[0] >= 1
        if sharing is not None and wanted == here:
            return sharing.export(self.buffer_view(), self._spec, stream, versioned=versioned, copy=bool(copy))
        if wanted != _DLPACK_CPU or (here != _DLPACK_CPU and copy is False):
            raise self._not_exported("the host cannot address it" if wanted is None else f"DLPack device {wanted}")
        if here == _DLPACK_CPU:
            no_stream(stream)
            if copy is False and not versioned:
                raise ExchangeError(
                    what=f"an array on {self.device}", where=user_location(),
                    message="copy=False asks for its memory, which the consumer, from before DLPack 1.0, would take "
                    "for memory that may be written",
                    remedy="leave copy= out, which gives a copy, or pass max_version=(1, 0).",
                )  # fmt: skip
        copied = bool(copy) or here != _DLPACK_CPU or not versioned
        array = self.numpy().copy() if copied else self.numpy()
        if self.dtype is bf16:  # which NumPy does not export
            return of_host(array, self._spec, versioned=versioned, copied=copied)
        return array.__dlpack__(max_version=max_version) if versioned else array.__dlpack__()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The elements on a CUDA device, read-only, for libraries without DLPack; AttributeError elsewhere."""
        sharing = sharing_of(self._memory.device)
        if sharing is None:
            raise AttributeError(f"an array on {self.device} has no __cuda_array_interface__")
        return sharing.interface(self.buffer_view(), self._spec)

    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise ArrayMutationError(what=f"an array {self._spec}", where=user_location())

    # --- copies and text ---

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (np.array(self.numpy()), self.device)

    def __copy__(self) -> DeviceArray:
        """The same elements in memory of their own: kernels write into arrays, and calls are given them."""
        source, device = self.buffer_view(), self._memory.device
        memory = Memory(device, device.allocate(self.nbytes))
        device.copy(source, BufferView(memory.buffer), self.nbytes)
        if not self.is_tracked:  # its owner may write to it from here on
            device.synchronize()
        return DeviceArray(memory, self._spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceArray:
        return self.__copy__()

    @override
    def __repr__(self) -> str:
        dtype = f"dtype={self.dtype}"
        if self._gone:
            return f"Array(donated to {self._gone}, shape={self.shape}, {dtype})"
        if is_forked(self._memory.device):
            return f"Array(in the process that forked this one, shape={self.shape}, {dtype}, device={self.device!r})"
        if is_lost(self._memory.device):
            return f"Array(lost with its device, shape={self.shape}, {dtype}, device={self.device!r})"
        where = "" if self.device == "cpu" else f", device={self.device!r}"
        shape = "" if self.size or self.ndim == 1 else f", shape={self.shape}"
        return f"Array({_text(self, 'Array(')}{shape}, {dtype}{where})"

    @override
    def __str__(self) -> str:
        return _text(self, "")


def give_away(arrays: Sequence[DeviceArray], call: str) -> None:
    """Give the memory of arrays away to `call`, of all or of none; every later use names it.

    Views that NumPy holds keep their contents.  Nothing here can fail but for a Ctrl-C.
    """
    memories = [array.memory for array in arrays]
    try:
        for array, memory in zip(arrays, memories, strict=True):
            array.replace_memory(_Nothing(memory.device), call)
    except BaseException:
        for array, memory in zip(arrays, memories, strict=True):
            array.replace_memory(memory, "")
        raise


def _text(array: DeviceArray, prefix: str) -> str:
    if array.size <= _SHOWN:
        return np.array2string(_plain(array.numpy()), separator=", ", prefix=prefix)
    if array.backend.host_view(array.buffer_view(), 0) is not None:
        return np.array2string(_plain(array.numpy()), separator=", ", prefix=prefix, threshold=_SHOWN)
    corners = array
    for axis, extent in enumerate(array.shape):
        if extent > 2 * _EDGE:
            edges = [*range(_EDGE), *range(extent - _EDGE, extent)]
            corners = corners.take(np.array(edges, np.int32), axis=axis)
    shown = ", ".join(map(str, array.shape))
    return np.array2string(_plain(np.asarray(corners)), separator=", ", prefix=prefix) + f" (edges of {shown})"


def _plain(array: NumpyArray) -> NumpyArray:
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def _unpickle(array: NumpyArray, device: str) -> DeviceArray:
    backend = open_device(device)
    KEPT.check("to_device", [("the array", ArraySpec(as_dtype(array.dtype), array.shape))], backend.target)
    return upload(array, backend)


def upload(array: NumpyArray, device: DeviceBackend) -> DeviceArray:
    """A copy of a NumPy array on a device, of the same dtype and shape."""
    spec = ArraySpec(as_dtype(array.dtype, "array"), array.shape)
    host = check_array("array", array, spec)
    memory = Memory(device, device.allocate(spec.nbytes))
    device.write(BufferView(memory.buffer), host)
    return DeviceArray(memory, spec)
