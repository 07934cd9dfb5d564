"""The table of primitives: importing this package registers every entry."""

from poot.trace.primitives import map as _map
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
    effects_of,
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
    "effects_of",
    "lookup",
    "register",
    "table",
    "unregister",
]

del _map
