"""Arrays of other libraries on the host, as NumPy's over their memory; and the errors of those that do not come."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn, cast

import numpy as np

from poot import dlpack
from poot.dtypes import DType, cast_with, check_plain
from poot.errors import (
    ArgumentError,
    ArgumentTypeError,
    ExchangeError,
    OverflowArgumentError,
    PootError,
    UnsupportedDTypeError,
    caller,
)
from poot.probe import has

_HOST_PROTOCOLS = ("__array_interface__", "__array__")
_PROTOCOLS = ("__dlpack__", *_HOST_PROTOCOLS, "__cuda_array_interface__")


def has_elements(value: object) -> bool:
    """Whether an object has one of the protocols by which arrays are exchanged."""
    return any(has(value, name) for name in _PROTOCOLS)


def host_array(value: Any, what: str) -> np.ndarray[Any, Any] | None:
    """A NumPy array of another library's host array, without a copy where it allows, or None for other objects.

    ExchangeError, which quotes it, where its library refuses to give the elements, or they are not on the host;
    UnsupportedDTypeError where no dtype stands for them.
    """
    refusal: Exception | None = None
    try:
        if has(value, "__dlpack__"):
            check_said(value, what)
            try:
                return np.from_dlpack(value)
            except Exception as error:  # whatever the other library raises, or NumPy, which has no bfloat16 here
                refusal = error
            try:
                return _taken(value, what)
            except Exception as error:  # the library's own is known already
                refusal = error if isinstance(error, PootError) else refusal
        if any(has(value, name) for name in _HOST_PROTOCOLS):
            try:
                return np.asarray(value)
            except Exception as error:
                refuse(value, what, refusal or error)
        if refusal is not None:
            refuse(value, what, refusal)
        return None
    finally:
        refusal = None  # its traceback holds this frame, which would keep the array in a cycle


def as_numpy(value: Any, what: str) -> np.ndarray[Any, Any]:
    """What `np.asarray` gives, and of other libraries' arrays what `host_array` gives; ArgumentError for no array."""
    if isinstance(value, (np.ndarray, np.generic, int, float)) or has(value, "__poot_astype__"):
        return np.asarray(cast("Any", value))
    found = host_array(value, what) if has_elements(value) else None
    if found is not None:
        return found
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ArgumentError(what=what, actual=value, expected=f"an array ({error})") from None


def numbers(value: Any) -> np.ndarray[Any, Any]:
    """What NumPy makes of nested lists of numbers; ints that no one dtype of 64 bits holds stay ints, as objects."""
    found = np.asarray(value)
    if found.dtype == np.float64 and found.size and np.abs(found).max() >= 2.0**63:
        exact = np.asarray(value, object)
        return exact if number_kind(exact) == "i" else found
    return found


def number_kind(array: np.ndarray[Any, Any]) -> str:
    """The kind of dtype, as NumPy has it, that the numbers are of: "i" also for ints past 64 bits, kept as objects."""
    kind = array.dtype.kind
    return "i" if kind == "O" and all(isinstance(item, int) for item in array.flat) else kind


def _cast(value: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """What NumPy makes of numbers, and of other libraries' arrays, at a dtype."""
    what, expected = f"{dtype}(…)", "an array, a number, or nested lists of numbers"
    check_plain(value, what)
    try:
        found = as_numpy(value, what)
        kind = found.dtype.kind
        if kind in "cmM" or found.dtype.names is not None:
            raise UnsupportedDTypeError(what=what, actual=found.dtype.name)
        if kind != "O" or all(has(item, "__float__") for item in found.flat):
            wide = dtype.is_float and kind in "OSU"  # of which bfloat16 knows nothing
            return (found.astype(np.float64) if wide else found).astype(dtype.dtype)
        reason = ""
    except (PootError, Warning):
        raise
    except OverflowError:
        raise OverflowArgumentError(value=f"{value!r:.60}", dtype=dtype, low=dtype.min, high=dtype.max) from None
    except ValueError as error:
        expected = f"{expected} ({' '.join(str(error).split())})"
        raise ArgumentError(what=what, actual=value, expected=expected) from None
    except Exception as error:  # whatever code of the object's raises
        reason = f" ({said(error)})"
    raise ArgumentTypeError(what=what, actual=type(value).__name__, expected=expected + reason)


cast_with(_cast)


class _Borrowed:
    """Memory of another library, for NumPy, which keeps this as long as an array uses the memory."""

    def __init__(self, lent: dlpack.Lent) -> None:
        size = lent.dtype.itemsize
        self._lent = lent
        self.__array_interface__ = {
            "version": 3,
            "shape": lent.shape,
            "typestr": f"<u{size}",
            "data": (lent.address, lent.read_only),
            "strides": tuple(stride * size for stride in lent.strides),
        }

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not finalizing():
            self._lent.release()


def _taken(value: Any, what: str) -> np.ndarray[Any, Any]:
    """The elements by a capsule that is taken here: also of the dtypes that NumPy's own reader does not know."""
    try:
        capsule = value.__dlpack__(max_version=dlpack.VERSION)
    except TypeError:  # from before DLPack 1.0
        capsule = value.__dlpack__()
    lent = dlpack.take(capsule, what)
    if lent.device[0] not in dlpack.HOST:
        lent.release()
        message = f"the elements of {named(value)} lie on DLPack's device {lent.device}, which the host cannot address"
        raise ExchangeError(what=what, message=message, remedy="move it to the host first.")
    return np.asarray(cast("Any", _Borrowed(lent))).view(lent.dtype.dtype)


# --- what is said -----------------------------------------------------------------------------------------------------


def check_said(value: Any, what: str) -> None:
    """ExchangeError for a tensor of torch whose elements stand in memory with their signs turned: DLPack leaves that
    out.
    """
    if _answers(value, "is_neg"):
        message = f"{named(value)} holds its elements with their signs turned (is_neg()), which DLPack cannot say"
        raise ExchangeError(what=what, message=message, remedy="pass x.resolve_neg().")


def refuse(value: Any, what: str, error: Exception) -> NoReturn:
    """Raise ExchangeError for another library's array whose own code, or whose facts, raised `error`."""
    if isinstance(error, PootError):
        raise error.at(caller())
    message = f"{named(value)} does not give its elements: {said(error)}"
    raise ExchangeError(what=what, message=message, where=caller(), remedy=_remedy(value)) from error


def said(error: Exception) -> str:
    """What an error of other code says, on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def named(value: object) -> str:
    """What messages call another library's array."""
    kind = type(value)
    return f"the {kind.__name__} of {kind.__module__.partition('.')[0]}"


def _remedy(value: Any) -> str | None:
    """What mends the tensors that torch keeps to itself."""
    if _answers(value, "requires_grad"):
        return "pass x.detach(): no gradients go through poot."
    if _answers(value, "is_meta"):
        return 'it holds no elements: make it on a device, such as torch.empty_like(x, device="cpu").'
    if _answers(value, "is_quantized"):
        return "pass x.dequantize(), or x.int_repr()."
    if _answers(value, "is_sparse") or _answers(value, "is_sparse_csr"):
        return "pass x.to_dense()."
    return None


def _answers(value: Any, name: str) -> bool:
    """Whether a tensor says True of itself, as an attribute or by a method of torch's."""
    if not has(value, name):
        return False
    try:
        answer = getattr(value, name)
        return (answer() if callable(answer) else answer) is True
    except Exception:  # whatever the other library raises
        return False


#: Where Python goes on where an operator gives NotImplemented.
_REFLECTED = {
    "+": "__radd__", "-": "__rsub__", "*": "__rmul__", "/": "__rtruediv__", "//": "__rfloordiv__", "%": "__rmod__",
    "divmod()": "__rdivmod__", "**": "__rpow__", "@": "__rmatmul__", "&": "__rand__", "|": "__ror__", "^": "__rxor__",
    "<<": "__rlshift__", ">>": "__rrshift__", "<": "__gt__", "<=": "__ge__", ">": "__lt__", ">=": "__le__",
}  # fmt: skip


def other_operand(other: object, operator: str) -> Any:
    """What an operator of an array of poot's gives for what is none of its operands.

    NotImplemented, so that the other object's own operator runs; but ArgumentTypeError where it has none, and for
    another library's array, whose operator would read ours in a way of its own, or compare it as one object.
    """
    elements = has(other, "__dlpack__") or has(other, "__cuda_array_interface__")
    if not elements and (operator not in _REFLECTED or _defines(other, _REFLECTED[operator])):
        return NotImplemented
    asarray = elements or issubclass(type(other), (list, tuple))
    raise ArgumentTypeError(
        what=f"{operator} on an array", actual=type(other).__name__, expected="an array or a number", where=caller(),
        remedy="convert it with ops.asarray first." if asarray else "use an array, or a bool, int or float.",
    )  # fmt: skip


def _defines(other: object, method: str) -> bool:
    """Whether an object's class has an operator of its own; those of Python's own classes take no array."""
    try:
        found = getattr(type(other), method, None)
    except Exception:  # of a metaclass
        return False
    return found is not None and getattr(getattr(found, "__objclass__", None), "__module__", "") != "builtins"
