"""Attention written at random: heads, lengths, masks, sinks, and where the division stands, all drawn from a seed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from poot import ops

Array = np.ndarray[Any, Any]
INF = math.inf
LENGTHS = (1, 2, 3, 7, 8, 13, 16, 31, 37, 40)
DTYPES = (np.float32, np.float32, ml_dtypes.bfloat16, np.float16, np.float64)
MASKS = ("none", "causal", "window", "bools", "added", "finite", "empty rows")
SINKS = ("none", "none", "row", "last column", "first column", "two columns")
DIVISIONS = ("softmax", "spelled", "deferred", "summed first", "reciprocal", "shifted twice", "no maximum")


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write attention, and the arrays to do it with (`arrays` by the names of the parameters)."""

    dtype: Any
    lead: tuple[int, ...]
    shared: int
    queries: int
    keys: int
    depth: int
    columns: int
    mask: str
    sinks: str
    division: str
    einsum: bool
    softcap: bool
    after: bool
    offset: int
    large: bool

    @staticmethod
    def of(seed: int) -> Form:
        rng = np.random.default_rng([seed, 77])

        def one(choices: Any) -> Any:
            return choices[int(rng.integers(len(choices)))]

        return Form(
            dtype=one(DTYPES),
            lead=one([(2,), (3,), (2, 2), (1, 4)]),
            shared=one([1, 1, 2]),
            queries=one(LENGTHS),
            keys=one(LENGTHS),
            depth=one((1, 3, 8, 12)),
            columns=one((1, 5, 9)),
            mask=one(MASKS),
            sinks=one(SINKS),
            division=one(DIVISIONS),
            einsum=one([True, False]),
            softcap=one([True, False, False]),
            after=one([True, False]),
            offset=int(rng.integers(-4, 9)),
            large=one([True, False, False, False, False]),
        )

    @property
    def wide(self) -> bool:
        """Whether it takes a dtype that not every device has."""
        return self.dtype is np.float64

    @property
    def streams(self) -> bool:
        """Whether there is a softmax at all: of one key it is known, and of places that hide all."""
        ahead = np.arange(self.keys)[None, :] - np.arange(self.queries)[:, None]
        hidden = {"causal": ahead > self.offset, "window": (ahead > self.offset) | (ahead <= self.offset - 6)}
        return self.keys > 1 and not bool(hidden.get(self.mask, np.zeros(1)).all())

    def arrays(self, seed: int) -> dict[str, Array]:
        rng = np.random.default_rng([seed, 78])
        lead, heads = self.lead, (*self.lead[:-1], self.lead[-1] * self.shared)

        def normal(*shape: int) -> Array:
            return rng.standard_normal(shape).astype(self.dtype)

        kept = rng.random((self.queries, self.keys)) > 0.4
        if self.mask == "empty rows":
            kept[rng.random(self.queries) > 0.6] = False
        # Past 1e9 an error of half a unit of a score overflows its power.
        scale = self.dtype(1e5 if self.large and np.dtype(self.dtype).itemsize >= 4 else 1.0)
        return {
            "q": normal(*heads, self.queries, self.depth) * scale,
            "k": normal(*lead, self.keys, self.depth) * scale,
            "v": normal(*lead, self.keys, self.columns),
            "kept": kept,
            "sinks": normal(heads[-1]),
            "x": normal(*heads, self.queries, self.columns),
        }

    def function(self) -> Callable[..., Any]:
        """attention(q, k, v, kept, sinks, x)"""

        def attention(q: Any, k: Any, v: Any, kept: Any, sinks: Any, x: Any) -> Any:
            if self.shared > 1:
                k, v = (ops.repeat(each, self.shared, axis=-3) for each in (k, v))
            scores = self._masked(self._scores(q, k), kept)
            mixed = self._mixed(scores, v, sinks[:, None, None])
            return ops.tanh(mixed) + x if self.after else mixed

        return attention

    def _scores(self, q: Any, k: Any) -> Any:
        scores = (ops.einsum("...qd,...kd->...qk", q, k) if self.einsum else q @ k.mT) * 0.4
        return ops.tanh(scores / 3.0) * 3.0 if self.softcap else scores

    def _masked(self, scores: Any, kept: Any) -> Any:
        ahead = ops.arange(self.keys)[None, :] - ops.arange(self.queries)[:, None]
        match self.mask:
            case "causal":
                return ops.where(ahead <= self.offset, scores, -INF)
            case "window":
                return ops.where((ahead <= self.offset) & (ahead > self.offset - 6), scores, -INF)
            case "bools" | "empty rows":
                return ops.where(kept, scores, -INF)
            case "added":
                return scores + ops.where(kept, 0.0, -INF).astype(scores.dtype)
            case "finite":
                return ops.where(kept & (ahead <= self.offset), scores, -1e4)
            case _:
                return scores

    def _mixed(self, scores: Any, v: Any, sinks: Any) -> Any:
        columns = {"last column": 1, "first column": 1, "two columns": 2}.get(self.sinks, 0)
        first = columns if self.sinks == "first column" else 0
        if columns:
            column = ops.broadcast_to(sinks, (*scores.shape[:-1], columns))
            scores = ops.concat([column, scores] if first else [scores, column], axis=-1)

        def kept(weights: Any) -> Any:
            return weights[..., first : first + self.keys] if columns else weights

        if self.division == "softmax" and self.sinks != "row":
            return self._product(kept(ops.nn.softmax(scores)), v)
        most = ops.max(scores, axis=-1, keepdims=True)
        if self.sinks == "row":
            most = ops.maximum(most, sinks)
        if self.division == "no maximum":
            most = ops.zeros_like(most)
        elif self.division == "shifted twice":
            scores = scores - most
            sinks, most = sinks - most, ops.max(scores, axis=-1, keepdims=True)
        powers = ops.exp(scores - most)
        rest = ops.exp(sinks - most) if self.sinks == "row" else 0.0
        if self.division in ("deferred", "summed first"):
            early = ops.sum(powers, axis=-1, keepdims=True) if self.division == "summed first" else None
            mixed = self._product(kept(powers), v)
            total = ops.sum(powers, axis=-1, keepdims=True) if early is None else early
            return mixed / (total + rest)
        total = ops.sum(powers, axis=-1, keepdims=True) + rest
        if self.division == "reciprocal":
            return self._product(kept(powers), v) * (1 / total)
        return self._product(kept(powers / total), v)

    def _product(self, weights: Any, v: Any) -> Any:
        return ops.einsum("...qk,...kd->...qd", weights, v) if self.einsum else weights @ v
