"""Reductions and scans over the work-groups of a chunk.

A reduction combines halves: element i with element i + n/2 (rounded up), until one is left; the order is fixed, and the
same for every group.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from poot.dtypes import DType
from poot.kernel.interpret.space import Array, Space
from poot.kernel.ir import CollectiveOp
from poot.kernel.scalar import HALVES, evaluator

_ROWS = {"sum": "add", "max": "max", "min": "min", "any": "or", "all": "and"}


def collective(op: CollectiveOp, dtype: DType) -> Callable[[Space, Array], Array]:
    """The operation on the values of all lanes: one value a group, or a running sum for each lane."""
    wide = np.dtype(np.float32) if dtype in HALVES else dtype.dtype
    if op == "scan":

        def scan(values: Array) -> Array:
            return np.cumsum(values.astype(wide, copy=False), axis=-1, dtype=wide).astype(dtype.dtype, copy=False)

        return lambda space, value: _grouped(space, value, scan)
    rule = evaluator(_ROWS[op], dtype, dtype) if wide == dtype.dtype else np.add
    if dtype in HALVES and op != "sum":
        rule = evaluator(_ROWS[op], dtype, dtype)
        wide = dtype.dtype

    def reduce(values: Array) -> Array:
        values = values.astype(wide, copy=False)
        while (count := values.shape[-1]) > 1:
            half = (count + 1) // 2
            pairs = rule(values[..., : count - half], values[..., half:])
            values = pairs if count == 2 * half else np.concatenate([pairs, values[..., half - 1 : half]], axis=-1)
        return values.astype(dtype.dtype, copy=False)

    return lambda space, value: _grouped(space, value, reduce)


def _grouped(space: Space, value: Array, work: Callable[[Array], Array]) -> Array:
    """Bring the local axes, which are the last ones, together; work on them; and give them back."""
    local = sum(name.startswith("local") for name in space.names)
    rank = len(space.shape)
    groups = np.shape(value)[: rank - local] if np.ndim(value) else (1,) * (rank - local)
    spread = np.broadcast_to(value, (*groups, *space.shape[rank - local :]))
    result = work(spread.reshape(*groups, -1))
    full = result.shape[-1] > 1
    return result.reshape((*groups, *(space.shape[rank - local :] if full else (1,) * local)))
