"""Every primitive of poot, in every dtype of its entry: the oracle against references written apart from it.

Integers, bools and moved elements agree bit for bit.  Floats of 16 and 32 bits are the correctly rounded values;
float64 results of transcendental functions are within 4 ulps, and sums within the error of float64 summation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poot.dtypes import DType, f64
from poot.trace.evaluate import evaluate
from poot.trace.primitives import Example, lookup, table
from tests.exact_floats import quantum, ulps
from tests.primitive_cases import Case, by_dtype, case_graph, cases, operands, sample, special_values
from tests.reference_arrays import (
    MOVEMENTS,
    TOTALS,
    Total,
    contributions,
    extreme_position,
    random_bits,
    sort,
    threefry,
    top_k,
    total_of_products,
)
from tests.references import REFERENCES, cast, negative

#: What others have registered has no reference here: its oracle is theirs to vouch for.
OWN = [entry for entry in table() if entry.oracle.__module__.startswith("poot.")]
GROUPS = {name: group for name, group in by_dtype(OWN) if group}
#: How far a float64 result of NumPy may be off; the exact operations and all smaller dtypes are correctly rounded.
F64_ULPS = {
    **dict.fromkeys(("exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "pow", "atan2", "rsqrt"), 4),
    "floor_div": 2,
}


def test_every_primitive_has_a_reference() -> None:
    known = {*REFERENCES, *MOVEMENTS, *TOTALS, *CUMULATIVE, *SCATTERS, *CHECKS, "cast"}
    registered = {entry.name for entry in OWN if entry.kind != "control"}
    assert registered <= known
    # kernel_call registers itself with the planner, which these tests do not import.
    assert known - registered <= {"kernel_call"}


@pytest.mark.parametrize("name", GROUPS)
def test_samples(name: str, request: pytest.FixtureRequest) -> None:
    """Every example, on values with specials, and on rows of few different ones."""
    rng = np.random.default_rng(list(name.encode()))
    for case in GROUPS[name]:
        for turn in range(100 if request.config.getoption("--full") else 2):
            run(case, tuple(sample(case, rng, few=turn % 2 > 0)))


SPREAD = {
    name: group[0]
    for name, group in GROUPS.items()
    if group[0].primitive.kind == "map" and group[0].primitive.name not in MOVEMENTS
}


@pytest.mark.parametrize("name", SPREAD)
def test_all_specials(name: str) -> None:
    """Every special value, and every pair of them."""
    case = SPREAD[name]
    pool, count = special_values(case.dtypes[0]), len(case.dtypes)
    for params in {example.params for example in case.primitive.examples}:
        example = Example(((len(pool),) * count,) * count, params)
        run(Case(case.primitive, example, case.dtypes), tuple(np.meshgrid(*[pool] * count, indexing="ij")))


@pytest.mark.parametrize("name", [entry.name for entry in OWN if entry.examples])
@given(data=st.data())
def test_drawn(name: str, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(cases(lookup(name))))
    run(case, data.draw(operands(case)))


def run(case: Case, arrays: tuple[np.ndarray, ...]) -> None:
    graph = case_graph(case)
    evaluation = evaluate(graph, {variable.name: array for variable, array in zip(graph.inputs, arrays, strict=True)})
    for output, value in zip(evaluation.output, graph.outputs, strict=True):
        assert (output.dtype, output.shape) == (value.dtype.dtype, value.shape)
    check(case, arrays, evaluation.output)


def check(case: Case, arrays: tuple[np.ndarray, ...], outputs: tuple[np.ndarray, ...]) -> None:
    primitive, params = case.primitive.name, case.example.params
    if primitive in CHECKS:
        CHECKS[primitive](case, *arrays, *outputs)
    elif primitive in MOVEMENTS:
        assert same_bits(outputs[0], MOVEMENTS[primitive](params, outputs[0].shape, *arrays))
    elif primitive in TOTALS:
        check_reduction(case, arrays[0], outputs[0])
    elif primitive in CUMULATIVE:
        check_cumulative(case, arrays[0], outputs[0])
    elif primitive in SCATTERS:
        check_scatter(case, arrays, outputs[0])
    else:
        check_map(case, arrays, outputs[0])


def same_bits(actual: np.ndarray, expected: np.ndarray) -> bool:
    return np.ascontiguousarray(actual).tobytes() == np.ascontiguousarray(expected).tobytes()


def check_map(case: Case, arrays: tuple[np.ndarray, ...], output: np.ndarray) -> None:
    primitive, dtype = case.primitive.name, case.dtypes[0]
    expected = np.empty(output.shape, output.dtype)
    for index in np.ndindex(*output.shape):
        numbers = [number(array[index if array.ndim else ()], dtype) for array in arrays]
        if primitive == "cast":
            expected[index] = cast(dtype, case.example.params["dtype"], *numbers)
        else:
            expected[index] = REFERENCES[primitive](dtype, *numbers)
    result = case_graph(case).outputs[0].dtype
    if not result.is_float:
        np.testing.assert_array_equal(output, expected)
        return
    allowed = F64_ULPS.get(primitive, 0) if dtype is f64 or primitive == "floor_div" else 0
    distance = ulps(output, expected, result)
    assert np.all(distance <= allowed), (output, expected, arrays)


def number(value: Any, dtype: DType) -> Any:
    return float(value) if dtype.is_float else bool(value) if dtype.kind == "bool" else int(value)


def agrees(actual: Any, total: Total, dtype: DType) -> bool:
    """Whether an element is the total rounded to its dtype, or off by what float64 summation may be."""
    if total is None:
        return True
    expected, slack = total
    if not dtype.is_float:
        return bool(actual == expected)
    found = float(actual)
    if math.isnan(expected) or math.isnan(found):
        return math.isnan(expected) and math.isnan(found)
    if found == expected:
        return math.copysign(1.0, found) == math.copysign(1.0, expected) or found != 0 or slack > 0
    if math.isinf(found) or math.isinf(expected):
        return slack > 0 and min(abs(found), abs(expected)) == dtype.max
    return slack > 0 and abs(found - expected) <= slack + float(quantum(Fraction(expected), dtype))


def check_reduction(case: Case, x: np.ndarray, output: np.ndarray) -> None:
    dtype, axes = case.dtypes[0], case.example.params["axes"]
    for index in np.ndindex(*output.shape):
        rest = iter(index)
        selection = tuple(slice(None) if axis in axes else next(rest) for axis in range(x.ndim))
        numbers = [number(item, dtype) for item in np.asarray(x[selection]).reshape(-1)]
        total = TOTALS[case.primitive.name](dtype, numbers)
        assert agrees(output[index], total, dtype), (output[index], total, numbers)


def check_contraction(case: Case, left: np.ndarray, right: np.ndarray, output: np.ndarray) -> None:
    params, dtype = case.example.params, case.dtypes[0]
    (l_contract, r_contract), (l_batch, r_batch) = params["contract"], params["batch"]
    l_free = [axis for axis in range(left.ndim) if axis not in (*l_contract, *l_batch)]
    r_free = [axis for axis in range(right.ndim) if axis not in (*r_contract, *r_batch)]
    terms = list(itertools.product(*(range(left.shape[axis]) for axis in l_contract)))
    for index in np.ndindex(*output.shape):
        cut = len(l_batch), len(l_batch) + len(l_free)
        l_place = dict(zip((*l_batch, *l_free), index[: cut[1]], strict=True))
        r_place = dict(zip((*r_batch, *r_free), index[: cut[0]] + index[cut[1] :], strict=True))
        pairs = []
        for term in terms:
            l_index = l_place | dict(zip(l_contract, term, strict=True))
            r_index = r_place | dict(zip(r_contract, term, strict=True))
            a = left[tuple(l_index[axis] for axis in range(left.ndim))]
            b = right[tuple(r_index[axis] for axis in range(right.ndim))]
            pairs.append((number(a, dtype), number(b, dtype)))
        result = params["dtype"]
        total = total_of_products(result if result.is_float else dtype, pairs, params["accumulate"])
        if total is not None and not result.is_float:
            total = cast(params["accumulate"], result, total[0]), 0.0
        assert agrees(output[index], total, result), (output[index], total, pairs)


def check_iota(case: Case, output: np.ndarray) -> None:
    dtype, axis = case.example.params["dtype"], case.example.params["axis"]
    for index in np.ndindex(*output.shape):
        expected = cast(f64 if dtype.is_float else dtype, dtype, index[axis])
        assert number(output[index], dtype) == expected


# --- scans, orders, scatters ----------------------------------------------------------------------------------------

#: Each scan, and the reduction that gives one of its elements.
CUMULATIVE = {"cumsum": "reduce_sum", "cumprod": "reduce_prod", "cummax": "reduce_max", "cummin": "reduce_min"}
#: Each scatter, and the reduction of an element with its updates; None for the last of them.
SCATTERS = {
    "scatter": None,
    "scatter_add": "reduce_sum",
    "scatter_mul": "reduce_prod",
    "scatter_max": "reduce_max",
    "scatter_min": "reduce_min",
}


def check_cumulative(case: Case, x: np.ndarray, output: np.ndarray) -> None:
    dtype, axis = case.dtypes[0], case.example.params["axis"]
    for index in np.ndindex(*output.shape):
        here, last = index[axis], x.shape[axis]
        seen = range(here, last) if case.example.params["reverse"] else range(here + 1)
        numbers = [number(x[(*index[:axis], i, *index[axis + 1 :])], dtype) for i in seen]
        total = TOTALS[CUMULATIVE[case.primitive.name]](dtype, numbers)
        assert agrees(output[index], total, dtype), (output[index], total, numbers)


def check_scatter(case: Case, arrays: tuple[np.ndarray, ...], output: np.ndarray) -> None:
    dtype, reduction = case.dtypes[0], SCATTERS[case.primitive.name]
    for index, items in contributions(case.example.params, *arrays).items():
        if reduction is None:
            assert same_bits(output[index], items[-1])
        elif len(items) == 1 and dtype.is_float:
            assert ulps(np.asarray(output[index]), np.asarray(items[0]), dtype) == 0
        else:
            numbers = [number(item, dtype) for item in items]
            total = TOTALS[reduction](dtype, numbers)
            if reduction == "reduce_sum" and dtype.is_float and not any(numbers):
                # A sum starts from +0, but here from the element itself.
                total = -0.0 if all(map(negative, numbers)) else 0.0, 0.0
            assert agrees(output[index], total, dtype), (output[index], total, items)


def check_sort(case: Case, *arrays: np.ndarray) -> None:
    half = len(arrays) // 2
    for output, expected in zip(arrays[half:], sort(case.example.params, *arrays[:half]), strict=True):
        assert same_bits(output, expected)


def check_top_k(case: Case, x: np.ndarray, *outputs: np.ndarray) -> None:
    for output, expected in zip(outputs, top_k(case.example.params, x), strict=True):
        assert same_bits(output, expected)


def check_position(case: Case, x: np.ndarray, output: np.ndarray) -> None:
    np.testing.assert_array_equal(output, extreme_position(case.primitive.name, case.example.params, x))


def check_random_bits(case: Case, key: np.ndarray, output: np.ndarray) -> None:
    np.testing.assert_array_equal(output, random_bits(case.example.params, key))


CHECKS: dict[str, Callable[..., None]] = {
    "dot_general": check_contraction,
    "iota": check_iota,
    "sort": check_sort,
    "top_k": check_top_k,
    "argmax": check_position,
    "argmin": check_position,
    "random_bits": check_random_bits,
}


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_published_answers_of_threefry(key: Any, counter: Any, expected: Any) -> None:
    assert threefry(key, counter) == expected
