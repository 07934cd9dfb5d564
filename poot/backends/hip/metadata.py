"""What a code object for AMD's GPUs uses, as the metadata in its assembly states it."""

from __future__ import annotations

import re

#: What resources are called, and the rows of the metadata that they are the sums of.
_ROWS = {
    "vgprs": ("vgpr_count",),
    "sgprs": ("sgpr_count",),
    "spills": ("vgpr_spill_count", "sgpr_spill_count"),
    "stack": ("private_segment_fixed_size",),
    "shared": ("group_segment_fixed_size",),
}


def usage(assembly: str) -> tuple[tuple[str, int], ...]:
    """Vector and scalar registers, how many of them are spilled, bytes of stack and of static shared memory."""

    def row(name: str) -> int:
        found = re.search(rf"^\s*(?:- )?\.{name}:\s*(\d+)$", assembly, re.MULTILINE)
        return int(found.group(1)) if found else 0

    return tuple((name, sum(map(row, rows))) for name, rows in _ROWS.items())
