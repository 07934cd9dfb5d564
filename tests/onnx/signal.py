"""ONNX's signals, images and optimizers: transforms by matrices of known weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from poot.trace import ops
from tests.onnx.model import Node, dtype_of, operator, static_ints

# --- Fourier ----------------------------------------------------------------------------------------------------------


def _turns(outputs: int, inputs: int, length: int) -> tuple[Any, Any]:
    """Cosines and sines of 2π j k / length."""
    angle = 2 * np.pi * np.outer(np.arange(outputs), np.arange(inputs)) / length
    return np.cos(angle), np.sin(angle)


def _along(x: Any, matrix: Any, axis: int) -> Any:
    """A matrix [out, in] applied along an axis."""
    moved = ops.moveaxis(x, axis, -1)
    return ops.moveaxis(ops.matmul(moved, ops.asarray(matrix.T.astype(x.dtype.dtype))), -1, axis)


@operator("DFT", static=(1, 2))
def dft(node: Node, x: Any, length: Any = None, axis: Any = None) -> Any:
    place = static_ints(axis)[0] if axis is not None else node.get("axis", 1 if node.version < 20 else -2)  # type: ignore[index]
    place %= x.ndim
    inverse, onesided = bool(node.get("inverse", 0)), bool(node.get("onesided", 0))
    extent = x.shape[place]
    count = static_ints(length)[0] if length is not None else 2 * (extent - 1) if inverse and onesided else extent  # type: ignore[index]
    real = x[..., 0]
    if inverse and onesided:
        cos, sin = _turns(count, extent, count)
        weight = np.where((np.arange(extent) == 0) | (2 * np.arange(extent) == count), 1, 2) / count
        return ops.expand_dims(_along(real, cos * weight, place) - _along(x[..., 1], sin * weight, place), -1)
    outputs = count // 2 + 1 if onesided else count
    cos, sin = _turns(outputs, min(extent, count), count)
    sign = 1 if inverse else -1
    re, im = _along(real, cos, place), _along(real, sign * sin, place)
    if x.shape[-1] == 2:
        imaginary = x[..., 1]
        re, im = re - _along(imaginary, sign * sin, place), im + _along(imaginary, cos, place)
    return ops.stack([re, im], axis=-1) / (count if inverse else 1)


@operator("STFT", static=(1, 3))
def stft(node: Node, x: Any, step: Any, window: Any = None, length: Any = None) -> Any:
    hop = static_ints(step)[0]  # type: ignore[index]
    size = window.shape[0] if window is not None else static_ints(length)[0]  # type: ignore[index]
    signal = x[..., 0]
    frames = (signal.shape[-1] - size) // hop + 1
    place = np.add.outer(np.arange(frames) * hop, np.arange(size)).astype(np.int32)
    cut = ops.take(signal, place, axis=-1)
    cut = cut if window is None else cut * window
    outputs = size // 2 + 1 if node.get("onesided", 1) else size
    cos, sin = _turns(outputs, size, size)
    return ops.stack([_along(cut, cos, -1), _along(cut, -sin, -1)], axis=-1)


def _window(*coefficients: float) -> Any:
    def window(node: Node, size: Any) -> Any:
        count = static_ints(size)[0]  # type: ignore[index]
        dtype = dtype_of(node.get("output_datatype", 1))
        angle = ops.arange(count, dtype=dtype) * (2 * math.pi / (count if node.get("periodic", 1) else count - 1))
        terms = [value * ops.cos(angle * number) if number else value for number, value in enumerate(coefficients)]
        return sum(terms[1:], start=terms[0])

    return window


operator("HannWindow", static=(0,))(_window(0.5, -0.5))
operator("HammingWindow", static=(0,))(_window(25 / 46, -21 / 46))
operator("BlackmanWindow", static=(0,))(_window(0.42, -0.5, 0.08))


# --- images -----------------------------------------------------------------------------------------------------------


def _kernel(mode: str, a: float, distance: Any) -> Any:
    """The weight of an element at a distance from the place sampled."""
    x = np.abs(distance)
    if mode == "linear":
        return np.maximum(1 - x, 0)
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _places(mode: str, count: int, extent: int, scale: float, roi: tuple[float, float]) -> Any:
    """Where each element of the result lies on the axis."""
    out, whole = np.arange(count, dtype=np.float64), scale * extent
    match mode:
        case "align_corners":
            return np.zeros(count) if whole == 1 else out * (extent - 1) / (whole - 1)
        case "asymmetric":
            return out / scale
        case "tf_crop_and_resize":
            first, last = roi
            if count == 1:
                return np.full(1, 0.5 * (first + last) * (extent - 1))
            return first * (extent - 1) + out * (last - first) * (extent - 1) / (count - 1)
        case "pytorch_half_pixel" if count == 1:
            return np.zeros(1) - 0.5
        case "half_pixel_symmetric":
            return extent / 2 * (1 - count / whole) + (out + 0.5) / scale - 0.5
        case _:
            return (out + 0.5) / scale - 0.5


def _weights(node: Node, places: Any, extent: int, scale: float) -> Any:
    """The matrix that samples an axis of `extent` elements at `places`."""
    mode = node.get("mode", "nearest")
    matrix = np.zeros((len(places), extent))
    if mode == "nearest":
        rounding = node.get("nearest_mode", "round_prefer_floor")
        near = {
            "round_prefer_floor": np.ceil(places - 0.5),
            "round_prefer_ceil": np.floor(places + 0.5),
            "floor": np.floor(places),
            "ceil": np.ceil(places),
        }[rounding]
        matrix[np.arange(len(places)), np.clip(near, 0, extent - 1).astype(int)] = 1
        return matrix
    stretch = min(scale, 1.0) if node.get("antialias", 0) else 1.0
    reach = math.ceil((1 if mode == "linear" else 2) / stretch)
    for row, place in enumerate(places):
        taps = np.arange(math.floor(place) - reach, math.floor(place) + reach + 2)
        values = _kernel(mode, node.get("cubic_coeff_a", -0.75), (taps - place) * stretch)
        if node.get("exclude_outside", 0):
            values = np.where((taps < 0) | (taps >= extent), 0, values)
        if stretch < 1 or node.get("exclude_outside", 0):
            values = values / values.sum()
        np.add.at(matrix[row], np.clip(taps, 0, extent - 1), values)
    return matrix


@operator("Resize", static=(1, 2, 3))
def resize(node: Node, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None) -> Any:
    axes = [axis % x.ndim for axis in node.get("axes", range(x.ndim))]
    mode = node.get("coordinate_transformation_mode", "half_pixel")
    if sizes is not None and sizes.size:
        counts = static_ints(sizes) or []
        factors = [count / x.shape[axis] for count, axis in zip(counts, axes, strict=True)]
        policy = node.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            one = (min if policy == "not_larger" else max)(factors)
            factors = [one] * len(axes)
            counts = [math.floor(one * x.shape[axis] + 0.5) for axis in axes]
    else:
        factors = [float(item) for item in scales]
        counts = [math.floor(factor * x.shape[axis]) for factor, axis in zip(factors, axes, strict=True)]
    outside = ops.zeros((), "bool")
    for number, (axis, count, factor) in enumerate(zip(axes, counts, factors, strict=True)):
        extent = x.shape[axis]
        box = (0.0, 1.0) if roi is None or not roi.size else (float(roi[number]), float(roi[len(axes) + number]))
        if count == extent and factor == 1 and box == (0.0, 1.0):
            continue
        places = _places(mode, count, extent, factor, box)
        x = _along(x, _weights(node, places, extent, factor), axis)
        if mode == "tf_crop_and_resize":
            gone = np.reshape((places < 0) | (places > extent - 1), (-1, *(1,) * (x.ndim - axis - 1)))
            outside = ops.logical_or(outside, ops.asarray(gone))
    return ops.where(outside, node.get("extrapolation_value", 0.0), x) if mode == "tf_crop_and_resize" else x


@operator("Upsample", static=(1,))
def upsample(node: Node, x: Any, scales: Any) -> Any:
    for axis, factor in enumerate(scales):
        x = ops.repeat(x, int(factor), axis=axis)
    return x


@operator("AffineGrid", static=(1,))
def affine_grid(node: Node, theta: Any, size: Any) -> Any:
    extents = (static_ints(size) or [])[2:]
    rank = len(extents)
    points = []
    for axis, extent in enumerate(extents):
        place = ops.astype(ops.iota(tuple(extents), axis), np.float32)
        if node.get("align_corners", 0):
            points.append(place * (2 / (extent - 1)) - 1)
        else:
            points.append((place * 2 + 1) / extent - 1)
    whole = ops.stack([*reversed(points), ops.ones(tuple(extents))], axis=-1)
    found = ops.matmul(ops.reshape(whole, (-1, rank + 1)), ops.matrix_transpose(theta))
    return ops.reshape(found, (theta.shape[0], *extents, rank))


# --- optimizers -------------------------------------------------------------------------------------------------------

TRAINING = "ai.onnx.preview.training."


def _groups(tensors: tuple[Any, ...], kinds: int) -> list[tuple[Any, ...]]:
    count = len(tensors) // kinds
    return [tuple(tensors[kind * count + number] for kind in range(kinds)) for number in range(count)]


def _laid_out(results: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(item for kind in zip(*results, strict=True) for item in kind)


@operator(TRAINING + "Adagrad")
def adagrad(node: Node, rate: Any, step: Any, *tensors: Any) -> Any:
    rate = rate / (1 + ops.astype(step, np.float32) * node.get("decay_factor", 0.0))
    results = []
    for x, gradient, squares in _groups(tensors, 3):
        gradient = gradient + node.get("norm_coefficient", 0.0) * x
        squares = squares + gradient * gradient
        results.append((x - rate * gradient / (ops.sqrt(squares) + node.get("epsilon", 0.0)), squares))
    return _laid_out(results)


@operator(TRAINING + "Adam")
def adam(node: Node, rate: Any, step: Any, *tensors: Any) -> Any:
    alpha, beta = node.get("alpha", 0.9), node.get("beta", 0.999)
    turns = ops.astype(step, np.float32)
    adjusted = rate * ops.sqrt(1 - ops.pow(beta, turns)) / (1 - ops.pow(alpha, turns))
    rate = ops.where(turns > 0, adjusted, rate)
    results = []
    for x, gradient, mean, square in _groups(tensors, 4):
        gradient = gradient + node.get("norm_coefficient", 0.0) * x
        mean = alpha * mean + (1 - alpha) * gradient
        square = beta * square + (1 - beta) * gradient * gradient
        new = x - rate * mean / (ops.sqrt(square) + node.get("epsilon", 0.0))
        results.append(((1 - node.get("norm_coefficient_post", 0.0)) * new, mean, square))
    return _laid_out(results)


@operator(TRAINING + "Momentum")
def momentum(node: Node, rate: Any, step: Any, *tensors: Any) -> Any:
    alpha, beta = node.get("alpha"), node.get("beta")
    share = ops.where(step == 0, 1.0, beta)
    results = []
    for x, gradient, velocity in _groups(tensors, 3):
        gradient = gradient + node.get("norm_coefficient", 0.0) * x
        velocity = alpha * velocity + share * gradient
        move = gradient + alpha * velocity if node.get("mode") == "nesterov" else velocity
        results.append((x - rate * move, velocity))
    return _laid_out(results)
