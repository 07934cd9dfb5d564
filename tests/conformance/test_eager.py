"""Operations on concrete arrays, and traced functions under `poot.eager`.

They mean what traced calls mean, their faults name the line of the caller, and one program serves every static index.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import optree
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

import poot
from poot import f32, i32, ops
from poot.backends.toolchain import compile_count
from poot.errors import CaptureError, EngineError, IndexFault, OverflowArgumentError, UnsupportedDTypeError

# --- the line of a fault ----------------------------------------------------------------------------------------------

FAULTS = {
    "x[i]": "x[i]",
    "take": "ops.take(x, i)",
    "take_along_axis": "ops.take_along_axis(x, i, axis=0)",
    "cross_entropy": "ops.nn.cross_entropy(ops.broadcast_to(x, (3, 4)), i)",
    "set": "x.at[i].set(1.0)",
    "add": "x.at[i].add(1.0)",
    "scan": "ops.scan(lambda c, k: (c + x[k], c), 0.0, i)[0]",
    "cond": "ops.cond(ops.any(i > 0), lambda: x[i], lambda: x[:3])",
    "while_loop": "ops.while_loop(lambda k: k < 1, lambda k: k + x[i].astype(int).sum() * 0 + 1, 0)",
    "nested": "ops.scan(lambda c, k: (ops.cond(c > 9, lambda: c, lambda: x[k]), c), 0.0, i)[0]",
}


def caller(expression: str, line: int) -> Callable[..., Any]:
    """A function of x and i that evaluates an expression at a line of its own."""
    space: dict[str, Any] = {"ops": ops}
    exec(compile("\n" * (line - 1) + f"def call(x, i): return {expression}", "caller.py", "exec"), space)
    return space["call"]


@pytest.mark.slow_on("opencl", "wgpu")
@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_names_the_line_of_its_own_caller(kind: str, traced: bool, device_name: str) -> None:
    x = poot.asarray(np.arange(4, dtype=np.float32), device=device_name)
    good, bad = (poot.asarray(np.array(i, np.int32), device=device_name) for i in ([1, 2, 3], [1, 44, 3]))
    calls = [caller(FAULTS[kind], line) for line in (3, 7, 11)]
    with poot.eager(), poot.device(device_name):
        for line, call in zip((3, 7, 11), map(poot.trace, calls) if traced else calls, strict=True):
            np.asarray(call(x, good))
            with pytest.raises(IndexFault) as caught:
                np.asarray(call(x, bad))
            assert caught.value.where is not None
            assert (caught.value.where.file, caught.value.where.line) == ("caller.py", line)


@poot.kernel
def pick(x: poot.In[f32], i: poot.In[i32], y: poot.Out[f32]) -> None:
    t = poot.thread_index()
    if t < len(y):
        y[t] = x[i[t]]


def test_a_kernel_that_faults_names_the_line_of_its_launch(device_name: str) -> None:
    x, i, y = (
        poot.asarray(a, device=device_name)
        for a in (np.ones(4, np.float32), np.array([1, 44], np.int32), np.ones(2, np.float32))
    )

    def launch() -> None:
        pick(x, i, y, threads=2)

    launch()
    with pytest.raises(poot.errors.KernelFault) as caught:
        np.asarray(y)
    line = launch.__code__.co_firstlineno + 1
    assert any(f"{__file__}:{line}" in note for note in caught.value.__notes__)


# --- static indices ---------------------------------------------------------------------------------------------------


@st.composite
def parts(draw: st.DrawFn, shape: tuple[int, ...]) -> list[Any]:
    """An int or a slice for each of these axes, and None between them."""
    items: list[Any] = []
    for extent in shape:
        bounds = st.none() | st.integers(-extent - 2, extent + 2)
        steps = st.sampled_from([None, 1, -1, 2, -2, 3])
        spans = st.builds(slice, bounds, bounds, steps)
        items += [None] * draw(st.integers(0, 1))
        items.append(draw(st.integers(-extent, extent - 1) | spans))
    return items


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A key of ints, slices, None and `...` for an array of this shape."""
    before = draw(st.integers(0, len(shape)))
    items = draw(parts(shape[:before]))
    if draw(st.booleans()):
        behind = draw(st.integers(0, len(shape) - before))
        items += [..., *draw(parts(shape[len(shape) - behind :]))]
    return tuple(items)


@given(st.data())
@settings(max_examples=60)
def test_keys_of_concrete_arrays_mean_what_numpy_means(data: DataObject) -> None:
    array = np.arange(60, dtype=np.int32).reshape(data.draw(st.sampled_from([(60,), (10, 6), (3, 4, 5)])))
    key = data.draw(keys(array.shape))
    x = poot.asarray(array)
    np.testing.assert_array_equal(np.asarray(x[key]), array[key])
    expected = array.copy()
    expected[key] = 7
    np.testing.assert_array_equal(np.asarray(x.at[key].set(7)), expected)
    expected = array.copy()
    expected[key] *= 3
    np.testing.assert_array_equal(np.asarray(x.at[key].multiply(3)), expected)


INDEXED: dict[str, Callable[[Any, int], Any]] = {
    "x[i]": lambda x, i: x[i],
    "x[-i]": lambda x, i: x[-i],
    "x[:, i]": lambda x, i: x[:, i],
    "x[i, i, None]": lambda x, i: x[i, i, None],
    "x[i, array]": lambda x, i: x[i, np.array([1, 0])],
    "x[np.int32]": lambda x, i: x[np.int32(i)],
    "x[i:i+2]": lambda x, i: x[i : i + 2],
    "x[i:i+3:2]": lambda x, i: x[i : i + 3 : 2],
    "x[i+2:i:-1]": lambda x, i: x[i + 2 : i : -1],
    "take": lambda x, i: ops.take(x, i, axis=0),
    "set": lambda x, i: x.at[i].set(float(i)),
    "set of several": lambda x, i: x.at[i, 1:3].set(float(i)),
    "add": lambda x, i: x.at[:, i].add(float(i)),
    "set of a span": lambda x, i: x.at[i : i + 2].set(float(i)),
    "set of a stepped span": lambda x, i: x.at[i : i + 3 : 2].set(float(i)),
    "set at an array": lambda x, i: x.at[i, np.array([1, 0])].set(float(i)),
}


@pytest.mark.slow_on("opencl", "wgpu")
@pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")
@pytest.mark.parametrize("kind", INDEXED)
def test_one_program_serves_every_static_index(kind: str, device_name: str) -> None:
    array = np.arange(64, dtype=np.float32).reshape(8, 8)
    x, f = poot.asarray(array, device=device_name), INDEXED[kind]
    f(x, 1)
    before = compile_count()
    found = [np.asarray(f(x, i)) for i in (2, 3, 5)]
    assert compile_count() == before
    for i, each in zip((2, 3, 5), found, strict=True):
        np.testing.assert_array_equal(each, np.asarray(poot.trace(lambda x, i=i: f(x, i))(array)))


def test_iterating_compiles_once(device_name: str) -> None:
    x = poot.asarray(np.arange(40, dtype=np.float32), device=device_name)
    first = next(iter(x))
    assert float(first) == 0.0
    before = compile_count()
    assert [float(v) for v in x] == list(range(40))
    assert compile_count() == before


@pytest.mark.parametrize("key", [8, -9, (0, 8), (slice(None), -9), np.int32(8)])
def test_a_static_index_out_of_range_raises_at_once(key: Any) -> None:
    x = poot.asarray(np.zeros((8, 8), np.float32))
    for use in (lambda: x[key], lambda: x.at[key].set(1.0)):
        with pytest.raises(IndexFault, match=r"^index: index -?\d is out of range for axis [01] of extent 8") as caught:
            use()
        assert caught.value.where is not None


# --- traced functions under poot.eager --------------------------------------------------------------------------------

Pair = namedtuple("Pair", "a b")
TABLE = np.linspace(0, 1, 3)
HELD = poot.asarray(np.linspace(0, 2, 3))


@poot.trace
def inner(x: Any, n: Any) -> Any:
    return x[:n].sum()


@poot.kernel
def bump(x: poot.InOut[f32]) -> None:
    i = poot.thread_index()
    if i < len(x):
        x[i] += 1.0


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "at": lambda x, s: x.at[0].set(9),
    "divide": lambda x, s: x / 2,
    "sum": lambda x, s: (x.sum(), x.mean(), x.astype(np.float16).sum()),
    "itself": lambda x, s: {"x": x, "s": s, "both": [x, x]},
    "number": lambda x, s: (s, s + 1, s * 2.5, -s, s > 1, s / 2, x * (s + 1)),
    "ops of a number": lambda x, s: (ops.sin(s), ops.asarray(s), np.sqrt(s), s.astype(np.int8), x + np.sqrt(s)),
    "methods of a number": lambda x, s: ops.full(s.shape, 2.0, dtype=s.dtype),
    "numbers": lambda x, s: (1, 2.5, True, np.float64(3), np.int64(4), np.int16(5), np.ones(2), None),
    "captured": lambda x, s: (x + TABLE, TABLE, ops.asarray(TABLE) * 2, TABLE * 2),
    "captured poot array": lambda x, s: (x + HELD, HELD, HELD.sum()),
    "classes": lambda x, s: Pair(x, {"b": s}),
    "inlined": lambda x, s: inner(x, 2),
    "kernel": lambda x, s: (bump(x.astype(np.float32), threads=3), bump(np.ones(3, np.float32), threads=3)),
}
ARRAYS: dict[str, Any] = {
    **{
        dtype: np.array([0, 1, 2], dtype) for dtype in ("int8", "uint8", "int32", "int64", "float32", "float64", "bool")
    },
    "poot float64": poot.asarray(np.array([0.5, 1, 2])),
    "big-endian": np.array([0, 1, 2], ">f4"),
}
NUMBERS = {"int": 3, "float": 2.5, "float64": np.float64(2.5), "int64": np.int64(3)}
PRECISIONS: list[dict[str, Any]] = [{}, {"f64": "f32"}, {"f64": "f32", "i64": "i32"}]


@pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")
@pytest.mark.parametrize("options", PRECISIONS, ids=str)
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_eager_calls_give_what_traced_calls_give(kind: str, options: dict[str, Any]) -> None:
    f = poot.trace(**options)(FUNCTIONS[kind])
    cases = [(x, 3) for x in ARRAYS.values()] + [(ARRAYS["float32"], s) for s in NUMBERS.values()]
    for x, s in cases:
        traced = outcome(f, x, s)
        with poot.eager():
            eager = outcome(f, x, s)
        assert optree.tree_structure(eager) == optree.tree_structure(traced)
        for one, other in zip(optree.tree_leaves(eager), optree.tree_leaves(traced), strict=True):
            assert type(one) is type(other)
            if isinstance(other, poot.Array):
                assert one.spec == other.spec
                np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-3)


@pytest.mark.parametrize("captured", [TABLE, HELD], ids=["numpy", "poot"])
def test_captured_arrays_promote_as_what_they_are_converted_to(captured: Any) -> None:
    f = poot.trace(f64="f32")(lambda x: (x + captured, np.ones(3) * x))
    for context in (nullcontext(), poot.eager()):
        with context:
            assert [y.dtype for y in f(np.ones(3, np.float32))] == [f32, f32]


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    """What a call gives, or the class of its error."""
    try:
        return f(*args)
    except poot.errors.PootError as error:
        return type(error).__name__.removeprefix("Builder")


def test_eager_calls_run_where_traced_ones_would(device_name: str) -> None:
    f = poot.trace(device=device_name)(lambda x: (x, x + 1.0, ops.zeros(3)))
    for block in (poot.device(device_name), poot.eager()):
        with block:
            assert {y.device for y in f(np.ones(3, np.float32))} == {device_name}
    with poot.eager():
        assert all(y.device == device_name for y in f(np.ones(3, np.float32)))


@contextmanager
def without_f64() -> Generator[None]:
    """The interpreter as a device that lacks f64."""
    backend = poot.device("interpret").backend
    target = backend.target
    backend.target = replace(target, dtypes=target.dtypes - {poot.f64})
    try:
        yield
    finally:
        backend.target = target


def test_eager_calls_refuse_what_traced_ones_refuse() -> None:
    with poot.eager():
        with without_f64(), pytest.raises(UnsupportedDTypeError, match=r'x is f64\[3\](.*\n)*.*f64="f32"'):
            poot.trace(device="interpret")(lambda x: x)(np.ones(3))
        with pytest.raises(CaptureError, match="a spec, and a call needs an array"):
            poot.trace(lambda x: x)(f32[3])
        with pytest.raises(CaptureError, match="no pytree of arrays"):
            poot.trace(lambda x: x)(object())
        with pytest.raises(CaptureError, match=r"output 0 of .*: a str is no array"):
            poot.trace(lambda x: ("no", x))(1.0)
        with pytest.raises(OverflowArgumentError, match="argument 'n' is 300, which does not fit i8"):
            poot.trace(lambda x, n: x + n)(np.ones(3, np.int8), 300)


def test_eager_results_are_arrays_of_their_own() -> None:
    x = poot.asarray(np.zeros(3, np.float32))
    f = poot.trace(lambda x: (x, HELD))
    with poot.eager():
        same, held = f(x)
    bump(x, threads=3)
    assert np.asarray(x).tolist() == [1, 1, 1]
    assert np.asarray(same).tolist() == [0, 0, 0]
    assert held is not HELD


def test_eager_calls_take_what_is_donated() -> None:
    x = poot.asarray(np.ones(3, np.float32))
    f = poot.trace(donate="x")(lambda x: {"x": x, "y": x + 1.0})
    with poot.eager():
        given = f(x)
    assert np.asarray(given["x"]).tolist() == [1, 1, 1]
    with pytest.raises(EngineError, match=r"donated to .*lambda.* at "):
        np.asarray(x)


def test_numbers_have_values_under_eager(capsys: pytest.CaptureFixture[str]) -> None:
    @poot.trace
    def f(x: Any, s: Any, n: Any) -> Any:
        print(s, f"{s:.2f}", n + 1, s * 2, repr(n))  # noqa: T201
        return x[:n] * s if s > 1 else x

    with poot.eager():
        y = f(np.ones(3, np.float32), 2.5, 2)
    assert np.asarray(y).tolist() == [2.5, 2.5]
    assert capsys.readouterr().out == "2.5 2.50 3 5.0 WeakNumber(2)\n"
