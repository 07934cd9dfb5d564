"""Operators of poot's arrays on arrays of other libraries, on objects that are none, and on NumPy's."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import poot
from poot.dtypes import f32
from poot.errors import ArgumentTypeError
from tests.unit.ops_support import tracer

X = np.arange(12, dtype=np.float32).reshape(3, 4)


class Foreign:
    """An array of another library, which knows nothing of poot."""

    def __dlpack__(self, **options: Any) -> Any:
        return X.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return X.__dlpack_device__()


@pytest.mark.parametrize("other", [[1.0, 2.0], (1.0, 2.0), Foreign()])
@pytest.mark.parametrize("compare", [operator.eq, operator.ne])
def test_arrays_are_not_silently_unequal(compare: Any, other: Any) -> None:
    for compared in (lambda x: compare(x, other), lambda x: compare(other, x)):
        for f in (poot.trace(compared).graph, lambda x, compared=compared: compared(poot.asarray(x))):
            with pytest.raises(ArgumentTypeError, match=f"on an array: {type(other).__name__} given") as caught:
                f(X)
            assert "ops.asarray" in str(caught.value)
    if isinstance(other, Foreign):  # to which a number may be equal, by element
        for compared in (lambda n: compare(n, other), lambda n: compare(other, n)):
            with pytest.raises(ArgumentTypeError, match=r"ops\.asarray"):
                poot.trace(compared)(2)
    else:
        assert bool(poot.trace(lambda n: compare(n, other))(2)) is compare(2, other)  # a number is no list


BINARY = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift", "rshift",
    "lt", "le", "gt", "ge",
)  # fmt: skip
OPERATORS: list[Any] = [
    *(getattr(operator, name) for name in BINARY),
    *(getattr(operator, f"i{name.rstrip('_')}") for name in BINARY[:13]),
    divmod,
]


class Willing(Foreign):
    """One whose own operators would take anything."""

    def __radd__(self, other: object) -> str:
        return "its own way"


@pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")
@pytest.mark.parametrize("name", ["interface", "divmod", *BINARY])
def test_operators_name_other_libraries_arrays(name: str) -> None:
    if name == "interface":
        other: Any = type("OnCuda", (), {"__cuda_array_interface__": {}})()
        used = OPERATORS[:1]
    else:
        other = Willing() if name == "add" else Foreign()
        used = [use for use in OPERATORS if use.__name__.lstrip("i").rstrip("_") == name.rstrip("_").lstrip("i")]
    for use in used:
        for applied in (lambda x, use=use: use(x, other), lambda x, use=use: use(other, x)):
            for f in (poot.trace(applied), lambda x, applied=applied: applied(poot.asarray(x))):
                with pytest.raises(ArgumentTypeError, match=r"on an array: (Foreign|Willing|OnCuda) given") as caught:
                    f(X)
                assert "ops.asarray" in caught.value.remedy and caught.value.where is not None
                assert caught.value.where.file == __file__
            with pytest.raises(ArgumentTypeError, match="on an array"):
                poot.trace(applied)(2)
    with pytest.raises(ArgumentTypeError, match="in on an array"):
        _ = other in poot.asarray(X)


NO_OPERANDS = ([1, 2], (1, 2), {1: 2}, {1}, frozenset((1,)), None, "a", b"a", 1j, range(2), ..., int, object())


@pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")
@pytest.mark.parametrize("use", OPERATORS, ids=lambda use: use.__name__)
def test_what_no_operator_takes_is_named(use: Any) -> None:
    """On either side, eagerly and in traces; but for Python's own `"%s" % x`, `list += x` and `dict |= x`."""
    own = {operator.mod: (str, bytes), operator.imod: (str, bytes), operator.iadd: (list,), operator.ior: (dict,)}
    for other in NO_OPERANDS:
        uses = [lambda x, other=other: use(x, other)]
        uses += [] if isinstance(other, own.get(use, ())) else [lambda x, other=other: use(other, x)]
        for f in (*uses, poot.trace(uses[-1])):
            with pytest.raises(ArgumentTypeError, match=f"on an array: {type(other).__name__} given") as caught:
                f(poot.asarray(X.astype(np.int32)))
            assert caught.value.remedy and caught.value.where is not None and caught.value.where.file == __file__
            assert ("ops.asarray" in caught.value.remedy) == isinstance(other, (list, tuple))


def test_lists_are_repeated_by_what_can_be_an_index() -> None:
    n = poot.asarray(np.int32(2))
    assert [0] * n == n * [0] == [0, 0] and "ab" * n == "abab"
    for x in (poot.asarray(X), poot.asarray(np.float32(2)), poot.asarray(np.int32([2]))):
        with pytest.raises(ArgumentTypeError, match=r"\* on an array: list given"):
            [0] * x


def test_the_operators_of_what_is_no_array_run() -> None:
    names = ["lt", "le", "gt", "ge", "eq", "ne", "rdivmod", *(f"r{name.rstrip('_')}" for name in BINARY[:13])]
    own = type("Own", (), {f"__{name}__": lambda self, other: "own" for name in names})()
    for use in [*OPERATORS, operator.eq, operator.ne]:
        assert use(poot.asarray(X), own) == "own"
        assert use(tracer(f32[2]), own) == "own"
    assert None not in poot.asarray(X) and own not in poot.asarray(X)


def test_numpys_arrays_and_scalars_are_operands() -> None:
    x = poot.asarray(X)
    for other in (X, np.float32(2), np.float64(2), 2, 2.5, True):
        np.testing.assert_array_equal(np.asarray(x + other), X + np.asarray(other, np.float32))
        np.testing.assert_array_equal(np.asarray(other - x), np.asarray(other, np.float32) - X)
        np.testing.assert_array_equal(np.asarray(other == x), np.asarray(other, np.float32) == X)
