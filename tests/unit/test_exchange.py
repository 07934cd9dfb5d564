"""Arrays between libraries: no copy where none is allowed, and errors that quote whoever refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poot
from poot import ops
from poot.errors import ArgumentError, ExchangeError, PootError

X = np.arange(12, dtype=np.float32).reshape(3, 4)
HOST = ("cpu", "interpret", "opencl")  # OpenCL on the processor, whose memory is the host's


def other(name: str) -> str:
    return "interpret" if name == "cpu" else "cpu"


# --- copy=False -------------------------------------------------------------------------------------------------------

Take = Callable[[Any, str], Any]
SHARED: dict[str, Take] = {
    "poot.asarray": lambda x, name: poot.asarray(x, copy=False),
    "poot.asarray to its device": lambda x, name: poot.asarray(x, device=name, copy=False),
    "poot.asarray at its dtype": lambda x, name: poot.asarray(x, poot.f32, copy=False),
    "ops.asarray": lambda x, name: ops.asarray(x, copy=False),
    "ops.asarray to its device": lambda x, name: ops.asarray(x, device=name, copy=False),
    "ops.asarray at its dtype": lambda x, name: ops.asarray(x, dtype=poot.f32, copy=False),
    "from_dlpack": lambda x, name: ops.from_dlpack(x, copy=False),
    "from_dlpack to its device": lambda x, name: ops.from_dlpack(x, device=name, copy=False),
    "astype": lambda x, name: x.astype(poot.f32, copy=False),
    "to_device": lambda x, name: x.to_device(name),
}
COPIED: dict[str, tuple[Take, type[Exception]]] = {
    "poot.asarray elsewhere": (lambda x, name: poot.asarray(x, device=other(name), copy=False), ValueError),
    "poot.asarray of another dtype": (lambda x, name: poot.asarray(x, poot.f16, copy=False), ValueError),
    "ops.asarray elsewhere": (lambda x, name: ops.asarray(x, device=other(name), copy=False), ValueError),
    "ops.asarray of another dtype": (lambda x, name: ops.asarray(x, dtype=poot.f16, copy=False), ValueError),
    "from_dlpack elsewhere": (lambda x, name: ops.from_dlpack(x, device=other(name), copy=False), BufferError),
    "np.asarray of another dtype": (lambda x, name: np.asarray(x, np.float16, copy=False), ValueError),
    "numbers": (lambda x, name: poot.asarray(2.5, device=name, copy=False), ValueError),
    "lists": (lambda x, name: poot.asarray([1, 2], device=name, copy=False), ValueError),
    "scalars": (lambda x, name: poot.asarray(np.float32(1), device=name, copy=False), ValueError),
    "lists of arrays": (lambda x, name: poot.asarray([x, x], copy=False), ValueError),
    "DLPack elsewhere": (lambda x, name: x.__dlpack__(max_version=(1, 0), dl_device=(2, 0)), BufferError),
}


@pytest.mark.parametrize("kind", SHARED)
def test_what_needs_no_copy_is_the_array_itself(kind: str, device_name: str) -> None:
    x: Any = poot.asarray(X, device=device_name)
    assert SHARED[kind](x, device_name) is x


@pytest.mark.parametrize("kind", COPIED)
def test_what_needs_a_copy_is_refused(kind: str, device_name: str) -> None:
    x: Any = poot.asarray(X, device=device_name)
    use, error = COPIED[kind]
    with pytest.raises(error) as caught:
        use(x, device_name)
    assert isinstance(caught.value, PootError) and caught.value.where is not None
    assert caught.value.where.file == __file__


def test_numpy_has_the_elements_in_place_or_not_at_all(device_name: str) -> None:
    x: Any = poot.asarray(X, device=device_name)
    if device_name in HOST:
        assert np.shares_memory(np.asarray(x, copy=False), np.asarray(x))
        assert np.shares_memory(np.from_dlpack(x), np.asarray(x))
        np.testing.assert_array_equal(np.asarray(ops.from_dlpack(np.from_dlpack(x), device=device_name)), X)
        return
    for use in (lambda: np.asarray(x, copy=False), lambda: np.array(x, copy=False)):
        with pytest.raises(ArgumentError, match="the host cannot address it"):
            use()
    for take in (x.__dlpack_device__, lambda: np.from_dlpack(x), lambda: x.__dlpack__(dl_device=(1, 0), copy=False)):
        with pytest.raises(BufferError, match=r'not exported(.|\n)*x.to_device\("cpu"\)'):
            take()


def test_a_copy_for_the_host_is_given_where_one_is_asked_for(device_name: str) -> None:
    x: Any = poot.asarray(X, device=device_name)
    for copied in (np.array(x), np.asarray(x, copy=True), np.from_dlpack(x, device="cpu", copy=True)):
        np.testing.assert_array_equal(copied, X)
        copied[:] = 0
    np.testing.assert_array_equal(np.asarray(x), X)
    np.testing.assert_array_equal(np.asarray(x, np.float64), X.astype(np.float64))


def test_traced_values_are_themselves() -> None:
    f = poot.trace(lambda x: (ops.asarray(x, copy=False), ops.asarray(x, dtype=poot.f32, copy=False)))
    assert all((np.asarray(y) == X).all() for y in f(X))
    for wrong in (lambda x: ops.asarray(x, dtype=poot.i32, copy=False), lambda x: x + ops.asarray(2.0, copy=False)):
        with pytest.raises(ArgumentError, match="a copy is needed"):
            poot.trace(wrong)(X)


# --- other libraries that refuse --------------------------------------------------------------------------------------


class Refusing:
    """An array whose library raises when it is asked for the elements."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> Any:
        raise self.error


class RefusingTwice(Refusing):
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("the second way is closed")


class OnlyArray:
    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


class Unplaced:
    """An array that says something odd about where it lies."""

    def __init__(self, place: Any) -> None:
        self.place = place

    def __dlpack_device__(self) -> Any:
        if isinstance(self.place, Exception):
            raise self.place
        return self.place

    def __dlpack__(self, **options: Any) -> Any:
        return X.__dlpack__()


class Interface:
    def __init__(self, facts: Any) -> None:
        self.__cuda_array_interface__ = facts


@poot.kernel
def double(x: poot.In[poot.f32], y: poot.Out[poot.f32]) -> None:
    i = poot.thread_index()
    if i < len(y):
        y[i] = x[i] + x[i]


TAKERS: dict[str, Callable[[Any], Any]] = {
    "poot.asarray": poot.asarray,
    "ops.asarray": ops.asarray,
    "from_dlpack": lambda x: ops.from_dlpack(x) if hasattr(x, "__dlpack__") else poot.asarray(x),
    "traced": lambda x: poot.trace(lambda x: x)(x),
    "inside": lambda x: poot.trace(lambda y: y + ops.asarray(x))(X),
    "kernel": lambda x: double(x, np.zeros(3, np.float32), threads=3),
}


@pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")
@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("kind", [Refusing, RefusingTwice])
@pytest.mark.parametrize(
    "error", [BufferError("call .detach() first"), RuntimeError("a\nb"), KeyError("x"), OSError(5)]
)
def test_what_a_library_says_is_quoted(error: Exception, kind: type[Refusing], taker: str) -> None:
    with pytest.raises(ExchangeError) as caught:
        TAKERS[taker](kind(error))
    assert " ".join(str(error).split()) in str(caught.value) and caught.value.__cause__ is error
    assert kind.__name__ in str(caught.value) and isinstance(caught.value, BufferError)


ODD: list[Any] = [
    *(Unplaced(place) for place in (None, 3, (), (1,), (1, 0, 0), ("a", 0), (1.5, 0), "ab", ValueError("lost"))),
    *(Interface(facts) for facts in (None, 3, {}, {"data": None}, {"data": ()}, {"data": ("a", False)}, {"data": 3})),
]


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("place", range(len(ODD)))
def test_odd_answers_are_refused_by_type(place: int, taker: str) -> None:
    if taker == "inside":
        return  # which asks the host's protocols alone
    with pytest.raises(ExchangeError, match=r"(__dlpack_device__|__cuda_array_interface__): the .* does not give"):
        TAKERS[taker](ODD[place])


@pytest.mark.parametrize("taker", TAKERS)
def test_arrays_that_numpy_alone_understands_are_taken(taker: str) -> None:
    if taker == "kernel":
        y = np.zeros(3, np.float32)
        double(OnlyArray(np.ones(3, np.float32)), y, threads=3)
        assert y.tolist() == [2, 2, 2]
        return
    expected = X * 2 if taker == "inside" else X
    np.testing.assert_array_equal(np.asarray(TAKERS[taker](OnlyArray(X))), expected)


def test_an_interface_that_the_object_denies_is_none() -> None:
    """As that of an array on the host whose class has the property for others."""

    class Denying:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            raise AttributeError("this one is on the host")

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
            return np.arange(3, dtype=np.float32)

    assert poot.asarray(Denying()).tolist() == [0, 1, 2]
    assert np.asarray(poot.trace(lambda x: x + 1.0)(Denying())).tolist() == [1, 2, 3]


# --- what messages say ------------------------------------------------------------------------------------------------


class Nowhere:
    """An array of another library's that does not say where it lies, as torch's of "meta"."""

    shape, dtype = (2,), np.dtype(np.float32)

    def __dlpack_device__(self) -> tuple[int, int]:
        raise ValueError("Unknown device type meta for Dlpack")

    def __dlpack__(self, **options: object) -> object:
        raise AssertionError("it is asked where it lies first")


def twice(x: poot.Array) -> poot.Array:
    return x * 2


@poot.kernel
def zero(x: poot.Out[poot.f32]) -> None:
    x[poot.thread_index()] = 0.0


@pytest.mark.parametrize(
    ("use", "what"),
    [
        (lambda: poot.trace(twice)(Nowhere()), "an argument of twice"),
        (lambda: zero(Nowhere(), threads=2), "`x` of kernel zero"),
        (lambda: poot.asarray(Nowhere()), "asarray"),
    ],
)
def test_an_array_that_does_not_say_where_it_lies_is_named(use: Callable[[], object], what: str) -> None:
    with pytest.raises(
        ExchangeError, match=f"^{what}, __dlpack_device__: the Nowhere of tests .*Unknown device type meta"
    ):
        use()


@pytest.mark.parametrize("name", [*HOST, "wgpu"])
def test_what_cannot_be_shared_says_why(name: str) -> None:
    """Its layout, its bytes, or the device."""
    cases = {
        "an array that is not contiguous, of strides (16,), has to": np.arange(8, dtype=np.float32)[::4],
        "an array that is not contiguous, of strides (4, 8), has to": np.asfortranarray(np.ones((2, 3), np.float32)),
        "an array of another byte order has to": np.ones(2, ">f4"),
        "an array that is not aligned to its elements has to": np.frombuffer(bytes(9), np.uint8)[1:].view(np.float32),
    }
    if name not in HOST:
        cases[f"an array of the host's to {name} has to"] = np.ones(2, np.float32)
    for message, array in cases.items():
        with pytest.raises(ArgumentError) as caught:
            poot.asarray(array, copy=False, device=name)
        assert message in str(caught.value)
