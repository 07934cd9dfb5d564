"""The words of the kernel language: annotations of parameters, and the functions that only a kernel can call.

    @poot.kernel
    def scale(x: poot.In[f32], y: poot.Out[f32], factor: float):
        i = poot.thread_index()
        if i < len(y):
            y[i] = factor * x[i]

`In`, `Out` and `InOut` take an element dtype (or a type variable, for any dtype) and optionally a rank: `In[f32]` has
rank 1, `In2[f32]` and `In[f32, Literal[2]]` rank 2.  `Const[int]` is a parameter whose value is part of the compiled
kernel.  The functions are known to the parser by identity; as Python they run for one thread at a time (`thread.py`).
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeAlias, cast, get_args, get_origin

import numpy as np
from typing_extensions import TypeVar, override

from poot.dtypes import BY_NAME, DType, as_dtype
from poot.errors import ArgumentError, PootError, UnsupportedDTypeError, caller
from poot.kernel.ir import Access
from poot.kernel.thread import Elements, current, zeros

Axis = Literal["x", "y", "z"]
AXES = "xyz"
MAX_RANK = 4

_V = TypeVar("_V")
E = TypeVar("E")
R = TypeVar("R", default=Literal[1])


class ConstMarker:
    """Marks a parameter whose value is compiled in."""

    @override
    def __repr__(self) -> str:
        return "poot.Const"


CONST = ConstMarker()

#: `Const[int]`: to a type checker the value itself, to the parser a constant of the specialisation.
Const: TypeAlias = Annotated[_V, CONST]


@dataclass(frozen=True, slots=True)
class BufferType:
    """What `In[f32]` and its like stand for: access, element (a dtype or a type variable) and rank."""

    access: Access
    element: DType | Any
    rank: int

    @override
    def __repr__(self) -> str:
        name = {"read": "In", "write": "Out", "readwrite": "InOut"}[self.access]
        element = self.element.name if isinstance(self.element, DType) else getattr(self.element, "__name__", "?")
        return f"{name}{self.rank if self.rank > 1 else ''}[{element}]"


if TYPE_CHECKING:

    class In(Generic[E, R]):
        """A buffer that the kernel reads."""

        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def ndim(self) -> int: ...
        @property
        def dtype(self) -> DType: ...
        def __len__(self) -> int: ...
        def __getitem__(self, index: int | tuple[int, ...], /) -> Any: ...

    class Out(Generic[E, R]):
        """A buffer that the kernel writes; elements that it does not write keep their contents."""

        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def ndim(self) -> int: ...
        @property
        def dtype(self) -> DType: ...
        def __len__(self) -> int: ...
        def __setitem__(self, index: int | tuple[int, ...], value: Any, /) -> None: ...

    class InOut(In[E, R]):
        """A buffer that the kernel reads and writes."""

        def __setitem__(self, index: int | tuple[int, ...], value: Any, /) -> None: ...

    In2: TypeAlias = In[E, Literal[2]]
    In3: TypeAlias = In[E, Literal[3]]
    In4: TypeAlias = In[E, Literal[4]]
    Out2: TypeAlias = Out[E, Literal[2]]
    Out3: TypeAlias = Out[E, Literal[3]]
    Out4: TypeAlias = Out[E, Literal[4]]
    InOut2: TypeAlias = InOut[E, Literal[2]]
    InOut3: TypeAlias = InOut[E, Literal[3]]
    InOut4: TypeAlias = InOut[E, Literal[4]]
else:

    class _Buffer:
        access: Access = "read"
        rank: int | None = None

        def __class_getitem__(cls, item: object) -> BufferType:
            element, rank = item if isinstance(item, tuple) and len(item) == 2 else (item, cls.rank or 1)
            if get_origin(rank) is Literal:
                rank = get_args(rank)[0]
            if cls.rank is not None and rank != cls.rank:
                raise ArgumentError(what=f"rank of {cls.__name__}", actual=rank, expected=str(cls.rank))
            if not isinstance(rank, int) or not 1 <= rank <= MAX_RANK:
                raise ArgumentError(what=f"rank of {cls.__name__}", actual=rank, expected=f"1 to {MAX_RANK}")
            if not _is_variable(element):
                element = _dtype(element, f"element of {cls.__name__}")
            return BufferType(cls.access, element, rank)

    def _dtype(element: Any, what: str) -> DType:
        try:
            return as_dtype(element, what)
        except PootError as error:
            near = difflib.get_close_matches(str(element), sorted(BY_NAME), n=1) if isinstance(element, str) else []
            remedy = f"did you mean {near[0]}?" if near else error.remedy
            raise UnsupportedDTypeError(where=caller(), remedy=remedy, **error.fields) from None

    def _is_variable(element: object) -> bool:
        return type(element).__name__ == "TypeVar"

    _USES = {"read": "reads", "write": "writes", "readwrite": "reads and writes"}

    def _kinds(name: str, access: Access) -> list[type]:
        made = []
        for rank in (None, 2, 3, 4):
            kind = (
                f"An array of elements E and {rank or 1} axes that the kernel {_USES[access]}: `x: poot.{name}[f32]`."
            )
            space = {"access": access, "rank": rank, "__module__": __name__, "__doc__": kind}
            made.append(type(f"{name}{rank or ''}", (_Buffer,), space))
        return made

    In, In2, In3, In4 = _kinds("In", "read")
    Out, Out2, Out3, Out4 = _kinds("Out", "write")
    InOut, InOut2, InOut3, InOut4 = _kinds("InOut", "readwrite")


# --- numbers of the launch ------------------------------------------------------------------------------------------


def _number(what: str, kind: str, axis: str) -> int:
    thread = current(what)
    if axis not in AXES:
        raise ArgumentError(what=f"axis of {what}", actual=axis, expected='"x", "y" or "z"')
    number = thread.number(kind, AXES.index(axis))
    return cast(int, np.int32(number) if number < 1 << 31 else np.int64(number))


def thread_index(axis: Axis = "x") -> int:
    """The number of this thread in the whole grid along `axis`, an integer from 0."""
    return _number("thread_index", "thread", axis)


def local_index(axis: Axis = "x") -> int:
    """The number of this thread in its work-group along `axis`, an integer from 0; needs a stated work-group."""
    return _number("local_index", "local", axis)


def group_index(axis: Axis = "x") -> int:
    """The number of this thread's work-group in the grid along `axis`, an integer from 0."""
    return _number("group_index", "group", axis)


def group_size(axis: Axis = "x") -> int:
    """How many threads a work-group has along `axis`, an integer."""
    return _number("group_size", "group_size", axis)


def num_groups(axis: Axis = "x") -> int:
    """How many work-groups the launch has along `axis`, an integer."""
    return _number("num_groups", "num_groups", axis)


# --- memory and loops -----------------------------------------------------------------------------------------------


def barrier() -> None:
    """Wait for all threads of the work-group; what they wrote before is visible to all of them afterwards.

    KernelError where not all threads of a work-group may come to it.
    """
    current("barrier")


def shared(dtype: type[E] | Any, shape: int | tuple[int, ...]) -> InOut[E, Any]:
    """An array of a dtype and a constant shape that the threads of a work-group share.

    Its first contents are undefined.  Unsupported where the arrays of a kernel are past what the target has.
    """
    current("shared")
    return cast("InOut[E, Any]", zeros(as_dtype(dtype), shape))


def private(dtype: type[E] | Any, shape: int | tuple[int, ...]) -> InOut[E, Any]:
    """An array of a dtype and a constant shape of this thread alone; its first contents are undefined.

    Indexed by constants after unrolling, it lives in registers.
    """
    current("private")
    return cast("InOut[E, Any]", zeros(as_dtype(dtype), shape))


def unroll(numbers: range) -> range:
    """Ask for a loop over a range with constant bounds to be written out turn by turn."""
    current("unroll")
    return numbers


# --- atomics --------------------------------------------------------------------------------------------------------


def _atomic(op: str, buffer: Any, index: Any, value: Any) -> Any:
    current(f"atomic_{op}")
    assert isinstance(buffer, Elements)
    old = buffer[index]
    value = old.dtype.type(value)
    match op:
        case "add":
            buffer[index] = old + value
        case "min":
            buffer[index] = np.minimum(old, value)
        case "max":
            buffer[index] = np.maximum(old, value)
        case "and":
            buffer[index] = old & value
        case "or":
            buffer[index] = old | value
        case "xor":
            buffer[index] = old ^ value
        case _:
            buffer[index] = value
    return old


def atomic_add(buffer: InOut[E, Any], index: int | tuple[int, ...], value: Any) -> Any:
    """Add to one element as one indivisible step; returns what it was before."""
    return _atomic("add", buffer, index, value)


def atomic_min(buffer: InOut[E, Any], index: int | tuple[int, ...], value: Any) -> Any:
    """Lower one element to `value` if it is greater; returns what it was before."""
    return _atomic("min", buffer, index, value)


def atomic_max(buffer: InOut[E, Any], index: int | tuple[int, ...], value: Any) -> Any:
    """Raise one element to `value` if it is less; returns what it was before."""
    return _atomic("max", buffer, index, value)


def atomic_and(buffer: InOut[E, Any], index: int | tuple[int, ...], value: Any) -> Any:
    """Keep the bits of one element that `value` has too; returns what it was before."""
    return _atomic("and", buffer, index, value)


def atomic_or(buffer: InOut[E, Any], index: int | tuple[int, ...], value: Any) -> Any:
    """Set the bits of `value` in one element; returns what it was before."""
    return _atomic("or", buffer, index, value)


def atomic_xor(buffer: InOut[E, Any], index: int | tuple[int, ...], value: Any) -> Any:
    """Flip the bits of `value` in one element; returns what it was before."""
    return _atomic("xor", buffer, index, value)


def atomic_exchange(buffer: InOut[E, Any], index: int | tuple[int, ...], value: Any) -> Any:
    """Replace one element; returns what it was before."""
    return _atomic("exchange", buffer, index, value)


def atomic_compare_exchange(buffer: InOut[E, Any], index: int | tuple[int, ...], compare: Any, value: Any) -> Any:
    """Replace one element by `value` if it equals `compare`; returns what it was before."""
    current("atomic_compare_exchange")
    old = cast(Any, buffer)[index]
    if old == compare:
        cast(Any, buffer)[index] = value
    return old


# --- the work-group together ----------------------------------------------------------------------------------------


def _together(what: str) -> Any:
    raise current(what).alone(what)


def group_sum(value: Any) -> Any:
    """The sum of a number over the work-group, in its dtype, for all of its threads."""
    return _together("group_sum")


def group_max(value: Any) -> Any:
    """The greatest of a number over the work-group, in its dtype, for all of its threads."""
    return _together("group_max")


def group_min(value: Any) -> Any:
    """The least of a number over the work-group, in its dtype, for all of its threads."""
    return _together("group_min")


def group_any(value: bool) -> bool:
    """Whether a bool is true for any thread of the work-group, for all of its threads."""
    return _together("group_any")


def group_all(value: bool) -> bool:
    """Whether a bool is true for all threads of the work-group, for all of its threads."""
    return _together("group_all")


def group_scan(value: Any) -> Any:
    """The sum of a number over this thread and those before it in the work-group (x first), in its dtype."""
    return _together("group_scan")


# --- scalar operations that Python has no name for ------------------------------------------------------------------


def bitcast(value: Any, dtype: type[E]) -> Any:
    """The same bits as another dtype of the same width."""
    current("bitcast")
    return np.asarray(value).view(as_dtype(dtype).dtype)[()]


def popcount(value: Any) -> Any:
    """The number of set bits of an integer, in its dtype."""
    current("popcount")
    array = np.asarray(value)
    return np.bitwise_count(array.view(f"u{array.itemsize}")).astype(array.dtype)[()]


def clz(value: Any) -> Any:
    """The number of leading zero bits of an integer, in its dtype; the width for 0."""
    current("clz")
    array = np.asarray(value)
    width = array.itemsize * 8
    return array.dtype.type(width - (int(array) & ((1 << width) - 1)).bit_length())


def rsqrt(value: Any) -> Any:
    """The reciprocal of the square root of a float, 1 / sqrt(value), in its dtype."""
    current("rsqrt")
    return np.asarray(1, np.asarray(value).dtype)[()] / np.sqrt(value)


def sign(value: Any) -> Any:
    """-1, 0 or 1 in the dtype of the value; NaN for NaN."""
    current("sign")
    return np.sign(value)


#: Every name that a kernel can use besides Python's own, for hints at misspelt ones.
WORDS: tuple[str, ...] = (
    *("thread_index", "local_index", "group_index", "group_size", "num_groups"),
    *("barrier", "shared", "private", "unroll"),
    *("atomic_add", "atomic_min", "atomic_max", "atomic_and", "atomic_or", "atomic_xor", "atomic_exchange"),
    "atomic_compare_exchange",
    *("group_sum", "group_max", "group_min", "group_any", "group_all", "group_scan"),
    *("bitcast", "popcount", "clz", "rsqrt", "sign"),
    *BY_NAME,
)
