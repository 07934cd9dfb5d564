"""Traced functions as a user calls them: results that stay, arguments of every kind, shared compiles."""

from __future__ import annotations

import copy
import enum
import pickle
import threading
import warnings
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import poot
from poot import bool_, f32, i32, ops
from poot.api import traced as traced_module
from poot.api.cache import RetraceWarning
from poot.errors import CaptureError

SCALE = 2.0
TABLE = {"w": np.full(3, 10.0, np.float32), "names": ["a"]}
MODULE_WEIGHT = np.arange(3, dtype=np.float32)


def same(a: Any, b: Any) -> bool:
    return np.array_equal(np.asarray(a), np.asarray(b))


def close(a: Any, b: Any) -> bool:
    return np.allclose(np.asarray(a), np.asarray(b))


def helper(x: Any) -> Any:
    return x * SCALE


def traces_of(function: Any, call: Any) -> int:
    """How many times a call traces `function`."""
    before = traced_module._CACHE.misses  # pyright: ignore[reportPrivateUsage]
    call()
    return traced_module._CACHE.misses - before  # pyright: ignore[reportPrivateUsage]


def ones(n: int = 3) -> np.ndarray:
    return np.ones(n, np.float32)


def test_a_result_stays_valid_after_later_calls() -> None:
    @poot.trace
    def f(x: Any) -> Any:
        return x * 2.0

    first = f(ones())
    view = np.asarray(first)
    second = f(ones() * 5)
    assert same(first.numpy(), ones() * 2)
    assert same(second.numpy(), ones() * 10)
    del first
    for _ in range(20):
        f(ones() * 7)
    assert same(view, ones() * 2)


def test_numpy_view_of_a_result_is_read_only() -> None:
    result = poot.trace(lambda x: x + 1.0)(ones())
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(result)[0] = 3.0


def test_changed_inputs_are_seen() -> None:
    f = poot.trace(lambda x: x + 1.0)
    x = ones()
    assert same(f(x), ones() + 1)
    x[:] = 5.0
    assert same(f(x), ones() + 5)


def test_an_output_that_is_an_input_is_a_copy() -> None:
    f = poot.trace(lambda x: (x, x, x.reshape(3, 1)))
    x = ones()
    a, b, c = f(x)
    x[:] = 9.0
    assert same(a, ones())
    assert same(b, ones())
    assert c.shape == (3, 1)
    assert same(c.ravel(), ones())


def test_numbers_are_run_time_scalars() -> None:
    @poot.trace
    def f(x: Any, s: float) -> Any:
        return x * s

    assert same(f(ones(), 2.0), ones() * 2)
    assert traces_of(f, lambda: f(ones(), 3.5)) == 0
    assert same(f(ones(), 3.5), ones() * 3.5)
    half = f(np.ones(3, np.float16), 1.5)
    assert half.dtype == np.float16
    assert f(np.ones(3, np.int32), 2).dtype == np.int32
    with pytest.raises(OverflowError, match="300"):
        f(np.ones(3, np.int8), 300)


class Mode(enum.Enum):
    DOUBLE = 1
    TRIPLE = 2


def test_bools_strings_enums_and_dtypes_are_static() -> None:
    @poot.trace
    def f(x: Any, mode: Mode, flag: bool = False, dtype: Any = None, note: str = "") -> Any:
        y = x * 2.0 if mode is Mode.DOUBLE else x * 3.0
        y = -y if flag else y
        y = y + 1.0 if note == "plus" else y
        return y if dtype is None else y.astype(dtype)

    assert same(f(ones(), Mode.DOUBLE), ones() * 2)
    assert same(f(ones(), Mode.TRIPLE), ones() * 3)
    assert same(f(ones(), Mode.TRIPLE, True), ones() * -3)
    assert same(f(ones(), Mode.TRIPLE, note="plus"), ones() * 4)
    assert f(ones(), Mode.DOUBLE, dtype=poot.i32).dtype == np.int32
    assert f(ones(), Mode.DOUBLE, dtype=np.dtype("float64")).dtype == np.float64


Pair = namedtuple("Pair", "left right")


def test_pytrees_in_and_out() -> None:
    @poot.trace
    def f(tree: Any) -> Any:
        return Pair(tree["a"] + tree["b"][0], {"n": None, "l": [tree["b"][1]]})

    result = f({"b": (ones(), ones() * 2), "a": ones() * 3})
    assert isinstance(result, Pair)
    assert same(result.left, ones() * 4)
    assert result.right["n"] is None
    assert same(result.right["l"][0], ones() * 2)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (5, 1)])
def test_empty_and_0d_arrays(shape: tuple[int, ...]) -> None:
    x = np.ones(shape, np.float32)
    y = poot.trace(lambda v: ops.exp(v) + v.sum())(x)
    assert y.shape == shape
    assert close(y, np.exp(x) + x.sum())


def test_strided_negative_and_read_only_arrays() -> None:
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    f = poot.trace(lambda x: x * 2.0)
    for view in (base.T, base[::-1], base[:, ::-2], base[1:3, 2:5], np.broadcast_to(base[0], (3, 6))):
        assert same(f(view), view * 2)
    base.flags.writeable = False
    assert same(f(base), base * 2)
    assert same(f(base.astype(">f4")), base * 2)


def test_traced_functions_inline_in_each_other() -> None:
    inner = poot.trace(lambda x: x + 1.0)
    outer = poot.trace(lambda x: inner(inner(x)) * 2.0)
    assert traces_of(None, lambda: outer(ones())) == 1
    assert same(outer(ones()), ones() * 6)


def test_eight_threads_first_calling_one_function_trace_once() -> None:
    barrier = threading.Barrier(8)
    results: dict[int, Any] = {}
    f = poot.trace(lambda x: ops.tanh(x) * 2.0 + 0.125)

    def work(number: int) -> None:
        barrier.wait()
        results[number] = np.asarray(f(np.full(100, number, np.float32)))

    def all_at_once() -> None:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert traces_of(f, all_at_once) == 1
    for number in range(8):
        assert close(results[number], np.tanh(np.float32(number)) * 2 + 0.125)


def test_the_eighth_miss_at_a_line_warns_once_and_names_the_argument() -> None:
    f = poot.trace(lambda x, y: x.sum() + y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(1, 13):
            f(np.ones(n, np.float32), ones(1))
    messages = [str(w.message) for w in caught if issubclass(w.category, RetraceWarning)]
    assert len(messages) == 1
    assert "'x' keeps changing (now f32[8])" in messages[0]


def test_the_cache_is_bounded() -> None:
    from poot.api.cache import CallCache

    cache: CallCache[int] = CallCache(limit=4)
    for key in range(10):
        cache.get(key, lambda: 1)
    assert len(cache) == 4
    assert cache.misses == 10
    cache.get(9, lambda: 2)
    assert cache.hits == 1


def test_a_failing_trace_keeps_its_type_gains_a_note_and_caches_nothing() -> None:
    fail = True

    @poot.trace
    def f(x: Any) -> Any:
        if fail:
            raise KeyError("mine")
        return x

    with pytest.raises(KeyError) as caught:
        f(ones())
    assert any("was being traced by poot" in note for note in caught.value.__notes__)
    fail = False
    assert same(f(ones()), ones())


def test_global_random_state_is_guarded() -> None:
    f = poot.trace(lambda x: x + np.random.rand())  # noqa: NPY002
    with pytest.raises(TypeError, match=r"np\.random.*\n(.*\n)*.*ops\.random"):
        f(ones())


def test_arrays_pickle_and_copy() -> None:
    result = poot.trace(lambda x: x * 2.0)(ones())
    assert same(pickle.loads(pickle.dumps(result)), ones() * 2)
    double = poot.trace(donate="x")(lambda x: x * 2.0)
    for copied in (copy.copy, copy.deepcopy):
        original = poot.asarray(ones())
        other = copied(original)
        double(original)
        assert same(other, ones())  # neither donating the original nor writing to it reaches the copy
    empty = poot.asarray(np.zeros((0, 3), np.float32))
    assert same(copy.deepcopy(empty), np.zeros((0, 3), np.float32))


def test_scalars_that_numpy_hands_out_count_as_numbers() -> None:
    for number, dtype in ((np.float64(2.5), f32), (np.int64(3), i32), (np.bool_(True), bool_)):
        for value in (number, number.item(), number):
            assert poot.trace(lambda x, value=value: value)(ones()).dtype == dtype
    held: Any = np.float64(2.5)
    f = poot.trace(lambda x: held)
    assert f(ones()).dtype == f32
    held = 2.5
    assert f(ones()).dtype == f32
    assert poot.trace(lambda x: np.float32(3))(ones()).dtype == f32
    plus = poot.trace(lambda x: x + 1)
    assert plus(np.bool_(True)).dtype == plus(True).dtype == i32


def test_a_cast_that_an_option_asks_for_names_the_line_that_overflows() -> None:
    narrow = poot.trace(i64="i32")(lambda x: x + 1)
    with pytest.raises(OverflowError, match=r"1099511627776 in 'x' does not fit i32\n  at .*test_traced_calls"):
        narrow(np.array([2**40]))


def test_membership_looks_at_the_elements() -> None:
    x = poot.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert 3.0 in x
    assert 7.0 not in x
    assert None not in x
    assert 1.0 not in poot.asarray(np.zeros((0, 3), np.float32))
    with pytest.raises(TypeError, match=r"ops\.where"):
        poot.trace(lambda x: 1.0 if 3.0 in x else 2.0)(ones())


def test_eager_runs_the_python_function_itself() -> None:
    seen: list[Any] = []

    @poot.trace
    def f(x: Any) -> Any:
        y = x + 1.0
        seen.append(y)
        return y * 2.0

    with poot.eager():
        assert same(f(poot.asarray(ones())), ones() * 4)
    assert same(seen[0], ones() * 2)


def test_graph_program_and_evaluate() -> None:
    @poot.trace
    def f(params: Any, x: Any) -> Any:
        return {"y": x @ params["w"] + params["b"]}

    params = {"w": np.eye(3, dtype=np.float32), "b": ones()}
    graph = f.graph({"w": f32[3, 3], "b": f32[3]}, f32[2, 3], constants=("params",))
    assert [variable.name for variable in graph.constants] == ["params.b", "params.w"]
    assert [variable.name for variable in graph.inputs] == ["x"]
    x = np.ones((2, 3), np.float32)
    assert same(f.evaluate(params, x)["y"], x + 1)
    assert f.program(params, x, device="interpret").target.backend == "interpret"


def test_states_of_a_graph() -> None:
    @poot.trace
    def step(total: Any, x: Any) -> Any:
        new = total + x
        return {"total": new, "mean": new.mean()}

    graph = step.graph(f32[3], f32[3], states={"total": "total"})
    assert [variable.name for variable in graph.states] == ["total"]
    assert [name for name, _ in graph.updates] == ["total"]
    assert graph.tree.keys == ("mean",)


def test_places_of_states_are_those_of_the_whole_output() -> None:
    """Whatever the order in which states are named, and where the parts of one tuple all go."""

    def left(function: Any, states: dict[str, Any]) -> list[str]:
        graph = poot.trace(function).graph(f32[1], f32[2], f32[3], states=states)
        updates = {name: atom.shape for name, atom in graph.updates}
        assert updates == {variable.name: variable.spec.shape for variable in graph.states}
        return [str(atom.shape) for atom in graph.outputs]

    orders = ({"a": 0, "b": 1}, {"b": 1, "a": 0})
    assert all(left(lambda a, b, c: (a + 1, b + 1, c), states) == ["(3,)"] for states in orders)
    assert left(lambda a, b, c: (c, a + 1, b + 1), {"a": 1, "b": 2}) == ["(3,)"]
    assert left(lambda a, b, c: ((a, b), c), {"a": "0.0", "b": "0.1"}) == ["(3,)"]
    assert left(lambda a, b, c: {"s": (a, b), "y": c}, {"b": "s.1", "a": "s.0"}) == ["(3,)"]
    assert left(lambda a, b, c: (a, b), {"a": 0, "b": 1}) == []
    with pytest.raises(CaptureError, match=r"states\['a'\]: the outputs have no part '3'"):
        left(lambda a, b, c: (a, b, c), {"a": 3})


def test_f64_is_kept_on_cpu_and_converted_on_request() -> None:
    x = np.ones(3)
    assert poot.trace(lambda v: v * 2.0)(x).dtype == np.float64
    narrow = poot.trace(f64="f32")(lambda v: v * 2.0)
    assert narrow(x).dtype == np.float32
    small = poot.trace(i64="i32")(lambda v: v + 1)
    assert small(np.arange(3)).dtype == np.int32
    with pytest.raises(OverflowError, match="4294967296 in 'v'"):
        small(np.array([1 << 32]))


def test_specs_are_refused_in_a_call() -> None:
    with pytest.raises(TypeError, match="is a spec, and a call needs an array"):
        poot.trace(lambda x: x)(f32[3])


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("bad", [-4, 3, 1 << 30])
def test_an_index_out_of_range_on_any_axis_faults_on_every_device(device: poot.Device, axis: int, bad: int) -> None:
    x = np.arange(27, dtype=np.float32).reshape(3, 3, 3)
    take = poot.trace(device=device)(lambda x, i: x[(slice(None),) * axis + (i,)])
    good = np.array([2, -1, 0], np.int32)
    assert same(take(x, good), np.take(x, good, axis))
    with pytest.raises(IndexError, match=rf"index {bad} is out of range for axis {axis}"):
        np.asarray(take(x, np.array([0, bad, 1], np.int32)))
    assert same(take(x, good), np.take(x, good, axis))


def test_numpys_comparisons_of_whole_arrays() -> None:
    a = poot.asarray(ones())
    assert np.allclose(a, ones())
    assert np.array_equal(a, ones())
    assert not np.array_equal(a, ones(4))
    assert not np.allclose(a, ones() + 1)
    assert poot.trace(lambda x: ops.array_equal(x, ones()))(ones())
    np.testing.assert_allclose(a, ones())


def test_masked_arrays_and_ragged_lists_are_refused() -> None:
    masked = np.ma.array([1.0, 2.0], mask=[0, 1])
    with pytest.raises(TypeError, match=r"argument 'x' .*: a MaskedArray is no pytree of arrays(.|\n)*value\.filled"):
        poot.trace(lambda x: x)(masked)
    with pytest.raises(ValueError, match=r"asarray: .* is not valid, expected lists of equal lengths"):
        poot.asarray([[1, 2], [3]])


def test_a_fault_is_raised_when_the_result_is_used_anywhere(device: poot.Device) -> None:
    table = np.arange(10, dtype=np.float32).reshape(5, 2)
    with device:
        faulted = poot.trace(lambda a, i: a[i])(table, np.array([7]))
        add_one = poot.trace(lambda a: a + 1)
        uses = (
            lambda: add_one(faulted),
            lambda: faulted + 1,
            lambda: ops.sum(faulted),
            lambda: faulted[0],
            lambda: poot.trace(lambda a: a + faulted)(table[0]),
            lambda: np.asarray(faulted),
            lambda: repr(faulted),
        )
        for use in uses:
            with pytest.raises(IndexError, match="index 7 is out of range for axis 0 of extent 5"):
                use()
