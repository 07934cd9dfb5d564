"""Losses of classifications.  f16 and bf16 are computed in f32 and rounded once."""

from __future__ import annotations

from typing import Literal

from poot.errors import ArgumentError, DTypeError, ShapeError
from poot.trace.array import Array, ArrayLike
from poot.trace.dispatch import joined, lift
from poot.trace.ops import indexing, logic, manipulation, reductions
from poot.trace.ops.axes import choice, number, one_axis
from poot.trace.ops.maps import narrowed, widened
from poot.trace.ops.nn.softmax import log_softmax
from poot.trace.ops.promotion import cast, dtype_of, shape_of
from poot.trace.source import user_location

Reduction = Literal["mean", "sum", "none"]


def cross_entropy(
    logits: ArrayLike,
    targets: ArrayLike,
    *,
    axis: int = -1,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> Array:
    """The cross-entropy of softmax(logits) with targets: -log of the probability given to the right class.

    Args:
        logits: [..., classes, ...], the classes along `axis`.
        targets: Integers, the classes, in the shape of logits without `axis` (one out of range, as every negative one
            is, faults when the result is read); or floats in the shape of logits, a probability for each class.
        axis: Where the classes are.
        weights: [classes]: what each class counts.
        ignore_index: A class, which need not be one, whose elements count for nothing; of integer targets alone.
        label_smoothing: The part of each target, from 0 to 1, that is spread evenly over all classes (Szegedy et al.,
            arXiv:1512.00567).
        reduction: "mean", of integer targets over the weights of what is not ignored, of others over the number of
            elements; "sum"; or "none", a loss for each element.

    Returns:
        A 0-d array, or for "none" the shape of logits without `axis`; in logits' float dtype.  The mean of nothing is
        NaN.
    """
    wide, dtype = widened(logits, "cross_entropy")
    place = one_axis(axis, wide.ndim, "cross_entropy")
    label_smoothing = number(label_smoothing, "cross_entropy: label_smoothing")
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(
            what="cross_entropy: label_smoothing", actual=label_smoothing, expected="0 to 1", where=user_location()
        )
    scores = _Scores(place, weights, ignore_index, _checked(reduction, "cross_entropy"))
    with joined(logits, targets, weights):
        logs = log_softmax(wide, place)
        if dtype_of(targets, "cross_entropy: targets").is_float:
            return narrowed(scores.soft(logs, targets, label_smoothing), dtype)
        return narrowed(scores.hard(logs, targets, label_smoothing, "cross_entropy"), dtype)


def nll_loss(
    logs: ArrayLike,
    targets: ArrayLike,
    *,
    axis: int = -1,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: Reduction = "mean",
) -> Array:
    """The negative log-likelihood of classes: `cross_entropy` of log-probabilities, with integer targets."""
    wide, dtype = widened(logs, "nll_loss")
    place = one_axis(axis, wide.ndim, "nll_loss")
    scores = _Scores(place, weights, ignore_index, _checked(reduction, "nll_loss"))
    with joined(logs, targets, weights):
        return narrowed(scores.hard(wide, targets, 0.0, "nll_loss"), dtype)


def _checked(reduction: Reduction, what: str) -> Reduction:
    choice(reduction, f"{what}: reduction", "mean", "sum", "none")
    return reduction


class _Scores:
    """Losses from log-probabilities, with the options that both kinds of targets share."""

    __slots__ = ("axis", "ignore", "reduction", "weights")

    def __init__(self, axis: int, weights: ArrayLike | None, ignore: int | None, reduction: Reduction) -> None:
        self.axis = axis
        self.weights = weights
        self.ignore = ignore
        self.reduction = reduction

    def soft(self, logs: Array, targets: ArrayLike, smoothing: float) -> Array:
        if shape_of(targets) != logs.shape:
            raise ShapeError(
                what="cross_entropy: targets", actual=shape_of(targets), expected=f"{logs.shape}, as logits",
                where=user_location(),
            )  # fmt: skip
        if self.ignore is not None:
            raise ArgumentError(
                what="cross_entropy: ignore_index", actual=self.ignore, expected="None, with float targets",
                where=user_location(),
            )  # fmt: skip
        expected = lift(cast(targets, logs.dtype))
        if smoothing:
            expected = expected * (1 - smoothing) + smoothing / logs.shape[self.axis]
        terms = expected * logs
        if self.weights is not None:
            terms = terms * self._along(logs)
        losses = -reductions.sum(terms, self.axis)
        return reductions.mean(losses) if self.reduction == "mean" else self._reduced(losses, None)

    def hard(self, logs: Array, targets: ArrayLike, smoothing: float, what: str) -> Array:
        dtype = dtype_of(targets, f"{what}: targets")
        shape = logs.shape[: self.axis] + logs.shape[self.axis + 1 :]
        if not dtype.is_integer:
            raise DTypeError(what=f"{what}: targets", actual=dtype, expected="integers", where=user_location())
        if shape_of(targets) != shape:
            raise ShapeError(
                what=f"{what}: targets", actual=shape_of(targets), expected=f"{shape}, as {what} has it without axis "
                f"{self.axis}", where=user_location(),
            )  # fmt: skip
        classes, kept = self._classes(lift(cast(targets, dtype)))
        losses = -self._at(logs, classes)
        counts = None if self.weights is None else indexing.take(self._vector(logs), classes)
        if counts is not None:
            losses = losses * counts
        if smoothing:
            spread = logs if self.weights is None else logs * self._along(logs)
            even = -reductions.sum(spread, self.axis) * (smoothing / logs.shape[self.axis])
            losses = losses * (1 - smoothing) + even
        if kept is not None:
            losses = logic.where(kept, losses, 0)
            counts = lift(cast(kept, losses.dtype)) if counts is None else logic.where(kept, counts, 0)
        return self._reduced(losses, counts)

    def _classes(self, targets: Array) -> tuple[Array, Array | None]:
        """Classes that exist, and which elements count."""
        if self.ignore is None:
            return targets, None
        low, high = int(targets.dtype.min), int(targets.dtype.max)
        if not low <= self.ignore <= high:
            return targets, None
        kept = targets != self.ignore
        return logic.where(kept, targets, 0), kept

    def _at(self, logs: Array, classes: Array) -> Array:
        """The element of each row that its class names."""
        found = indexing.along_axis(logs, manipulation.expand_dims(classes, self.axis), self.axis)
        return manipulation.squeeze(found, self.axis)

    def _vector(self, logs: Array) -> Array:
        classes = (logs.shape[self.axis],)
        assert self.weights is not None
        if shape_of(self.weights) != classes:
            raise ShapeError(
                what="weights", actual=shape_of(self.weights), expected=f"{classes}, one a class", where=user_location()
            )
        return lift(cast(self.weights, logs.dtype))

    def _along(self, logs: Array) -> Array:
        return manipulation.reshape(self._vector(logs), (-1, *(1,) * (logs.ndim - self.axis - 1)))

    def _reduced(self, losses: Array, counts: Array | None) -> Array:
        if self.reduction == "none":
            return losses
        total = reductions.sum(losses)
        if self.reduction == "sum":
            return total
        return total / (float(losses.size) if counts is None else reductions.sum(counts))
