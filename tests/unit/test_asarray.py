"""`poot.asarray`: numbers at a dtype, range-checked, and what it refuses; masked arrays are refused everywhere."""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import poot
from poot import Builder, StepInputs, TraceLimits, WeightStore, bf16, f16, f32, f64, i32, ops
from poot.dtypes import ALL, DType, bool_
from poot.errors import ArgumentError, PootError


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (0.1, "f64", 0.1),
        (16777217.0, "f64", 16777217.0),
        (1e300, "f64", 1e300),
        (2**40, "i64", 2**40),
        (2**63, "u64", 2**63),
        (True, "f32", 1.0),
        (float("inf"), "f16", float("inf")),
        (3, None, 3),
        (2.5, None, 2.5),
    ],
)
def test_numbers_go_straight_to_their_dtype(value: Any, dtype: str | None, expected: Any) -> None:
    array = poot.asarray(value, dtype=dtype)
    assert array.item() == expected
    assert dtype is None or array.dtype.name == dtype


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        ([300], "u8", "300 does not fit u8"),
        (-1, "u8", "-1 does not fit u8"),
        (1e300, None, r"1e\+300 does not fit f32"),
        (2**40, None, "1099511627776 does not fit i32"),
        (2**64, "u64", "18446744073709551616 does not fit u64"),
        ([1.0, 1e5], "f16", "100000.0 does not fit f16"),
    ],
)
def test_numbers_that_do_not_fit_are_named(value: Any, dtype: str | None, message: str) -> None:
    with pytest.raises(OverflowError, match=message):
        poot.asarray(value, dtype=dtype)


def test_masked_arrays_are_refused_everywhere() -> None:
    masked = np.ma.array([1.0, 2.0], mask=[0, 1], dtype=np.float32)
    b = Builder(TraceLimits.STANDARD)
    graph = b.finish(b.input("x", f32[2]) + 1.0)
    uses = (
        lambda: poot.asarray(masked),
        lambda: ops.add(masked, 1.0),
        lambda: poot.asarray(np.ones(2, np.float32)) + masked,
        lambda: poot.evaluate(graph, {"x": masked}),
        lambda: poot.trace(lambda x: x + masked)(np.ones(2, np.float32)),
        lambda: WeightStore.from_arrays({"w": masked}),
        lambda: poot.KernelBuffer.read_only(masked),
        lambda: poot.KernelBuffer.read_write(masked),
    )
    for use in uses:
        with pytest.raises(TypeError, match="MaskedArray"):
            use()


class Tensor:
    """A tensor of another library that, as torch's in bfloat16, gives its elements through DLPack alone."""

    def __init__(self, values: Any) -> None:
        self._values = poot.asarray(values, dtype=bf16, device="cpu")

    def __dlpack__(self, **options: Any) -> Any:
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._values.__dlpack_device__()

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("Got unsupported ScalarType BFloat16")


class Broken:
    """One that answers to every name with an error of its own."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_a_dtype_casts_numbers_and_arrays_of_any_library(dtype: DType) -> None:
    given = (Tensor([1.0, 2.0]), [1, 2], (1.0, 2.0), range(1, 3), np.array([1, 2], "i8"), np.array([1, 2], object))
    for value in given:
        found = dtype(value)
        assert type(found) is np.ndarray and found.dtype == dtype.dtype
        assert found.tolist() == np.array([1, 2]).astype(dtype.dtype).tolist()
    for value in (Tensor(1.0), 1, 1.0, True, np.float64(1), Fraction(1)):
        assert isinstance(dtype(value), np.generic) and dtype(value) == 1 and dtype(value).dtype == dtype.dtype
    assert dtype() == 0 and (not dtype.is_float or dtype("1.5") == 1.5)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_what_a_dtype_does_not_cast_is_named(dtype: DType) -> None:
    texts = () if dtype is bool_ else ("a", b"a", ["a"])
    table: dict[str, tuple[Any, ...]] = {
        r"\(…\): \w+ given, expected an array, a number": (None, {1: 2}, {1}, [None], object(), len, i32, Broken()),
        r"\(…\): .* is not valid, expected an array": ([[1], [1, 2]], *texts),
        r"dtype complex128 is not supported": (1j, np.array([1j])),
        "dtype datetime64": (np.datetime64("2020-01-01"),),
        "MaskedArray given": (np.ma.array([1, 2], mask=[0, 1]),),
        f"does not fit {dtype}": (2**70, [2**70]) if dtype.is_integer else (),
    }
    for message, values in table.items():
        for value in values:
            with pytest.raises(PootError, match=message) as caught:
                dtype(value)
            assert caught.value.where is not None and caught.value.where.file == __file__
    with pytest.raises(PootError, match="Broken"):
        poot.asarray(Broken())


def test_lists_that_make_no_array_are_refused_everywhere() -> None:
    ragged = [[1.0], [1.0, 2.0]]
    b = Builder(TraceLimits.STANDARD)
    graph = b.finish(b.input("x", f32[2]) + 1.0)
    engine = poot.Engine(poot.device("cpu"))
    exe = engine.load_weights(WeightStore.from_arrays({}))
    entry = engine.add_entry(exe, poot.compile(graph, engine.device.target))
    uses = (
        lambda: poot.asarray(ragged),
        lambda: poot.evaluate(graph, {"x": ragged}),
        lambda: engine.step(exe, entry, StepInputs().push("x", ragged)),
        lambda: WeightStore.from_arrays({"w": ragged}),
        lambda: poot.KernelBuffer.read_only(ragged),
    )
    for use in uses:
        with pytest.raises(ArgumentError, match="inhomogeneous shape"):
            use()


def test_misuse_of_the_engine_is_told_by_type() -> None:
    engine = poot.Engine(poot.device("cpu"))
    store = WeightStore.from_arrays({})
    exe = engine.load_weights(store)
    b = Builder(TraceLimits.STANDARD)
    program = poot.compile(b.finish(b.input("x", f32[2]) + 1.0), engine.device.target)
    entry = engine.add_entry(exe, program)
    array = np.ones(2, np.float32)
    uses: dict[str, Any] = {
        "Engine: 'cpu' given, expected a device(.|\n)*pass poot.device\\(\"cpu\"\\)": lambda: poot.Engine("cpu"),  # type: ignore[arg-type]
        "load_weights: store: None given(.|\n)*WeightStore.from_arrays": lambda: engine.load_weights(None),  # type: ignore[arg-type]
        "add_entry: program: NoneType given, expected a program(.|\n)*poot.compile": lambda: engine.add_entry(
            exe, None
        ),  # type: ignore[arg-type]
        "step: inputs: dict given, expected StepInputs": lambda: engine.step(exe, entry, {"x": array}),  # type: ignore[arg-type]
        "load_weights: store: dict given": lambda: engine.load_weights({"w": array}),  # type: ignore[arg-type]
        "load_weights: weight_map: {'w': 'w'} given": lambda: engine.load_weights(store, {"w": "w"}),  # type: ignore[arg-type]
        "add_entry: program: Graph given": lambda: engine.add_entry(exe, program.graph),  # type: ignore[arg-type]
        "add_entry: exe: Program given": lambda: engine.add_entry(program, exe),  # type: ignore[arg-type]
        "step: exe: Entry given(.|\n)*engine.step\\(exe, entry": lambda: engine.step(entry, exe),  # type: ignore[arg-type]
        "step: entry: Program given, expected what add_entry returned": lambda: engine.step(exe, program),  # type: ignore[arg-type]
        "step: exe: None given": lambda: engine.step(None, entry),  # type: ignore[arg-type]
        "remove_entry: Exe given": lambda: engine.remove_entry(exe),  # type: ignore[arg-type]
        "unload: Entry given": lambda: engine.unload(entry),  # type: ignore[arg-type]
        "step: sync: 3 given, expected something to call": lambda: engine.step(exe, entry, sync=3),  # type: ignore[arg-type]
        "push: name: int given": lambda: StepInputs().push(3, array),  # type: ignore[arg-type]
        "WeightStore: name: 3 given": lambda: WeightStore.from_arrays({3: array}),  # type: ignore[dict-item]
        "compile: target: 'cpu' given": lambda: poot.compile(program.graph, "cpu"),  # type: ignore[arg-type]
        "evaluate: graph: str given": lambda: poot.evaluate("x", {}),  # type: ignore[arg-type]
        "parse_graph: text: int given": lambda: poot.parse_graph(3),  # type: ignore[arg-type]
        "device: int given": lambda: poot.device(3),  # type: ignore[arg-type]
    }
    for message, use in uses.items():
        with pytest.raises(TypeError, match=message):
            use()
    assert (repr(store), repr(exe)) == (
        "<WeightStore of 0 arrays>",
        "<Exe of 0 weights, 0 states and 1 entries on cpu>",
    )
    engine.unload(exe)
    assert repr(exe) == "<Exe that was unloaded>"


KINDS: dict[str, Any] = {
    **{f"array {dtype}": np.ones(3, dtype.dtype) for dtype in ALL},
    **{f"0-d {dtype}": np.ones((), dtype.dtype) for dtype in ALL},
    **{f"scalar {dtype}": dtype.dtype.type(1) for dtype in ALL},
    **{f"list of {dtype}": [dtype.dtype.type(1)] for dtype in ALL if dtype not in (f16, bf16)},
    **{f"list of arrays {dtype}": [np.ones(2, dtype.dtype), np.ones(2, dtype.dtype)] for dtype in ALL},
    "float": 1.5,
    "int": 2,
    "bool": True,
    "floats": [1.0, 2],
    "ints": (1, 2),
    "bools": [[True], [False]],
    "mixed": [True, 2],
    "empty": [],
    "array of poot": poot.asarray(np.ones(2, np.float16)),
    "list with an array of poot": [poot.asarray(np.float32(1)), 2.0],
}


@pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_one_rule_wherever_asarray_is_called(kind: str) -> None:
    value = KINDS[kind]
    expected = ops.asarray(value)
    traced = poot.trace(lambda: (poot.asarray(value), ops.asarray(value)), device="cpu")()
    for found in (poot.asarray(value), *traced):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    for dtype in (f32, i32, f64):
        assert poot.asarray(value, dtype=dtype).dtype is ops.asarray(value, dtype=dtype).dtype is dtype


def test_numpys_own_scalars_are_numbers_and_its_arrays_are_not() -> None:
    assert poot.asarray(np.float64(1)).dtype is f32 and poot.asarray(np.int64(1)).dtype is i32
    assert poot.asarray(np.array(1.0)).dtype is f64 and poot.asarray([np.array(1.0)]).dtype is f64


@pytest.mark.parametrize(
    "call",
    [
        lambda: poot.asarray(np.arange(10.0)[::2], copy=False),
        lambda: poot.asarray([np.ones(2)], copy=False),
        lambda: poot.asarray("text"),
        lambda: poot.asarray([[1], [2, 3]]),
        lambda: poot.trace(lambda x: x, f64="f16"),  # type: ignore[call-overload]
        lambda: poot.trace(numerics="exact")(lambda x: x)(np.ones(2)),  # type: ignore[call-overload]
        lambda: poot.device(3),  # type: ignore[arg-type]
        lambda: ops.sum(np.ones(3), axis=5),
        lambda: ops.take(np.ones(3), [1], mode="drop"),  # type: ignore[arg-type]
        lambda: poot.compile(3, 4),  # type: ignore[arg-type]
    ],
)
def test_refusals_name_the_users_line(call: Any) -> None:
    with pytest.raises(PootError) as caught:
        call()
    assert caught.value.where is not None and caught.value.where.file == __file__
    copied = pickle.loads(pickle.dumps(caught.value))
    assert str(copied) == str(caught.value) and copied.where == caught.value.where
