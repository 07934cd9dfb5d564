"""Operations on arrays: the array API's names, and NumPy's where they differ.

Every function takes tracers, concrete arrays, NumPy arrays and numbers mixed.  Inside a traced function it records
primitives; outside it computes at once.  `docs/dtypes.md` gives the promotion of dtypes.
"""

# size: two lists of names, what is imported and what is exported

from __future__ import annotations

import difflib
import keyword
from typing import TYPE_CHECKING, Any

from poot.dtypes import bf16, bool_, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from poot.trace.ops import indexing as indexing
from poot.trace.ops import linalg, nn, random
from poot.trace.ops import numpy_names as numpy_names
from poot.trace.ops import numpy_protocol as numpy_protocol
from poot.trace.ops import update as update
from poot.trace.ops.control import cond, fori_loop, scan, switch, while_loop
from poot.trace.ops.creation import (
    arange,
    asarray,
    astype,
    empty,
    empty_like,
    eye,
    full,
    full_like,
    iota,
    linspace,
    meshgrid,
    ones,
    ones_like,
    tril,
    triu,
    zeros,
    zeros_like,
)
from poot.trace.ops.einsum import einsum

from poot.trace.ops.registered import primitive_function  # isort: skip
from poot.trace.ops.elementwise import (
    abs,
    add,
    atan2,
    ceil,
    clip,
    cos,
    divide,
    divmod,
    erf,
    exp,
    expm1,
    floor,
    floor_divide,
    log,
    log1p,
    maximum,
    minimum,
    multiply,
    negative,
    positive,
    pow,
    reciprocal,
    remainder,
    round,
    rsqrt,
    sign,
    sin,
    sqrt,
    square,
    subtract,
    tanh,
    trunc,
)
from poot.trace.ops.functions import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    cbrt,
    copysign,
    cosh,
    exp2,
    fmod,
    hypot,
    log2,
    log10,
    logaddexp,
    nextafter,
    sinh,
    tan,
)
from poot.trace.ops.indexing import take, take_along_axis
from poot.trace.ops.inspection import can_cast, finfo, iinfo, isdtype, result_type
from poot.trace.ops.linalg import diagonal, dot, dot_general, matmul, outer, tensordot, trace, vecdot
from poot.trace.ops.logic import (
    allclose,
    array_equal,
    bitcast,
    bitwise_and,
    bitwise_count,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    count_leading_zeros,
    equal,
    greater,
    greater_equal,
    isclose,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    nan_to_num,
    not_equal,
    signbit,
    where,
)
from poot.trace.ops.manipulation import (
    broadcast_arrays,
    broadcast_to,
    concat,
    expand_dims,
    flip,
    matrix_transpose,
    moveaxis,
    pad,
    permute_dims,
    repeat,
    reshape,
    roll,
    split,
    squeeze,
    stack,
    swapaxes,
    tile,
    transpose,
    unstack,
)
from poot.trace.ops.namespace import API_VERSION, REFUSED, array_namespace_info, from_dlpack, refuse
from poot.trace.ops.numpy_names import (
    atleast_1d,
    atleast_2d,
    average,
    column_stack,
    copy,
    degrees,
    diag,
    fliplr,
    flipud,
    hstack,
    median,
    nanmean,
    nansum,
    ptp,
    radians,
    ravel,
    vstack,
)
from poot.trace.ops.ordering import (
    argmax,
    argmin,
    argsort,
    cummax,
    cummin,
    cumprod,
    cumsum,
    cumulative_prod,
    cumulative_sum,
    diff,
    searchsorted,
    sort,
    top_k,
)
from poot.trace.ops.parts import dynamic_slice, dynamic_update_slice
from poot.trace.ops.reductions import all, any, count_nonzero, max, mean, min, prod, std, sum, var
from poot.trace.ops.results import MAY_GIVE_BACK, of_its_own
from poot.trace.primitives import table

# Constants and dtypes under the array API's names.
e = 2.718281828459045
pi = 3.141592653589793
inf = float("inf")
nan = float("nan")
newaxis = None
bool = bool_
int8, int16, int32, int64 = i8, i16, i32, i64
uint8, uint16, uint32, uint64 = u8, u16, u32, u64
float16, bfloat16, float32, float64 = f16, bf16, f32, f64

# NumPy's names.
arcsin, arccos, arctan, arctan2 = asin, acos, atan, atan2
arcsinh, arccosh, arctanh = asinh, acosh, atanh
around = round
left_shift, right_shift = bitwise_left_shift, bitwise_right_shift
fabs, rint = abs, round
absolute = abs
deg2rad, rad2deg = radians, degrees
amax, amin = max, min
concatenate = concat
invert = bitwise_not = bitwise_invert
mod = remainder
power = pow
true_divide = divide

__array_api_version__ = API_VERSION
__array_namespace_info__ = array_namespace_info

__all__ = [
    "__array_api_version__",
    "__array_namespace_info__",
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "all",
    "allclose",
    "amax",
    "amin",
    "any",
    "arange",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "argsort",
    "around",
    "array_equal",
    "asarray",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "atleast_1d",
    "atleast_2d",
    "average",
    "bfloat16",
    "bitcast",
    "bitwise_and",
    "bitwise_count",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bool",
    "broadcast_arrays",
    "broadcast_to",
    "can_cast",
    "cbrt",
    "ceil",
    "clip",
    "column_stack",
    "concat",
    "concatenate",
    "cond",
    "copy",
    "copysign",
    "cos",
    "cosh",
    "count_leading_zeros",
    "count_nonzero",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "deg2rad",
    "degrees",
    "diag",
    "diagonal",
    "diff",
    "divide",
    "divmod",
    "dot",
    "dot_general",
    "dynamic_slice",
    "dynamic_update_slice",
    "e",
    "einsum",
    "empty",
    "empty_like",
    "equal",
    "erf",
    "exp",
    "exp2",
    "expand_dims",
    "expm1",
    "eye",
    "fabs",
    "finfo",
    "flip",
    "fliplr",
    "flipud",
    "float16",
    "float32",
    "float64",
    "floor",
    "floor_divide",
    "fmod",
    "fori_loop",
    "from_dlpack",
    "full",
    "full_like",
    "greater",
    "greater_equal",
    "hstack",
    "hypot",
    "iinfo",
    "inf",
    "int16",
    "int32",
    "int64",
    "int8",
    "invert",
    "iota",
    "isclose",
    "isdtype",
    "isfinite",
    "isinf",
    "isnan",
    "left_shift",
    "less",
    "less_equal",
    "linalg",
    "linspace",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "matrix_transpose",
    "max",
    "maximum",
    "mean",
    "median",
    "meshgrid",
    "min",
    "minimum",
    "mod",
    "moveaxis",
    "multiply",
    "nan",
    "nan_to_num",
    "nanmean",
    "nansum",
    "negative",
    "newaxis",
    "nextafter",
    "nn",
    "not_equal",
    "ones",
    "ones_like",
    "outer",
    "pad",
    "permute_dims",
    "pi",
    "positive",
    "pow",
    "power",
    "primitive_function",
    "prod",
    "ptp",
    "rad2deg",
    "radians",
    "random",
    "ravel",
    "reciprocal",
    "remainder",
    "repeat",
    "reshape",
    "result_type",
    "right_shift",
    "rint",
    "roll",
    "round",
    "rsqrt",
    "scan",
    "searchsorted",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sort",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "subtract",
    "sum",
    "swapaxes",
    "switch",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tensordot",
    "tile",
    "top_k",
    "trace",
    "transpose",
    "tril",
    "triu",
    "true_divide",
    "trunc",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "unstack",
    "var",
    "vecdot",
    "vstack",
    "where",
    "while_loop",
    "zeros",
    "zeros_like",
]

for _name in MAY_GIVE_BACK:
    globals()[_name] = of_its_own(globals()[_name])
    globals()[_name].__module__ = __name__  # where pickle finds it


def __dir__() -> list[str]:
    primitives = (entry.name for entry in table())  # which __getattr__ gives
    return sorted({*__all__, *(name for name in primitives if not keyword.iskeyword(name))})


if not TYPE_CHECKING:  # type checkers report unknown names themselves

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        function = primitive_function(name)
        if function is not None:
            return function
        known = {key: f"ops.{key}" for key in __all__}
        known |= {
            key: f"ops.{group.__name__.rpartition('.')[2]}.{key}"
            for group in (linalg, nn, random)
            for key in group.__all__
        }
        if name in REFUSED:
            raise refuse(f"ops.{name}", REFUSED[name])
        near = difflib.get_close_matches(name, known, n=1)
        remedy = f"did you mean `{known[near[0]]}`?" if near else "`dir(ops)` lists what there is."
        raise refuse(f"ops.{name}", remedy)
