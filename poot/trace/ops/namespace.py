"""What the array API asks of a namespace as a whole: its inspection, `from_dlpack`, and names that it does not have."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import numpy as np

from poot.dtypes import BY_NAME, DType, f32, i32
from poot.errors import ArgumentError, ArgumentTypeError, DeviceError, ExchangeError, FeatureError
from poot.foreign import host_array
from poot.probe import has
from poot.trace.array import Array, is_array
from poot.trace.dispatch import is_traced, joined, lift
from poot.trace.ops.axes import flag, shown
from poot.trace.ops.inspection import isdtype
from poot.trace.places import TRACED, places
from poot.trace.source import user_location

API_VERSION: Final = "2024.12"

DEPENDENT: Final = "the shape of its result depends on values; use ops.where, ops.sort or a mask of fixed shape."
_COMPLEX = "there are no complex numbers; keep the real and imaginary parts as two arrays."
_FFT = "there are no complex numbers; numpy.fft takes arrays read back with np.asarray(x)."
_SOLVER = "there are no matrix decompositions; numpy.linalg takes arrays read back with np.asarray(x)."

REFUSED: Final[dict[str, str]] = {
    **dict.fromkeys(("nonzero", "argwhere", "flatnonzero", "unique"), DEPENDENT),
    **dict.fromkeys(("unique_all", "unique_counts", "unique_inverse", "unique_values"), DEPENDENT),
    **dict.fromkeys(("complex64", "complex128", "conj", "imag", "real"), _COMPLEX),
    "fft": _FFT,
}
"""Names of the standard, and of NumPy, that `ops` does not have, with what to do instead."""

REFUSED_LINALG: Final[dict[str, str]] = dict.fromkeys(
    (
        "cholesky", "det", "eigh", "eigvalsh", "inv", "matrix_rank", "pinv", "qr", "slogdet",
        "solve", "svd", "svdvals",
    ),
    _SOLVER,
)  # fmt: skip
"""The same for `ops.linalg`."""


def refuse(name: str, remedy: str) -> FeatureError:
    """The error for a name that a namespace does not have."""
    return FeatureError(feature=f"operation {name}", remedy=remedy)


def missing(module: str, name: str, known: Sequence[str]) -> FeatureError:
    """The error for a name that a module of `ops` does not have, with the nearest that it has."""
    group = module.rpartition(".")[2]
    near = difflib.get_close_matches(name, known, n=1)
    remedy = f"did you mean `ops.{group}.{near[0]}`?" if near else f"`dir(ops.{group})` lists what there is."
    return refuse(f"ops.{group}.{name}", remedy)


def placed(device: Any, *like: object) -> AbstractContextManager[object]:
    """A block whose new arrays go to `device`, or where the first of `like` lives.

    Inside a trace there is nothing to choose: DeviceError for a device other than that of the trace's values.
    """
    if is_array(device):
        raise ArgumentTypeError(
            what="device", actual=shown(device), expected="a device or its name", where=user_location()
        )
    if is_traced(*like):
        if device is None or device == TRACED:
            return nullcontext()
        raise DeviceError(
            device=device,
            message="the device of an array cannot be chosen inside a traced function",
            where=user_location(),
            remedy="pass device= to poot.trace, or enter `with poot.device(…)` around the call.",
        )
    if device is None:
        return joined(*like)
    return nullcontext() if device == TRACED else places().scope(device)


def moved(array: Array, device: Any) -> Array:
    """The array on `device`, which a value of a trace is on already (`placed` has checked it)."""
    return array if device is None or is_traced(array) else places().move(array, device)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array of another library's elements, through DLPack.

    They are shared where the device can, unless `copy` is True.  An array of poot that is on the device already is
    itself.  ExchangeError, a BufferError, for copy=False where the elements have to be copied, and where the other
    library does not give them.
    """
    if not (isinstance(x, Array) or has(x, "__dlpack__")):
        raise ArgumentTypeError(
            what="from_dlpack", actual=shown(x), expected="an array that has __dlpack__", where=user_location(),
            remedy="pass it to ops.asarray.",
        )  # fmt: skip
    with placed(device, x):
        pass  # which checks it
    copy = None if copy is None else flag(copy, "from_dlpack: copy")
    if is_traced(x):
        with placed(device, x):
            found = x if isinstance(x, Array) else host_array(x, "from_dlpack")
            assert found is not None, x  # it has __dlpack__
            return lift(found)
    if copy or (isinstance(x, Array) and copy is None):
        return places().share(x, device, copy)
    try:
        return places().share(x, device, False)
    except ArgumentError as error:
        if copy is False:
            raise ExchangeError(
                what="from_dlpack: copy=False", message="the elements have to be copied", where=user_location(),
                remedy="leave copy= out, or pass copy=True.",
            ) from error  # fmt: skip
        return places().share(x, device, True)


class NamespaceInfo:
    """What `__array_namespace_info__()` gives: capabilities, devices and dtypes."""

    __slots__ = ()

    def capabilities(self) -> dict[str, Any]:
        """What depends on values is not there; there is no limit to the number of axes."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": None}

    def default_device(self) -> str:
        """The name of the device where new arrays go."""
        return places().default()

    def devices(self) -> list[str]:
        """The names of the devices that open on this machine."""
        return places().names()

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes that Python numbers and positions take, on every device."""
        return {"real floating": f32, "integral": i32, "indexing": i32}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The standard's dtypes, of a kind as `isdtype` names it; a device may lack those of 64 bits."""
        found = {
            np.dtype(dtype.dtype).name: dtype for dtype in BY_NAME.values() if dtype.bits != 16 or not dtype.is_float
        }
        return {name: dtype for name, dtype in found.items() if kind is None or isdtype(dtype, kind)}


def array_namespace_info() -> NamespaceInfo:
    """The namespace's inspection."""
    return NamespaceInfo()
