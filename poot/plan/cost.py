"""What the planner assumes of a target: work-group widths, and the costs that decide what is fused and how.

Costs are in scalar operations of a busy device; they only have to rank alternatives.  Measured costs would live in a
table keyed by `target.fingerprint`, never in Target.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from poot.dtypes import DType
from poot.target import Target

#: Scalar operations that one element of a primitive costs; 1 where nothing is said.
_WEIGHTS: dict[str, int] = {
    "exp": 16,
    "expm1": 20,
    "log": 16,
    "log1p": 20,
    "sin": 24,
    "cos": 24,
    "tanh": 20,
    "erf": 20,
    "pow": 40,
    "atan2": 40,
    "div": 4,
    "sqrt": 4,
    "rsqrt": 6,
    "recip": 4,
    "floor_div": 8,
    "rem": 8,
}

#: Values at least this dear are kept for a second pass over a row rather than computed again.
DEAR = 8


def weight(primitive: str) -> int:
    """Scalar operations that one element of a MAP costs."""
    return _WEIGHTS.get(primitive, 1)


@dataclass(frozen=True, slots=True)
class Costs:
    """The figures of one kind of device.

    `lanes`: threads of a pointwise work-group.  `row_lanes`: threads that share a row.  `launch`: what starting a
    kernel costs.  `group_weight`: the most operations an element of one kernel may take.  `group_equations`: the most
    equations of one kernel.  `row_cache`: bytes of a row's values that a work-group may keep.  `parallel`: work-groups
    that keep the device busy.  `tile_rows`, `tile_lanes`: the register tile of a contraction.  `stream_rows`,
    `stream_keys`: the fewest queries and keys of attention that is streamed; `stream_lanes`: its queries a work-group,
    `stream_block`: its keys at a time, `stream_tile`: sums that one query keeps in registers.  `sums`: vectors of sums
    that a tile of another shape may have instead; 0: only that one.  `slabs`: whether a thread may keep sums in memory.
    `dot_sums`: sums that a thread of a dot product along K keeps.
    """

    lanes: int
    row_lanes: int
    launch: int
    group_weight: int
    group_equations: int
    row_cache: int
    parallel: int
    tile_rows: int
    tile_lanes: int
    stream_rows: int
    stream_keys: int
    stream_lanes: int
    stream_block: int
    stream_tile: int
    stream_queries: int = 64
    stream_small: int = 0
    sums: int = 0
    slabs: bool = False
    dot_sums: int = 1

    def vector(self, dtype: DType) -> int:
        """The most lanes of a contraction with sums of a dtype."""
        return self.tile_lanes * 32 // max(dtype.bits, 32)

    def width(self, dtype: DType) -> int:
        """Threads of a pointwise work-group for elements of a dtype."""
        return self.lanes // 2 if dtype.bits > 32 else self.lanes


_CPU = Costs(
    64,
    64,
    1 << 17,
    4096,
    512,
    1 << 19,
    8,
    4,
    64,
    16,
    128,
    64,
    64,
    4,
    sums=20,
    slabs=True,
    stream_small=1 << 20,
    dot_sums=4,
)
_GPU = Costs(256, 256, 1 << 22, 4096, 512, 1 << 14, 512, 8, 64, 16, 128, 64, 32, 8, stream_queries=1 << 15)
_BY_BACKEND = {"cpu": _CPU, "interpret": _CPU}


def costs(target: Target) -> Costs:
    """The figures for a target, within its limits of threads and of the memory that they share."""
    figures = _BY_BACKEND.get(target.backend, _GPU)
    limits = dict(target.limits)
    threads = _below(limits.get("workgroup_invocations", figures.lanes))
    sharing = min(threads, _below(limits.get("workgroup_storage", 16 * figures.row_lanes) // _OPERAND))
    widths = figures.lanes, figures.row_lanes, figures.tile_lanes, figures.stream_lanes
    if threads >= max(widths) and sharing >= figures.row_lanes:
        return figures
    return replace(
        figures,
        lanes=min(figures.lanes, threads),
        row_lanes=min(figures.row_lanes, sharing),
        tile_lanes=min(figures.tile_lanes, threads),
        stream_lanes=min(figures.stream_lanes, threads),
    )


#: Bytes that one operand of a collective takes of shared memory.
_OPERAND = 16


def _below(count: int) -> int:
    """The greatest power of two that is not above a positive count."""
    return 1 << max(count.bit_length() - 1, 0)


#: Rows at most this long are reduced by one thread each.
SHORT_ROW = 32

#: Reductions of at least this many elements into few results go through partial results.
LONG = 1 << 16


def splits(figures: Costs, rows: int, length: int) -> bool:
    """Whether a reduction keeps too little of the device busy when each row is one work-group."""
    return length >= LONG and rows < figures.parallel
