"""Functions of neural networks: compositions of primitives, never primitives of their own."""

from __future__ import annotations

from poot.trace.ops.nn.activation import gelu, log_softmax, logsumexp, relu, sigmoid, silu, softmax
from poot.trace.ops.nn.attention import attention
from poot.trace.ops.nn.layers import embedding, linear
from poot.trace.ops.nn.normalization import layernorm, rmsnorm

__all__ = [
    "attention",
    "embedding",
    "gelu",
    "layernorm",
    "linear",
    "log_softmax",
    "logsumexp",
    "relu",
    "rmsnorm",
    "sigmoid",
    "silu",
    "softmax",
]
