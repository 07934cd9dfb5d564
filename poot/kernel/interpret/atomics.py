"""Atomic updates of many lanes, one after another in the order of lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from poot.dtypes import DType
from poot.kernel.interpret.memory import Update
from poot.kernel.interpret.space import Array
from poot.kernel.ir import AtomicOp
from poot.kernel.scalar import evaluator

_ROWS = {"add": "add", "min": "min", "max": "max", "and": "and", "or": "or", "xor": "xor"}
_AT: dict[str, Any] = {
    "add": np.add.at,
    "min": np.minimum.at,
    "max": np.maximum.at,
    "and": np.bitwise_and.at,
    "or": np.bitwise_or.at,
    "xor": np.bitwise_xor.at,
}


def update(op: AtomicOp, dtype: DType, *, wants_old: bool) -> Update:
    """How one atomic statement changes storage; without `wants_old` the returned values mean nothing."""
    if op == "compare_exchange":
        return _compare_exchange
    combine = evaluator(_ROWS[op], dtype, dtype) if op in _ROWS else _replace
    if not wants_old and op in _AT:
        return _unseen(_AT[op])
    return _in_turn(combine)


def _replace(old: Array, value: Array) -> Array:
    return value


def _unseen(apply: Callable[[Array, Array, Array], None]) -> Update:
    def run(storage: Array, flat: Array, value: Array) -> Array:
        apply(storage, flat, value)
        return value

    return run


def _in_turn(combine: Callable[[Array, Array], Array]) -> Update:
    def run(storage: Array, flat: Array, value: Array) -> Array:
        if np.unique(flat).size == flat.size:
            old = storage[flat]
            storage[flat] = combine(old, value)
            return old
        old = np.empty_like(value)
        for lane, element in enumerate(flat.tolist()):
            old[lane] = storage[element]
            storage[element] = combine(storage[element], value[lane])
        return old

    return run


def _compare_exchange(storage: Array, flat: Array, compare: Array, value: Array) -> Array:
    old = np.empty_like(value)
    for lane, element in enumerate(flat.tolist()):
        old[lane] = storage[element]
        if storage[element] == compare[lane]:
            storage[element] = value[lane]
    return old
