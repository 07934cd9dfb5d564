"""Scalar expansions: operations that no renderer spells, in native ones, so that every target computes the same.

`rows` fills the table of `poot.kernel.ops`; `expand_kernel` applies it; `bounds` states how good the results are.
The f32 expansions use 32-bit integers and floats alone.  They hold their bounds whether or not a target contracts
products and sums into fma.  Compilers that reassociate float sums (WGSL's may) could undo the reductions of exp and sin
(`x - n c0 - n c1`) and the two-word sums of pow; a target that does so has to fence those sums with a run-time zero.
"""

from __future__ import annotations

from poot.kernel.expand import rows as rows
from poot.kernel.expand.rewrite import expand_kernel

__all__ = ["expand_kernel"]
