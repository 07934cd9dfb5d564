"""Mixtures of experts: choosing experts for each token, and applying them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from poot.dtypes import DType, f32
from poot.errors import ArgumentError, DTypeError, ShapeError
from poot.trace.array import Array, ArrayLike
from poot.trace.dispatch import joined, lift
from poot.trace.ops import elementwise, indexing, logic, manipulation, ordering, reductions
from poot.trace.ops.axes import static_int
from poot.trace.ops.linalg import products
from poot.trace.ops.maps import narrowed, widened
from poot.trace.ops.nn.activation import sigmoid, silu
from poot.trace.ops.nn.layers import one_hot
from poot.trace.ops.nn.softmax import softmax
from poot.trace.ops.promotion import cast, common_float, dtype_of, shape_of
from poot.trace.source import user_location

#: What keeps the sum of chosen scores from being zero.
_TINY = 1e-20

# --- gating -----------------------------------------------------------------------------------------------------------


def top_k_gating(
    logits: ArrayLike,
    k: int,
    *,
    scoring: Literal["softmax", "sigmoid"] = "softmax",
    normalize: bool = True,
    bias: ArrayLike | None = None,
    groups: tuple[int, int] | None = None,
    scale: float = 1.0,
) -> tuple[Array, Array]:
    """The k experts of each token and their weights (Shazeer et al., arXiv:1701.06538; Fedus et al., arXiv:2101.03961).

    Args:
        logits: The router's, [..., experts].
        k: How many experts a token has.
        scoring: What makes scores of logits.  A softmax over all experts whose chosen scores are normalised is the
            softmax over the chosen logits.
        normalize: Divide the weights of a token by their sum.
        bias: [experts], added to scores for the choice and not to weights (DeepSeek-V3, arXiv:2412.19437).
        groups: (number, kept): experts are cut into `number` groups of neighbours, and only the `kept` groups whose two
            best scores have the greatest sum are chosen from.
        scale: What weights are multiplied by in the end.

    Returns:
        Weights [..., k] in logits' float dtype, greatest score first, and experts [..., k], i32.
    """
    wide, dtype = widened(logits, "top_k_gating")
    if wide.ndim == 0:
        raise ShapeError(what="top_k_gating: logits", actual=(), expected="[..., experts]", where=user_location())
    experts = wide.shape[-1]
    count = static_int(k, "top_k_gating: k")
    if not 1 <= count <= experts:
        raise ArgumentError(what="top_k_gating: k", actual=k, expected=f"1 to {experts}", where=user_location())
    if scoring not in ("softmax", "sigmoid"):
        raise ArgumentError(
            what="top_k_gating: scoring", actual=scoring, expected='"softmax" or "sigmoid"', where=user_location()
        )
    if bias is not None and shape_of(bias) != (experts,):
        raise ShapeError(what="top_k_gating: bias", actual=shape_of(bias), expected=(experts,), where=user_location())
    with joined(logits, bias):
        scores = softmax(wide) if scoring == "softmax" else sigmoid(wide)
        choice = scores if bias is None else scores + lift(cast(bias, scores.dtype))
        if groups is not None:
            choice = _within_groups(choice, groups, count)
        best, chosen = ordering.top_k(choice, count)
        weights = best if choice is scores else indexing.take_along_axis(scores, chosen, mode="clip")
        if normalize:
            total = reductions.sum(weights, -1, keepdims=True)
            weights = weights / elementwise.maximum(total, _TINY)
        return narrowed(weights if scale == 1 else weights * scale, dtype), chosen


def _within_groups(choice: Array, groups: tuple[int, int], k: int) -> Array:
    """Scores with those outside the best groups at -inf."""
    number, kept = (static_int(item, "top_k_gating: groups") for item in groups)
    experts = choice.shape[-1]
    if number < 1 or experts % number or not 1 <= kept <= number or kept * (experts // number) < k:
        raise ArgumentError(
            what="top_k_gating: groups",
            actual=groups,
            expected=f"(number, kept), number dividing {experts}, with {k} experts in the groups kept",
            where=user_location(),
        )
    each = experts // number
    shaped = manipulation.reshape(choice, (*choice.shape[:-1], number, each))
    best, _ = ordering.top_k(shaped, min(2, each))
    _, places = ordering.top_k(reductions.sum(best, -1), kept)
    open_ = reductions.any(one_hot(places, number, dtype="bool"), -2)
    masked = logic.where(manipulation.expand_dims(open_, -1), shaped, float("-inf"))
    return manipulation.reshape(masked, choice.shape)


# --- experts ----------------------------------------------------------------------------------------------------------


def moe(
    x: ArrayLike,
    weights: ArrayLike,
    experts: ArrayLike,
    up: ArrayLike,
    down: ArrayLike,
    gate: ArrayLike | None = None,
    *,
    up_bias: ArrayLike | None = None,
    down_bias: ArrayLike | None = None,
    gate_bias: ArrayLike | None = None,
    activation: Callable[[Array], Array] = silu,
    method: Literal["auto", "dense", "gather"] = "auto",
) -> Array:
    """A mixture of experts: Σ weight * down_e(activation(gate_e(x)) * up_e(x)) over the experts e of each token.

    Args:
        x: Tokens, [..., in].
        weights: [..., k], from `top_k_gating`.
        experts: Integers, [..., k]; one out of range takes part with nothing.
        up: [experts, hidden, in].
        down: [experts, out, hidden].
        gate: [experts, hidden, in]; without it an expert is down_e(activation(up_e(x))).
        up_bias, gate_bias: [experts, hidden], or None.
        down_bias: [experts, out], or None.
        activation: A function of arrays, element by element; it gets f32 for f16 and bf16 operands.
        method: "dense" applies every expert to every token, as products without a copy of a weight; "gather" takes out
            each token's experts, which costs their memory, and pays where tokens are few; "auto" gathers where tokens *
            k is at most the number of experts.

    Returns:
        [..., out], in the promoted float dtype of x and the experts' weights.
    """
    shape, chosen = shape_of(x), shape_of(experts)
    if not dtype_of(experts, "moe: experts").is_integer:
        raise DTypeError(what="moe: experts", actual=dtype_of(experts), expected="integers", where=user_location())
    _check(shape, chosen, shape_of(weights), shape_of(up), shape_of(down))
    count, hidden, _ = shape_of(up)
    out = shape_of(down)[1]
    for name, vector, expected in (
        ("gate", gate, shape_of(up)),
        ("up_bias", up_bias, (count, hidden)),
        ("gate_bias", gate_bias if gate is not None else None, (count, hidden)),
        ("down_bias", down_bias, (count, out)),
    ):
        if vector is not None and shape_of(vector) != expected:
            raise ShapeError(what=f"moe: {name}", actual=shape_of(vector), expected=expected, where=user_location())
    if method not in ("auto", "dense", "gather"):
        raise ArgumentError(
            what="moe: method", actual=method, expected='"auto", "dense" or "gather"', where=user_location()
        )
    tensors = (x, up, down, *(t for t in (gate, up_bias, down_bias, gate_bias) if t is not None))
    dtype = common_float(*tensors, what="moe")
    with joined(*tensors, weights, experts):
        tokens = manipulation.reshape(lift(cast(x, dtype)), (-1, shape[-1]))
        wide = f32 if dtype.bits == 16 else dtype
        shares = manipulation.reshape(lift(cast(weights, wide)), (-1, chosen[-1]))
        picks = manipulation.reshape(lift(cast(experts, dtype_of(experts))), (-1, chosen[-1]))
        few = picks.size <= count
        mix = _Gathered(dtype, shares, picks) if method == "gather" or (method == "auto" and few) else None
        mix = mix or _Dense(dtype, shares, picks, count)
        inner = mix.expand(tokens, up, up_bias)
        inner = activation(inner) if gate is None else activation(mix.expand(tokens, gate, gate_bias)) * inner
        return manipulation.reshape(mix.contract(inner, down, down_bias), (*shape[:-1], out))


def _check(
    x: Sequence[int], experts: Sequence[int], weights: Sequence[int], up: Sequence[int], down: Sequence[int]
) -> None:
    if not x or not experts or tuple(experts[:-1]) != tuple(x[:-1]):
        expected = f"{(*x[:-1], 'k')}, as x has it".replace("'", "")
        raise ShapeError(what="moe: experts", actual=experts, expected=expected, where=user_location())
    if tuple(weights) != tuple(experts):
        raise ShapeError(what="moe: weights", actual=weights, expected=f"{experts}, as experts", where=user_location())
    if len(up) != 3 or up[2] != x[-1]:
        raise ShapeError(
            what="moe: up", actual=up, expected=f"[experts, hidden, {x[-1]}], for x {x}", where=user_location()
        )
    if len(down) != 3 or down[0] != up[0] or down[2] != up[1]:
        raise ShapeError(
            what="moe: down", actual=down, expected=f"({up[0]}, out, {up[1]}), for up {up}", where=user_location()
        )


class _Dense:
    """Every expert on every token: values are [tokens, experts, …]."""

    def __init__(self, dtype: DType, shares: Array, picks: Array, count: int) -> None:
        self.dtype = dtype
        self.wide = shares.dtype
        chosen = one_hot(picks, count, dtype=self.wide)
        self.shares = reductions.sum(chosen * manipulation.expand_dims(shares, -1), 1)  # [tokens, experts]

    def expand(self, tokens: Array, w: ArrayLike, b: ArrayLike | None) -> Array:
        found = products(tokens, cast(w, self.dtype), ((1,), (2,)), ((), ()), "moe", self.wide)
        return found if b is None else found + lift(cast(b, self.wide))

    def contract(self, inner: Array, w: ArrayLike, b: ArrayLike | None) -> Array:
        weighted = lift(cast(inner * manipulation.expand_dims(self.shares, -1), self.dtype))
        found = products(weighted, cast(w, self.dtype), ((1, 2), (0, 2)), ((), ()), "moe", self.wide)
        if b is not None:
            found = found + products(self.shares, cast(b, self.wide), ((1,), (0,)), ((), ()), "moe")
        return narrowed(found, self.dtype)


class _Gathered:
    """Each token's experts alone: values are [tokens, k, …]."""

    def __init__(self, dtype: DType, shares: Array, picks: Array) -> None:
        self.dtype = dtype
        self.wide = shares.dtype
        self.shares = shares
        # Negative indices would count from the end.
        self.picks = logic.where(picks < 0, picks.dtype.max, picks) if picks.dtype.kind == "int" else picks

    def _taken(self, w: ArrayLike, dtype: DType) -> Array:
        return indexing.take(lift(cast(w, dtype)), self.picks, axis=0, mode="fill", fill_value=0.0)

    def expand(self, tokens: Array, w: ArrayLike, b: ArrayLike | None) -> Array:
        found = products(tokens, self._taken(w, self.dtype), ((1,), (3,)), ((0,), (0,)), "moe", self.wide)
        return found if b is None else found + self._taken(b, self.wide)

    def contract(self, inner: Array, w: ArrayLike, b: ArrayLike | None) -> Array:
        shares = manipulation.expand_dims(self.shares, -1)
        weighted = lift(cast(inner * shares, self.dtype))
        taken = self._taken(w, self.dtype)
        found = products(weighted, taken, ((1, 2), (1, 3)), ((0,), (0,)), "moe", self.wide)
        if b is not None:
            found = found + reductions.sum(self._taken(b, self.wide) * shares, 1)
        return narrowed(found, self.dtype)
