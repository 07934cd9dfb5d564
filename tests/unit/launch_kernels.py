"""Kernels that the tests of launching share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from poot.api.kernels import kernel
from poot.dtypes import f32, f64
from poot.kernel.language import (
    Const,
    In,
    InOut,
    Out,
    group_index,
    group_sum,
    local_index,
    thread_index,
)

T = TypeVar("T")
S = TypeVar("S", f32, f64)


@kernel
def add(a: In[f32], b: In[f32], c: Out[f32]):
    i = thread_index()
    if i < len(c):
        c[i] = a[i] + b[i]


@kernel
def scaled(x: In[T], y: Out[T], factor: T, n: int = 1, up: bool = False):
    i = thread_index()
    if i < len(y):
        y[i] = x[i] * factor + T(n) if up else x[i] * factor


@kernel(workgroup=64)
def totals(x: In[f32], y: Out[f32]):
    total = group_sum(x[thread_index()])
    if local_index() == 0:
        y[group_index()] = total


@kernel
def past(x: InOut[f32], by: int):
    i = thread_index()
    x[i + by] = 1


@kernel
def constant(y: Out[f32], n: Const[int], kind: Const[Callable[..., Any]] = abs):
    y[0] = n * 2


@kernel
def constrained(x: In[S], y: Out[S]):
    y[0] = x[0]


def ones(n: int, dtype: Any = np.float32) -> np.ndarray:
    return np.ones(n, dtype)


A, B, C = ones(8), ones(8), ones(8)
READ_ONLY = ones(8)
READ_ONLY.flags.writeable = False
