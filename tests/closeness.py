"""What agreement means, in one place: of one equation by its entry's numerics class, of compositions by their dtype."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from poot.target import Target
from poot.trace.evaluate import evaluate
from poot.trace.graph import Graph
from poot.trace.primitives import lookup
from tests.exact_floats import FORMATS, quantum, ulps

COMPOSED = {"float64": 1e-12, "float32": 2e-5, "float16": 2e-2, "bfloat16": 2e-2}
"""What many equations together, of values about 1, may be off from the oracle: relatively, and absolutely near 0."""

KERNELS = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}
"""The same for one kernel written by hand, against NumPy."""

NORMAL = 2.0**-126
"""The least normal number of f32 and bf16."""

#: Partial products must stay within the range: their order is not stated.
PRODUCTS = ("reduce_prod", "cumprod", "scatter_mul")


def modest(x: np.ndarray) -> np.ndarray:
    """Floats other than zeros moved to 0.75 up to 1.25."""
    if x.dtype.kind in "biu":
        return x
    with np.errstate(all="ignore"):
        magnitude = np.abs(x.astype(np.float64))
        moved = np.where(magnitude == 0, 0.0, 0.75 + np.nan_to_num(magnitude, posinf=0.25) % 0.5)
        return np.asarray(np.copysign(moved, x.astype(np.float64))).astype(x.dtype)


def flushed(x: np.ndarray) -> np.ndarray:
    """Zeros of their sign for the subnormal numbers of f32 and bf16."""
    if x.dtype.name not in ("float32", "bfloat16"):
        return x
    with np.errstate(all="ignore"):
        return np.where(np.abs(x.astype(np.float64)) < NORMAL, np.copysign(x.dtype.type(0), x), x).astype(x.dtype)


def outcomes(target: Target, evaluate: Callable[..., np.ndarray], *operands: np.ndarray) -> list[np.ndarray]:
    """What an operation may give on a target, first what it means.

    Where the target keeps no subnormal numbers, each operand and each result may be taken for zero.
    """
    if target.has("subnormals"):
        return [np.asarray(evaluate(*operands))]
    taken = [(x,) if flushed(x) is x else (x, flushed(x)) for x in operands]
    found = [np.asarray(evaluate(*chosen)) for chosen in itertools.product(*taken)]
    return [*found, *map(flushed, found)]


def may_be(target: Target, actual: np.ndarray, several: Sequence[np.ndarray]) -> np.ndarray:
    """Which results of an inexact operation are good whatever their error is: none where subnormal numbers are kept.

    Where they are not, a subnormal operand may be taken for a lesser one too, and what is lost of intermediate values
    is less than the least normal number.
    """
    if target.has("subnormals"):
        return np.zeros(actual.shape, np.bool_)
    with np.errstate(all="ignore"):
        found, wide = np.stack(several).astype(np.float64), actual.astype(np.float64)
        return (np.fmin.reduce(found) - NORMAL <= wide) & (wide <= np.fmax.reduce(found) + NORMAL)


def near(
    graph: Graph, arrays: list[np.ndarray], actual: np.ndarray, expected: np.ndarray, output: int, target: Target
) -> np.ndarray:
    """Which elements agree as the entry's numerics promise on a target."""
    (equation,), dtype = graph.equations, graph.outputs[output].dtype
    numerics = lookup(equation.primitive).numerics

    def evaluated(*operands: np.ndarray) -> np.ndarray:
        return evaluate(graph, {f"a{n}": array for n, array in enumerate(operands)}).output[output]

    if not dtype.is_float:
        return actual == expected
    if numerics.depth is None:
        several = outcomes(target, evaluated, *arrays)
        if numerics.exact:
            return np.any([ulps(actual, each, dtype) == 0 for each in several], axis=0)
        return (ulps(actual, expected, dtype) <= numerics.ulps) | may_be(target, actual, several)
    specs = tuple(atom.spec for atom in equation.inputs)
    terms = numerics.depth(specs, equation.params) + 1
    # The sum of magnitudes, or the magnitude of a product, is what the equation gives for the magnitudes.
    positive = {f"a{n}": np.abs(array) if specs[n].dtype.is_float else array for n, array in enumerate(arrays)}
    magnitude = evaluate(graph, positive).output[output].astype(np.float64)
    # What is summed in f32 is no better for an f64 result.
    accumulator = equation.params.get("accumulate", dtype)
    eps = 2.0 ** -min(FORMATS[dtype][0], FORMATS[accumulator][0])  # type: ignore[index]
    with np.errstate(all="ignore"):
        wide, exact = actual.astype(np.float64), expected.astype(np.float64)
        close = np.abs(wide - exact) <= terms * eps * magnitude + float(quantum(Fraction(0), dtype))
    same = (np.isnan(wide) & np.isnan(exact)) | (wide == exact)
    return same | close | ~(magnitude < dtype.max)
