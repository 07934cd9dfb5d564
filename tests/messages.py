"""Messages of errors, as tests compare them."""

from __future__ import annotations

import re


def without_line(error: BaseException) -> str:
    """An error's message but for the user's line, which is of the test itself."""
    return re.sub(r"\n  at .*?(?=\n  Remedy|\Z)", "", str(error), flags=re.DOTALL)
