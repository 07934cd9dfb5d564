"""IPython's `%autoreload` carries a new definition into what was imported from a module before.

It knows how to do so for functions and classes.  A traced function or a kernel is an object around a function, for
which it has a table of rules that others may add to; they are added when it is loaded, before its first reload.
"""

from __future__ import annotations

import sys
from typing import Any

_known: set[type] = set()


def follow_reloads(kind: type) -> None:
    """Let `%autoreload` turn an old object of `kind` into the new one; the caller has just made an object of it."""
    autoreload: Any = sys.modules.get("IPython.extensions.autoreload")
    if autoreload is None or kind in _known:
        return
    _known.add(kind)

    def applies(old: object, new: object) -> bool:
        return isinstance(old, kind) and isinstance(new, kind)

    def update(old: Any, new: Any) -> None:
        old.__dict__.clear()
        old.__dict__.update(new.__dict__)

    autoreload.UPDATE_RULES.append((applies, update))
