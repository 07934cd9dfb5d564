"""`asarray`: arrays of other libraries and Python numbers onto a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from poot.api.array import DeviceArray, Lent, upload
from poot.api.devices import Device, choose, precision_of
from poot.api.foreign import device_array
from poot.api.precision import KEPT, Precision
from poot.backends.binding import check_array
from poot.backends.device import DeviceBackend
from poot.backends.sharing import same_memory
from poot.dtypes import ArraySpec, DType, DTypeLike, as_dtype, bool_, check_plain, f32, i32
from poot.errors import ArgumentError, ArgumentTypeError, OverflowArgumentError, an
from poot.foreign import host_array, number_kind, numbers, refuse
from poot.probe import has
from poot.trace import ops
from poot.trace.array import Array
from poot.trace.dispatch import active
from poot.trace.foreign import is_foreign
from poot.trace.source import user_location

#: NumPy's scalars that count as Python's numbers.
_WEAK = (np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.bool_))


def asarray(
    value: Any, dtype: DTypeLike = None, *, device: str | Device | None = None, copy: bool | None = None
) -> Array:
    """A poot array of a NumPy array, an array of another library, a number, or nested lists of numbers.

    The dtype is what `ops.asarray` gives: an array keeps its own; Python's floats give f32 and ints i32, as do NumPy's
    float64 and int64 scalars.  The elements are copied unless `copy=False`, which shares memory where the device can
    and raises ArgumentError where it cannot: of numbers, of another dtype, on another device, and where the elements
    are not contiguous.  ExchangeError quotes a library that does not give its elements.  Inside a traced function it is
    `ops.asarray`.
    """
    if active() is not None:
        return ops.asarray(value, dtype=dtype, device=device, copy=copy)
    wanted = None if dtype is None else as_dtype(dtype)
    if not isinstance(value, (Array, np.ndarray)):
        there = device_array(value, "asarray", copy=copy)
        if there is not None:
            return _from_device(there, wanted, device, copy)
    if copy is False and not (isinstance(value, Array) or is_foreign(value)):
        raise _needs_copy(an(type(cast("object", value)).__name__))
    if isinstance(value, (list, tuple)) and _has_arrays(cast("Sequence[Any]", value)):
        return ops.asarray(value, dtype=wanted, device=device)
    homes = [value.backend] if isinstance(value, DeviceArray) else []
    backend = choose(device, homes)
    if isinstance(value, DeviceArray):
        return _from_ours(value, wanted, backend, copy, precision_of(KEPT, device, backend))
    array = _host(value, wanted)
    if wanted is not None and as_dtype(array.dtype) is not wanted:
        if copy is False:
            raise _needs_copy(f"{as_dtype(array.dtype, 'asarray')} as {wanted}")
        both = wanted.is_float and array.dtype.kind == "f"  # no device need have the wider one
        with np.errstate(over="ignore"):
            array = array.astype(wanted.dtype) if both else np.asarray(ops.astype(upload(array, backend), wanted))
    precision = KEPT if wanted is not None else precision_of(KEPT, device, backend)
    spec = ArraySpec(as_dtype(array.dtype, "array"), array.shape)
    precision.check("asarray", [("the array", spec)], backend.target, asked=wanted is not None)
    if precision.spec(spec) != spec:
        if copy is False:
            raise _needs_copy(f"{spec.dtype} as {precision.spec(spec).dtype}")
        array = precision.convert("array", np.asarray(array), precision.spec(spec))
        spec = precision.spec(spec)
    if copy is not False:
        return upload(array, backend)
    host = check_array("array", array, spec)
    shared = backend.import_host(host) if np.shares_memory(host, array) or not array.size else None
    if shared is None:
        raise _needs_copy(_unshared(array, backend))
    return DeviceArray(Lent(backend, shared), spec)  # the host array goes with its last reference


def _from_ours(
    value: DeviceArray, wanted: DType | None, backend: DeviceBackend, copy: bool | None, precision: Precision
) -> Array:
    moves = not same_memory(backend, value.backend)
    if copy is False and moves:
        raise _needs_copy(f"an array on {value.device} to {backend.name}")
    if copy is False and wanted not in (None, value.dtype):
        raise _needs_copy(f"{value.dtype} as {wanted}")
    spec = precision.spec(value.spec)
    if moves and wanted is None and spec != value.spec:
        return upload(precision.convert("array", value.numpy(), spec), backend)
    if wanted is not None and value.dtype not in backend.target.dtypes:
        return ops.astype(value, wanted).to_device(backend)
    moved = value.to_device(backend)
    if wanted is not None and moved.dtype is not wanted:
        return ops.astype(moved, wanted)
    return moved.__copy__() if copy and not moves else moved


def _unshared(array: np.ndarray[Any, Any], backend: DeviceBackend) -> str:
    """What keeps a device from using an array of NumPy's where it lies."""
    flags = array.flags
    if not flags.c_contiguous:
        return f"an array that is not contiguous, of strides {array.strides},"
    if not (flags.aligned and array.dtype.isnative):
        return "an array of another byte order" if flags.aligned else "an array that is not aligned to its elements"
    return f"an array of the host's to {backend.name}"


def _needs_copy(what: str) -> ArgumentError:
    return ArgumentError(what="copy", actual=False, expected=f"True or None: {what} has to be copied")


def _has_arrays(items: Sequence[Any]) -> bool:
    """Whether nested sequences hold an array, whose dtype counts."""
    return any(
        _has_arrays(cast("Sequence[Any]", item))
        if isinstance(item, (list, tuple))
        else has(item, "__dlpack__") and not isinstance(item, np.generic)
        for item in items
    )


def _from_device(there: DeviceArray, wanted: DType | None, device: str | Device | None, copy: bool | None) -> Array:
    """Another library's array on a GPU: its memory itself for copy=False, which must not change, else a copy."""
    backend = there.backend if device is None else choose(device, ())
    if copy is False:
        if not same_memory(backend, there.backend) or wanted not in (None, there.dtype):
            raise _needs_copy(f"an array on {there.device} to {backend.name}, or to another dtype,")
        return there.to_device(backend)
    if wanted not in (None, there.dtype):
        there = cast("DeviceArray", ops.astype(there, wanted))
    elif same_memory(backend, there.backend):
        there = there.__copy__()
    return there.to_device(backend)


def _host(value: Any, wanted: DType | None) -> np.ndarray[Any, Any]:
    check_plain(value, "asarray")
    if isinstance(value, np.generic) and cast("Any", value).dtype in _WEAK:
        return _host(value.item(), wanted)
    if isinstance(value, (np.ndarray, np.generic, Array)):
        return np.asarray(cast("Any", value))
    found = host_array(value, "asarray")
    if found is not None:
        return found
    try:
        array = numbers(value)
    except ValueError as error:
        raise ArgumentError(what="asarray", actual=value, expected=f"lists of equal lengths ({error})") from None
    except Exception as error:  # whatever code of the object's raises
        refuse(value, "asarray", error)
    kind = number_kind(array)
    if kind not in "fiub":
        raise ArgumentTypeError(what="asarray", actual=type(value).__name__, expected="an array or numbers")
    natural = {"f": f32, "i": i32, "u": i32, "b": bool_}[kind]
    return _numbers(array, natural if wanted is None else wanted, given=wanted is not None)


def _numbers(array: np.ndarray[Any, Any], dtype: DType, *, given: bool) -> np.ndarray[Any, Any]:
    """Python numbers at a dtype; OverflowArgumentError for the first that it cannot hold."""
    if dtype is bool_:
        return array.astype(bool)
    wrong: Any = np.zeros(array.shape, bool)
    with np.errstate(all="ignore"):
        if dtype.is_integer:
            wrong = ~((array >= dtype.min) & (array <= dtype.max))
        elif array.dtype.kind == "f":
            wrong = np.isinf(array.astype(dtype.dtype).astype(np.float64)) & np.isfinite(array)
        if np.any(wrong):
            first = array[np.asarray(wrong, bool)].flat[0]
            remedy = None if given else "pass a wider dtype, such as dtype=poot.i64 or poot.f64."
            raise OverflowArgumentError(
                value=first, dtype=dtype, low=dtype.min, high=dtype.max, where=user_location(), remedy=remedy
            )
        return array.astype(dtype.dtype)
