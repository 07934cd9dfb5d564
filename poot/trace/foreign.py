"""Which values are arrays of other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

from poot.foreign import has_elements
from poot.trace.array import Array


def is_foreign(value: Any) -> bool:
    """Whether a value is an array of another library, NumPy included; NumPy's scalars are none."""
    return not isinstance(value, (Array, np.generic)) and has_elements(value)
