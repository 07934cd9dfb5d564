"""What agreement means, in one place: of one equation by its entry's numerics class, of compositions by their dtype."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from poot.trace.evaluate import evaluate
from poot.trace.graph import Graph
from poot.trace.primitives import lookup
from tests.exact_floats import FORMATS, quantum, ulps

COMPOSED = {"float64": 1e-12, "float32": 2e-5, "float16": 2e-2, "bfloat16": 2e-2}
"""What many equations together, of values about 1, may be off from the oracle: relatively, and absolutely near 0."""

KERNELS = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}
"""The same for one kernel written by hand, against NumPy."""

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


def near(graph: Graph, arrays: list[np.ndarray], actual: np.ndarray, expected: np.ndarray, output: int) -> np.ndarray:
    """Which elements agree as the entry's numerics promise."""
    (equation,), dtype = graph.equations, graph.outputs[output].dtype
    numerics = lookup(equation.primitive).numerics
    if not dtype.is_float:
        return actual == expected
    if numerics.depth is None:
        return ulps(actual, expected, dtype) <= (0 if numerics.exact else numerics.ulps)
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
