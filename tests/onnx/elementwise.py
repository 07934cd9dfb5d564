"""ONNX's elementwise operators."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from poot.trace import ops
from poot.trace.ops import nn
from tests.onnx.model import Node, dtype_of, operator

UNARY: dict[str, Callable[[Any], Any]] = {
    "Abs": ops.abs,
    "Acos": ops.acos,
    "Acosh": ops.acosh,
    "Asin": ops.asin,
    "Asinh": ops.asinh,
    "Atan": ops.atan,
    "Atanh": ops.atanh,
    "BitwiseNot": ops.bitwise_invert,
    "Ceil": ops.ceil,
    "Cos": ops.cos,
    "Cosh": ops.cosh,
    "Erf": ops.erf,
    "Exp": ops.exp,
    "Floor": ops.floor,
    "HardSwish": nn.hardswish,
    "Identity": ops.positive,
    "IsNaN": ops.isnan,
    "Log": ops.log,
    "Mish": nn.mish,
    "Neg": ops.negative,
    "Not": ops.logical_not,
    "Reciprocal": ops.reciprocal,
    "Relu": nn.relu,
    "Round": ops.round,
    "Sigmoid": nn.sigmoid,
    "Sign": ops.sign,
    "Sin": ops.sin,
    "Sinh": ops.sinh,
    "Softplus": nn.softplus,
    "Softsign": nn.softsign,
    "Sqrt": ops.sqrt,
    "Tan": ops.tan,
    "Tanh": ops.tanh,
}

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": ops.add,
    "And": ops.logical_and,
    "BitwiseAnd": ops.bitwise_and,
    "BitwiseOr": ops.bitwise_or,
    "BitwiseXor": ops.bitwise_xor,
    "Equal": ops.equal,
    "Greater": ops.greater,
    "GreaterOrEqual": ops.greater_equal,
    "Less": ops.less,
    "LessOrEqual": ops.less_equal,
    "Mul": ops.multiply,
    "Or": ops.logical_or,
    "PRelu": lambda x, slope: nn.leaky_relu(x, slope),
    "Sub": ops.subtract,
    "Xor": ops.logical_xor,
}


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda node, *inputs: function(*inputs)


for _name, _function in {**UNARY, **BINARY}.items():
    operator(_name)(_plain(_function))


# --- arithmetic -------------------------------------------------------------------------------------------------------


@operator("Div")
def divide(node: Node, a: Any, b: Any) -> Any:
    if a.dtype.is_float:
        return ops.divide(a, b)
    if a.dtype.kind == "uint":
        return ops.floor_divide(a, b)
    size = ops.floor_divide(ops.abs(a), ops.abs(b))  # towards zero
    return ops.where((a < 0) != (b < 0), -size, size)


@operator("Mod")
def mod(node: Node, a: Any, b: Any) -> Any:
    return ops.fmod(a, b) if node.get("fmod", 0) else ops.remainder(a, b)


@operator("Pow")
def power(node: Node, a: Any, b: Any) -> Any:
    return ops.astype(ops.pow(a, b), a.dtype)


@operator("BitShift")
def bit_shift(node: Node, a: Any, b: Any) -> Any:
    return ops.bitwise_left_shift(a, b) if node.get("direction") == "LEFT" else ops.bitwise_right_shift(a, b)


@operator("Max")
def maximum(node: Node, *xs: Any) -> Any:
    return functools.reduce(ops.maximum, xs)


@operator("Min")
def minimum(node: Node, *xs: Any) -> Any:
    return functools.reduce(ops.minimum, xs)


@operator("Sum")
def total(node: Node, *xs: Any) -> Any:
    return functools.reduce(ops.add, xs)


@operator("Mean")
def mean(node: Node, *xs: Any) -> Any:
    return functools.reduce(ops.add, xs) / len(xs)


@operator("Clip")
def clip(node: Node, x: Any, low: Any = None, high: Any = None) -> Any:
    return ops.clip(x, low, high)


@operator("Where")
def where(node: Node, condition: Any, a: Any, b: Any) -> Any:
    return ops.where(condition, a, b)


@operator("IsInf")
def is_infinite(node: Node, x: Any) -> Any:
    found = ops.isinf(x)
    if not node.get("detect_negative", 1):
        found = ops.logical_and(found, x > 0)
    return found if node.get("detect_positive", 1) else ops.logical_and(found, x < 0)


# --- dtypes -----------------------------------------------------------------------------------------------------------


@operator("Cast")
def cast(node: Node, x: Any) -> Any:
    return ops.astype(x, dtype_of(node.get("to")))


@operator("CastLike")
def cast_like(node: Node, x: Any, like: Any) -> Any:
    return ops.astype(x, like.dtype)


@operator("BitCast")
def bit_cast(node: Node, x: Any) -> Any:
    target = dtype_of(node.get("to"))
    if "bool" in (x.dtype.kind, target.kind):  # bools are bytes of 0 and 1
        return ops.astype(x, target)
    return ops.bitcast(x, target)


@operator("ai.onnx.ml.Binarizer")
def binarizer(node: Node, x: Any) -> Any:
    return ops.astype(x > node.get("threshold", 0.0), x.dtype)


# --- activations ------------------------------------------------------------------------------------------------------


@operator("LeakyRelu")
def leaky_relu(node: Node, x: Any) -> Any:
    return nn.leaky_relu(x, node.get("alpha", 0.01))


@operator("Elu")
def elu(node: Node, x: Any) -> Any:
    return nn.elu(x, node.get("alpha", 1.0))


@operator("Celu")
def celu(node: Node, x: Any) -> Any:
    return nn.celu(x, node.get("alpha", 1.0))


@operator("Selu")
def selu(node: Node, x: Any) -> Any:
    if not node.attributes:
        return nn.selu(x)
    return node.get("gamma", 1.05070102214813232421875) * nn.elu(x, node.get("alpha", 1.67326319217681884765625))


@operator("HardSigmoid")
def hard_sigmoid(node: Node, x: Any) -> Any:
    return ops.clip(x * node.get("alpha", 0.2) + node.get("beta", 0.5), 0, 1)


@operator("ThresholdedRelu")
def thresholded_relu(node: Node, x: Any) -> Any:
    return ops.where(x > node.get("alpha", 1.0), x, 0)


@operator("Shrink")
def shrink(node: Node, x: Any) -> Any:
    edge, bias = node.get("lambd", 0.5), node.get("bias", 0.0)
    return ops.where(x < -edge, x + bias, ops.where(x > edge, x - bias, 0))


@operator("Gelu")
def gelu(node: Node, x: Any) -> Any:
    return nn.gelu(x, node.get("approximate", "none"))


@operator("Swish")
def swish(node: Node, x: Any) -> Any:
    return x * nn.sigmoid(x * node.get("alpha", 1.0))


@operator("SwiGLU")
def swiglu(node: Node, gate: Any, up: Any) -> Any:
    alpha = node.get("alpha", 1.0)
    return nn.swiglu(gate, up) if alpha == 1 else gate * nn.sigmoid(gate * alpha) * up


@operator("Softmax")
def softmax(node: Node, x: Any) -> Any:
    return nn.softmax(x, node.get("axis", -1))


@operator("LogSoftmax")
def log_softmax(node: Node, x: Any) -> Any:
    return nn.log_softmax(x, node.get("axis", -1))


@operator("Hardmax")
def hardmax(node: Node, x: Any) -> Any:
    axis = node.get("axis", -1)
    return nn.one_hot(ops.argmax(x, axis), x.shape[axis], axis=axis, dtype=x.dtype)


@operator("Dropout", static=(1, 2))
def dropout(node: Node, x: Any, ratio: Any = None, training: Any = None) -> Any:
    assert training is None or not bool(training) or float(ratio) == 0, "ONNX leaves the random numbers open"
    return (ops.positive(x), ops.ones(x.shape, "bool"))[: node.outputs]
