"""Functions of neural networks: compositions of primitives, never primitives of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from poot.trace.ops.namespace import missing
from poot.trace.ops.nn.activation import (
    celu,
    elu,
    geglu,
    gelu,
    glu,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    log_sigmoid,
    mish,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softcap,
    softplus,
    softsign,
    swiglu,
)
from poot.trace.ops.nn.attention import attention
from poot.trace.ops.nn.convolution import causal_conv1d, conv, conv1d, conv2d, conv3d, conv_transpose
from poot.trace.ops.nn.experts import moe, top_k_gating
from poot.trace.ops.nn.layers import embedding, linear, one_hot
from poot.trace.ops.nn.loss import cross_entropy, nll_loss
from poot.trace.ops.nn.normalization import batchnorm, groupnorm, instancenorm, layernorm, rmsnorm
from poot.trace.ops.nn.pooling import avg_pool, global_avg_pool, global_max_pool, max_pool
from poot.trace.ops.nn.position import (
    RopeDynamicNTK,
    RopeLinear,
    RopeLlama3,
    RopeScaling,
    RopeYaRN,
    alibi,
    alibi_slopes,
    rope,
    rope_frequencies,
    rope_scale,
    rope_table,
    rotate,
)
from poot.trace.ops.nn.sampling import greedy, keep_min_p, keep_top_k, keep_top_p, sample
from poot.trace.ops.nn.softmax import log_softmax, logsumexp, softmax

__all__ = [
    "RopeDynamicNTK",
    "RopeLinear",
    "RopeLlama3",
    "RopeScaling",
    "RopeYaRN",
    "alibi",
    "alibi_slopes",
    "attention",
    "avg_pool",
    "batchnorm",
    "causal_conv1d",
    "celu",
    "conv",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose",
    "cross_entropy",
    "elu",
    "embedding",
    "geglu",
    "gelu",
    "global_avg_pool",
    "global_max_pool",
    "glu",
    "greedy",
    "groupnorm",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "instancenorm",
    "keep_min_p",
    "keep_top_k",
    "keep_top_p",
    "layernorm",
    "leaky_relu",
    "linear",
    "log_sigmoid",
    "log_softmax",
    "logsumexp",
    "max_pool",
    "mish",
    "moe",
    "nll_loss",
    "one_hot",
    "relu",
    "relu6",
    "rmsnorm",
    "rope",
    "rope_frequencies",
    "rope_scale",
    "rope_table",
    "rotate",
    "sample",
    "selu",
    "sigmoid",
    "silu",
    "softcap",
    "softmax",
    "softplus",
    "softsign",
    "swiglu",
    "top_k_gating",
]


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # type checkers report unknown names themselves

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise missing(__name__, name, __all__)
