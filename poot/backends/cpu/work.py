"""How much a launch has to do, roughly, and so how it is cut into chunks for the workers."""

from __future__ import annotations

from poot.kernel.ir import Const, For, If, Kernel, Stmt, While, blocks, operands, statements

#: Lane operations below which waking workers costs more than it brings (a few microseconds of work).
_INLINE = 60_000
#: Lane operations that make a chunk worth handing out.
_CHUNK = 30_000
#: Chunks for each thread, so that a late thread leaves little undone.
_CHUNKS_PER_THREAD = 8
_UNKNOWN_TRIPS = 16
#: Lane operations that a chunk may have at most, since a chunk is never interrupted (some tens of milliseconds).
_LONGEST = 100_000_000
#: Lane operations of a launch after which nobody asks for the time: ten microseconds, so that thousands may follow.
_QUICK = 50_000


def group_work(kernel: Kernel) -> int:
    """Lane operations of one work-group: expression nodes times the trips of the loops around them."""
    return max(1, _block(kernel.body)) * kernel.group_invocations


def _block(body: tuple[Stmt, ...]) -> int:
    total = 0
    for stmt in body:
        inner = sum(_block(block) for block in blocks(stmt))
        match stmt:
            case For():
                total += inner * _trips(stmt)
            case While():
                total += inner * _UNKNOWN_TRIPS
            case If():
                total += inner
            case _:
                total += sum(_nodes(expr) for expr in operands(stmt))
    return total


def _nodes(expr: object) -> int:
    return 1 + sum(_nodes(child) for child in operands(expr))  # type: ignore[arg-type]


def _trips(loop: For) -> int:
    if isinstance(loop.start, Const) and isinstance(loop.stop, Const):
        return max(0, -(-(int(loop.stop.value) - int(loop.start.value)) // loop.step))
    return _UNKNOWN_TRIPS


def is_steady(kernel: Kernel) -> bool:
    """Whether the trips of a kernel's loops are known, and `group_work` therefore is no guess."""
    loops = [stmt for stmt in statements(kernel.body) if isinstance(stmt, (For, While))]
    return all(isinstance(loop, For) and _is_counted(loop) for loop in loops)


def _is_counted(loop: For) -> bool:
    return isinstance(loop.start, Const) and isinstance(loop.stop, Const)


def is_quick(work: int, groups: int) -> bool:
    """Whether a launch is over so soon that reading a clock after it would be a waste."""
    return work * groups < _QUICK


def plan_chunks(work: int, groups: int, threads: int) -> tuple[int, bool]:
    """Groups a chunk, and whether the launch stays on the calling thread."""
    if threads == 1 or work * groups < _INLINE:
        return max(1, min(groups, _LONGEST // work)), True
    grain = max(-(-groups // (threads * _CHUNKS_PER_THREAD)), -(-_CHUNK // work))
    return max(1, min(grain, -(-groups // threads), _LONGEST // work)), False
