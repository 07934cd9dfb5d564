"""Every primitive of the table, in every dtype of its entry: the oracle against references written apart from it.

Integers, bools and moved elements agree bit for bit.  Floats of 16 and 32 bits are the correctly rounded values;
float64 results of transcendental functions are within 4 ulps, and sums within the error of float64 summation.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poot.dtypes import DType, f64
from poot.trace.evaluate import evaluate
from poot.trace.primitives import table
from tests.exact_floats import quantum, ulps
from tests.primitive_cases import Case, by_dtype, case_graph, operands
from tests.reference_arrays import MOVEMENTS, TOTALS, Total, total_of_products
from tests.references import REFERENCES, cast

GROUPS = {name: group for name, group in by_dtype() if group}
#: How far a float64 result of NumPy may be off; the exact operations and all smaller dtypes are correctly rounded.
F64_ULPS = {
    **dict.fromkeys(("exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "pow", "atan2", "rsqrt"), 4),
    "floor_div": 2,
}


def test_every_primitive_has_a_reference() -> None:
    known = {*REFERENCES, *MOVEMENTS, *TOTALS, "cast", "iota", "dot_general"}
    control = {entry.name for entry in table() if entry.kind == "control"}
    assert {entry.name for entry in table()} == known | control


@pytest.mark.parametrize("name", GROUPS)
@settings(max_examples=settings().max_examples // 2)
@given(data=st.data())
def test_oracle(name: str, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(GROUPS[name]))
    arrays = data.draw(operands(case))
    graph = case_graph(case)
    evaluation = evaluate(graph, {variable.name: array for variable, array in zip(graph.inputs, arrays, strict=True)})
    for output, value in zip(evaluation.output, graph.outputs, strict=True):
        assert (output.dtype, output.shape) == (value.dtype.dtype, value.shape)
    check(case, arrays, *evaluation.output)


def check(case: Case, arrays: tuple[np.ndarray, ...], output: np.ndarray) -> None:
    primitive, params = case.primitive.name, case.example.params
    if primitive in MOVEMENTS:
        expected = MOVEMENTS[primitive](params, output.shape, *arrays)
        assert np.ascontiguousarray(output).tobytes() == np.ascontiguousarray(expected).tobytes()
    elif primitive in TOTALS:
        check_reduction(case, arrays[0], output)
    elif primitive == "dot_general":
        check_contraction(case, *arrays, output)
    elif primitive == "iota":
        check_iota(case, output)
    else:
        check_map(case, arrays, output)


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
