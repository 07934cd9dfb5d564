"""Write the dtypes that JAX promotes to, for the tests: tests/data/jax_promotion.json.

    python -m venv /tmp/jax && /tmp/jax/bin/pip install jax
    /tmp/jax/bin/python tools/jax_promotion.py > tests/data/jax_promotion.json

JAX is no dependency of the tests: they read the table. It holds, for every ordered pair of operands, the dtype of
`jnp.add` on them with 64-bit types enabled, followed by `*` where the result is weak. Operands are arrays of the
dtypes, weak arrays (`int*` and `float*`), Python's scalars, and NumPy's.
"""

from __future__ import annotations

import importlib
import json
from typing import Any

import numpy as np

DTYPES = (
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
    "bfloat16", "float16", "float32", "float64",
)  # fmt: skip
PYTHON = {"True": True, "1": 1, "1.0": 1.0}
NUMPY = ("bool", "uint8", "int8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")


def operands(jnp: Any) -> dict[str, Any]:
    """One operand of every kind, by its name in the table."""
    found: dict[str, Any] = {name: jnp.ones(2, name) for name in DTYPES}
    found |= {"int*": jnp.asarray(1), "float*": jnp.asarray(1.0)}
    found |= PYTHON
    found |= {f"np.{name}": np.dtype(name).type(1) for name in NUMPY}
    return found


def main() -> None:
    """Print the table, one pair a line."""
    jax: Any = importlib.import_module("jax")
    jnp: Any = importlib.import_module("jax.numpy")
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    kinds = operands(jnp)
    assert kinds["int*"].weak_type and kinds["float*"].weak_type
    rows: dict[str, str] = {}
    for left, x in kinds.items():
        for right, y in kinds.items():
            result = jnp.add(x, y)
            rows[f"{left} {right}"] = f"{result.dtype}{'*' if result.weak_type else ''}"
    print(json.dumps({"made_by": "tools/jax_promotion.py", "jax": jax.__version__, "result": rows}, indent=0))


if __name__ == "__main__":
    main()
