"""The table of primitives: importing this package registers every entry."""

from importlib import import_module

from poot.trace.primitives.base import (
    EXACT,
    Contraction,
    Elementwise,
    Example,
    HostControl,
    Inline,
    Launches,
    Lowering,
    Numerics,
    OracleCall,
    Primitive,
    Pull,
    PullContext,
    Reader,
    Reduction,
    Typing,
    Update,
    effects_of,
    is_movement,
    lookup,
    register,
    table,
    unregister,
)

__all__ = [
    "EXACT",
    "Contraction",
    "Elementwise",
    "Example",
    "HostControl",
    "Inline",
    "Launches",
    "Lowering",
    "Numerics",
    "OracleCall",
    "Primitive",
    "Pull",
    "PullContext",
    "Reader",
    "Reduction",
    "Typing",
    "Update",
    "effects_of",
    "is_movement",
    "lookup",
    "register",
    "table",
    "unregister",
]

#: Every module of entries, in the order of the reference pages.
_MODULES = ("map", "reduce", "view", "join", "index", "contract", "accumulate", "order", "scatter", "random", "control")

for _module in _MODULES:
    import_module(f"{__name__}.{_module}")
